"""Credit notes that operators grant: what they take off, that it is never more than is left, and where they show."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from django.test import Client

from billing import (
    cost_periods,
    credit_note_pdf,
    focus,
    focus_exports,
    granted_credits,
    invoice_pdf,
    paper,
    price_actions,
)
from billing.granted_credits import PartAsked
from billing.models import BillingEntry, CreditNote, Invoice
from control_plane.audit import queries as audit
from payments import actions as receivables
from payments import printing
from payments import queries as payments
from penstock.contract import documents
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.verification import granted_check
from tenants.models import Membership, Tenant
from tenants.roles import Standing
from tests.control_plane.billing.test_terms import (
    FIRST,
    LOST,
    NEW,
    SECOND,
    change,
    cut,
    document_of,
    problems_of,
    terms,
)
from tests.control_plane.billing.world import TESTER, Part, World
from tests.control_plane.world import call, make_house, make_person

CENT = 10_000


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


@pytest.fixture
def invoice(world: World, acme: Tenant) -> Invoice:
    """Of 7.00 for messages and bytes, less a tenth 6.30, with a tax of 19 % 7.50."""
    price_actions.begin_chains(10)
    change(acme, terms(credits=[]))
    cut(world, acme, FIRST, 5)
    made = world.invoice(cut(world, acme, SECOND, 3))
    assert (made.total_micro, [one["kind"] for one in made.charges]) == (
        750 * CENT,
        ["discount"] * 2 + ["tax"],
    )
    receivables.open_receivable(made)
    return made


def granted(invoice: Invoice, *parts: PartAsked, reference: str = "T-1", **asked: Any) -> CreditNote:
    return granted_credits.grant_credit(
        TESTER, invoice, reference=reference, reason="goodwill", parts=parts, **asked
    )


def notes_of(invoice: Invoice) -> list[documents.CreditNoteDocument]:
    names = CreditNote.objects.filter(invoice=invoice).values("public_id")
    entries = BillingEntry.objects.filter(object_id__in=names).order_by("sequence")
    return [documents.read_document(one.document, documents.CreditNoteDocument, "note") for one in entries]


def wrong(invoice: Invoice) -> list[str]:
    """What `verify-invoice` says of the granted credit notes."""
    return [one.message for one in granted_check.check_granted(document_of(invoice), notes_of(invoice))]


def test_an_amount_of_the_whole_has_its_share_of_the_tax_and_lowers_what_is_asked_for(
    invoice: Invoice,
) -> None:
    note = granted(invoice, amount_micro=100 * CENT)
    (document,) = notes_of(invoice)
    # 100 of 750 cents are 16 of the 120 of tax.
    assert [(one["kind"], one["amount_micro"]) for one in note.charges] == [("tax", -16 * CENT)]
    assert (note.total_micro, note.granted_micro, document.granted) == (
        100 * CENT,
        84 * CENT,
        documents.GrantedCredit(reason="goodwill", amount_micro=84 * CENT),
    )
    assert wrong(invoice) == []
    (row,) = payments.with_new_credits()
    receivables.follow_credits(row.public_id)
    assert payments.receivable_of(invoice).open_micro == 650 * CENT
    entry = audit.entries(invoice.tenant.public_id).filter(action="credit_note.grant")[0]
    assert (entry.after["reason"], entry.after["total_micro"]) == ("goodwill", 100 * CENT)


def test_lines_are_credited_as_they_were_charged_with_their_tax(invoice: Invoice) -> None:
    lines = {line.meter: line for line in invoice.lines.all()}
    # 4.00 less a tenth.
    whole = granted(invoice, PartAsked(id=lines["messages_in"].line_id), reference="whole")
    assert [(one.meter, one.quantity, one.amount_micro) for one in whole.lines.all()] == [
        ("messages_in", 0, 360 * CENT)
    ]
    assert whole.total_micro == (360 + 68) * CENT
    part = granted(invoice, PartAsked(id="bytes_in", amount_micro=70 * CENT), reference="part")
    assert part.total_micro == (70 + 13) * CENT
    assert wrong(invoice) == []
    for asked in (PartAsked(id="bytes_in", amount_micro=201 * CENT), PartAsked(id="messages_in")):
        with pytest.raises(InvalidRequest, match="left"):
            granted(invoice, asked, reference="more")
    rest = granted(invoice, reference="rest")
    assert rest.total_micro == (750 - 428 - 83) * CENT
    assert (
        sum(one["amount_micro"] for note in CreditNote.objects.all() for one in note.charges) == -120 * CENT
    )
    assert wrong(invoice) == []
    with pytest.raises(InvalidRequest, match=r"0\.00 USD are left"):
        granted(invoice, reference="again")


def test_what_is_left_of_the_tax_alone_is_credited_and_proven(invoice: Invoice) -> None:
    for meter in ("messages_in", "bytes_in"):
        granted(invoice, PartAsked(id=meter), reference=meter)
    # 0.68 and 0.51 of the 1.20 of tax: each was rounded down.
    rest = granted(invoice, reference="rest")
    assert (rest.total_micro, rest.granted_micro) == (CENT, 0)
    assert wrong(invoice) == []
    assert (granted_credits.left_micro(invoice), granted_credits.creditable(invoice)) == (0, [])


def test_many_small_credits_leave_no_more_tax_than_there_is_left(invoice: Invoice) -> None:
    for count in range(126):
        granted(invoice, amount_micro=5 * CENT, reference=f"small {count}")
    # 0.05 have less than a cent of tax in them: 6.30 are before tax, and what is left is tax.
    assert granted_credits.left_micro(invoice) == 120 * CENT
    assert granted_credits.creditable(invoice) == []
    granted(invoice, amount_micro=7 * CENT, reference="of the tax")
    granted(invoice, reference="rest")
    taxes = [-one["amount_micro"] for note in CreditNote.objects.all() for one in note.charges]
    assert sum(taxes) == 120 * CENT
    assert min(note.granted.amount_micro for note in notes_of(invoice) if note.granted) == 0
    assert wrong(invoice) == []


def test_lines_are_credited_with_no_more_than_an_amount_of_the_whole_has_left(invoice: Invoice) -> None:
    granted(invoice, amount_micro=700 * CENT, reference="whole")
    part = granted(invoice, PartAsked(id="messages_in"), reference="all that is left of it")
    assert (part.total_micro, granted_credits.left_micro(invoice)) == (50 * CENT, 0)
    assert wrong(invoice) == []


def test_costs_by_period_have_what_was_granted_of_the_whole(invoice: Invoice) -> None:
    begins, now = invoice.cut.period_start, datetime.now(UTC)

    def cost() -> int:
        periods = cost_periods.periods_that_begin(invoice.tenant, begins, now, now)
        (period,) = (period for period in periods if period.cut == invoice.cut_id)
        return sum(period.lines.values()) + period.beside_micro + period.tax_micro

    before = cost()
    granted(invoice, amount_micro=100 * CENT)
    assert cost() == before - 100 * CENT


def test_the_same_reference_credits_once_and_another_content_under_it_is_refused(invoice: Invoice) -> None:
    first = granted(invoice, amount_micro=100 * CENT)
    assert granted(invoice, amount_micro=100 * CENT) == first
    with pytest.raises(AlreadyExists, match="another credit note"):
        granted(invoice, amount_micro=200 * CENT)
    assert CreditNote.objects.count() == 1


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"amount_micro": 751 * CENT}, r"7\.51 USD cannot be credited, 7\.50 USD are left"),
        ({"amount_micro": 0}, "more than 0 required"),
        ({"amount_micro": 5}, "an amount of 2 places required"),
        ({"parts": [PartAsked(id="nothing")]}, "no line, fee or minimum"),
        ({"parts": [PartAsked(id="bytes_in", amount_micro=CENT)] * 2}, "each part of the invoice once"),
        ({"parts": [PartAsked(id="bytes_in")], "amount_micro": CENT}, "not both"),
        ({"parts": [PartAsked(id="DE")]}, "no line, fee or minimum"),
    ],
)
def test_what_cannot_be_credited_is_refused_with_what_is_left(
    invoice: Invoice, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        granted_credits.grant_credit(TESTER, invoice, reference="T-1", reason="goodwill", **asked)
    assert not CreditNote.objects.exists()


def test_a_void_invoice_and_a_draft_are_not_credited(invoice: Invoice) -> None:
    receivables.void(TESTER, invoice, reason="wrong")
    with pytest.raises(InvalidRequest, match="it is void"):
        granted(invoice)
    Invoice.objects.filter(pk=invoice.pk).update(status="draft", total_micro=None, issued_at=None)
    invoice.refresh_from_db()
    with pytest.raises(InvalidRequest, match="this one is a draft"):
        granted(invoice)


ALTERED: dict[str, Any] = {
    "total": {"total_micro": 101 * CENT},
    "more than was left": {
        "total_micro": 800 * CENT,
        "granted": documents.GrantedCredit(reason="goodwill", amount_micro=784 * CENT),
    },
    "without its tax": {"charges": ()},
    "format": {"format": 1, "charges": msgspec.UNSET},
    "a discount": {
        "charges": (
            documents.CreditedCharge(kind="discount", name="di_1", meter="", amount_micro=-16 * CENT),
        )
    },
    "a line that is not there": {
        "lines": (
            documents.CreditedLine(
                id="cl_1", meter="requests", unit="", unit_size=1, quantity=0, amount_micro=1
            ),
        )
    },
    "offsets": {
        "ranges": (
            documents.CreditedRange(
                topic="orders", topic_id="0" * 32, partition=0, log_generation=1, first_offset=0,
                end_offset=1, messages=1, bytes=1,
            ),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("change_of", list(ALTERED))
def test_each_alteration_of_a_granted_credit_note_is_named(invoice: Invoice, change_of: str) -> None:
    granted(invoice, amount_micro=100 * CENT)
    (note,) = notes_of(invoice)
    altered = msgspec.structs.replace(note, **ALTERED[change_of])
    assert list(granted_check.check_granted(document_of(invoice), [altered]))


def test_a_second_credit_note_over_the_same_is_named(invoice: Invoice) -> None:
    granted(invoice)
    (note,) = notes_of(invoice)
    assert list(granted_check.check_granted(document_of(invoice), [note, note]))


def test_the_rows_of_focus_add_up_to_the_credit_note(invoice: Invoice) -> None:
    granted(invoice, PartAsked(id="messages_in", amount_micro=100 * CENT), reference="part")
    granted(invoice, amount_micro=50 * CENT, reference="whole")
    rows = list(
        focus_exports.rows(invoice.tenant, issuer="P", first=None, end=None, invoice=invoice.public_id)
    )
    for note in CreditNote.objects.all():
        mine = [row for row in rows if row["InvoiceId"] == note.public_id]
        assert sum(Decimal(row["BilledCost"]) for row in mine) == -Decimal(note.total_micro) / 1_000_000
        assert all(row["ChargeClass"] == "Correction" for row in mine)
        assert all("goodwill" in row["ChargeDescription"] for row in mine)
    assert list(focus.as_csv(rows))


def test_the_proof_names_what_was_granted_beside_what_was_lost(invoice: Invoice) -> None:
    granted(invoice, amount_micro=100 * CENT)
    assert granted_check.by_loss(notes_of(invoice)) == []
    (said,) = granted_check.shown(document_of(invoice), notes_of(invoice))
    assert said.endswith("of 1.00 USD was granted: goodwill")


def test_an_operator_grants_over_rest_and_no_one_else(invoice: Invoice) -> None:
    house = make_house("other")
    path = f"/v1/billing/invoices/{invoice.public_id}/credit-notes"
    body = {
        "reference": "T-1",
        "reason": "goodwill",
        "parts": [{"part": "bytes_in", "amount_micro": 10 * CENT}],
    }
    assert call("POST", path, body, token=house.credentials[Standing.OWNER]).status == 403
    operator = house.credentials[Standing.OPERATOR]
    assert call("POST", f"{path}?dry_run=true", body, token=operator).status == 200
    assert not CreditNote.objects.exists()
    made = call("POST", path, body, token=operator)
    assert (made.status, made.body["total_micro"], made.body["reason"], made.body["cut"]) == (
        201,
        11 * CENT,
        "goodwill",
        None,
    )
    assert call("POST", path, body, token=operator).body["id"] == made.body["id"]
    assert call("POST", path, body | {"reason": "other"}, token=operator).status == 409
    too_much = call("POST", path, body | {"reference": "T-2", "parts": [{"part": "bytes_in", "amount_micro": 10**9}]},
                    token=operator)  # fmt: skip
    assert too_much.status == 400 and "are left of it" in too_much.body["detail"]
    unknown = call("POST", "/v1/billing/invoices/inv_nothing/credit-notes", body, token=operator)
    assert unknown.status == 404


def test_an_operator_grants_in_the_console_and_the_tenant_sees_why(invoice: Invoice) -> None:
    client = Client()
    client.post("/operator/sign-in", {"token": make_house("other").credentials[Standing.OPERATOR]})
    address = f"/operator/receivables/{invoice.public_id}/credit"
    page = client.get(address).content.decode()
    assert "7.50 USD" in page and "messages in" in page and "3.60 USD" in page
    asked = {"part": "", "amount": "9.00", "reason": "late support", "reference": "T-1"}
    refused = client.post(address, asked)
    assert refused.status_code == 422 and "7.50 USD are left" in refused.content.decode()
    assert client.post(address, asked | {"amount": "1.00"}).status_code == 302
    assert CreditNote.objects.get().total_micro == 100 * CENT
    assert "credit" in client.get("/operator/receivables?show=all").content.decode()


def test_a_loss_that_is_seen_after_a_credit_was_granted_gives_back_no_more_than_the_whole(
    world: World, acme: Tenant
) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[]))
    cut(world, acme, FIRST, 5)
    second = world.invoice(cut(world, acme, SECOND, 3))
    receivables.open_receivable(second)
    granted(second)
    receivable = payments.receivable_of(second)
    receivables.follow_credits(receivable.public_id)
    assert payments.receivable_of(second).state == "void"
    lost = Part(first=SECOND.end - 500, end=SECOND.end, size=500_000, generation=1)
    anew = Part(first=SECOND.end - 500, end=SECOND.end - 400, size=100_000, generation=2)
    cut(world, acme, anew, 1, lost=lost, start=SECOND.end)
    by_loss = CreditNote.objects.filter(invoice=second, cut__isnull=False)
    assert by_loss.count() == 1
    receivables.follow_credits(receivable.public_id)
    row = payments.receivable_of(second)
    assert (row.credited_micro, row.overpaid_micro) == (row.total_micro, 0)
    assert sum(note.total_micro for note in CreditNote.objects.all()) > row.total_micro
    page = invoice_pdf.invoice_page(second, printing.issuer(), printing.standing(second))
    assert '<td class="num">0.00 USD</td>' in page.partition("Remains")[2]
    rows = list(focus_exports.rows(acme, issuer="P", first=None, end=None, invoice=second.public_id))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == 0, "no more than the invoice is given back"
    adjusted = [row for row in rows if row["ChargeCategory"] == "Adjustment"]
    assert [row["InvoiceId"] for row in adjusted] == [by_loss.get().public_id]
    assert sum(Decimal(row["BilledCost"]) for row in rows if row["InvoiceId"] == by_loss.get().public_id) == 0


def test_a_loss_after_a_line_was_credited_is_credited_as_it_was_billed(world: World, acme: Tenant) -> None:
    price_actions.begin_chains(10)
    change(acme, terms(credits=[]))
    first = world.invoice(cut(world, acme, FIRST, 5))
    second = world.invoice(cut(world, acme, SECOND, 3))
    granted(second, PartAsked(id="messages_in", amount_micro=100 * CENT))
    cut(world, acme, NEW, 1, lost=LOST, start=SECOND.end)
    assert CreditNote.objects.filter(invoice=second).count() == 2
    assert problems_of(second, first) == []


def test_a_credit_note_is_printed_with_seller_buyer_number_reason_lines_and_tax(
    acme: Tenant, invoice: Invoice
) -> None:
    parts = (PartAsked(id="messages_in", amount_micro=100 * CENT),)
    note = granted_credits.grant_credit(
        TESTER, invoice, reference="T-1", reason="late <support>", parts=parts
    )
    page = credit_note_pdf.credit_note_page(note, paper.Issuer(name="Renamed", lines=()))
    document = document_of(invoice)
    assert isinstance(document.seller, documents.Party) and document.seller.name in page
    for text in ("Credit note CN-000001", document.issuer_number, "late &lt;support&gt;", "acme", "Messages in",
                 "1.00 USD", "Before tax", "Tax DE, 19 %", "0.19 USD", "Total credited", "1.19 USD",
                 note.public_id):  # fmt: skip
        assert str(text) in page, text
    assert "Renamed" not in page
    whole = granted(invoice, reference="T-2", amount_micro=119 * CENT)
    page = credit_note_pdf.credit_note_page(whole, paper.Issuer(name="", lines=()))
    assert "The whole invoice" in page and "1.19 USD" in page


def test_a_credit_note_is_a_pdf_over_rest_and_in_the_console(acme: Tenant, invoice: Invoice) -> None:
    note = granted(invoice, amount_micro=CENT)
    operator = make_house("other").credentials[Standing.OPERATOR]
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=acme, person=person, role="owner")
    client = Client()
    client.cookies["penstock"] = token
    address = f"/t/acme/credit-notes/{note.public_id}.pdf"
    assert address in client.get(f"/t/acme/invoices/{invoice.public_id}").content.decode()
    answer = client.get(address)
    assert answer.content.startswith(b"%PDF-")
    assert answer["Content-Disposition"] == 'attachment; filename="credit-note-CN-000001.pdf"'
    headers = {"Authorization": f"Bearer {operator}", "Penstock-Tenant": acme.public_id}
    rest = Client().get(f"/v1/credit-notes/{note.public_id}/pdf", headers=headers)
    assert (rest.status_code, rest["Content-Type"]) == (200, "application/pdf")
    unknown = Client().get("/v1/credit-notes/cn_none/pdf", headers=headers)
    assert unknown.status_code == 404
