"""Issued invoices are sent by e-mail with the PDF, once, to whom the billing profile says."""

from datetime import UTC, datetime

import msgspec
import pytest
from django.test import Client

from billing import granted_credits, tax_actions
from billing.models import Invoice
from control_plane import config
from control_plane.audit import queries as audit
from control_plane.mail import sending
from control_plane.mail.models import Mail
from control_plane.processes import setbacks
from control_plane.processes.models import Setback
from payments import actions, printing, tasks
from penstock.contract.errors import InvalidRequest
from penstock.rules.payment_words import PAYMENT_WORDS
from tenants.models import Membership, Tenant
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import asked, due, issued, of_amount, worker
from tests.control_plane.world import make_person

PROFILE = {
    "country": "DE", "state": "", "postal_code": "", "city": "Berlin", "line1": "", "line2": "",
    "tax_id_type": "", "tax_id": "",
}  # fmt: skip


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings say where tenants pay by bank."""
    present = config.current()
    invoices = config.InvoicesConfig(bank_lines=("IBAN IE12 3456",))
    made = msgspec.structs.replace(present, invoices=invoices)
    monkeypatch.setattr(config, "current", lambda: made)


def with_owner(tenant: Tenant) -> None:
    person, _ = make_person("owner@acme.example")
    Membership.objects.create(tenant=tenant, person=person, role="owner")


def profile(tenant: Tenant, **changes: str | bool) -> None:
    tax_actions.set_address(TESTER, tenant, now=datetime.now(UTC), **(PROFILE | changes))


def made(world: World) -> Invoice:
    """An issued invoice of 49.01 USD less its bytes, of a tenant with an owner."""
    invoice = issued(world, "acme")
    with_owner(invoice.tenant)
    return invoice


def test_an_invoice_goes_once_to_the_people_who_may_pay_it_with_the_pdf_and_where_to_pay(
    world: World, bank: None
) -> None:
    invoice = made(world)
    worker(3)
    mail = Mail.objects.get()
    assert (mail.to, mail.subject) == ("owner@acme.example", "Invoice INV-000001 of acme")
    assert "IBAN IE12 3456" in mail.text and "with the reference INV-000001" in " ".join(mail.text.split())
    assert f"{asked(invoice).due_at:%Y-%m-%d}" in mail.text
    (attached,) = sending.message_of(mail).attachments
    assert (attached[0], attached[2]) == ("INV-000001.pdf", "application/pdf")
    assert bytes(attached[1]).startswith(b"%PDF-")
    sending.send_due()
    mail.refresh_from_db()
    assert (mail.text, bytes(mail.file)) == ("", b""), "its content is kept no longer"


def test_the_billing_profile_says_where_invoices_go_and_whether_they_are_sent(world: World) -> None:
    first = made(world)
    profile(first.tenant, email="books@acme.example")
    worker()
    assert [one.to for one in Mail.objects.all()] == ["books@acme.example"]
    other = issued(world, "other")
    with_owner_of_other, _ = make_person("owner@other.example")
    Membership.objects.create(tenant=other.tenant, person=with_owner_of_other, role="owner")
    profile(other.tenant, no_mail=True)
    worker()
    assert Mail.objects.count() == 1 and not asked(other).mail_due


def test_a_credit_note_goes_once_to_the_same_people_with_its_pdf_and_why(world: World) -> None:
    invoice = made(world)
    worker()
    Mail.objects.all().delete()
    granted_credits.grant_credit(
        TESTER, invoice, reference="T-1", reason="late support", amount_micro=1_000_000
    )
    granted_credits.grant_credit(TESTER, invoice, reference="T-2", reason="goodwill", amount_micro=2_000_000)
    worker(4)
    first, second = Mail.objects.order_by("pk")
    assert (first.to, first.subject) == ("owner@acme.example", "Credit note CN-000001 of acme")
    text = " ".join(first.text.split())
    assert "1.00 USD of invoice INV-000001 of acme are credited: late support." in text
    assert "are still to be paid" in text
    (attached,) = sending.message_of(first).attachments
    assert (attached[0], attached[2]) == ("CN-000001.pdf", "application/pdf")
    assert bytes(attached[1]).startswith(b"%PDF-")
    assert second.subject == "Credit note CN-000002 of acme"
    assert audit.entries(invoice.tenant.public_id).filter(action="credit_note.mail").count() == 2


def test_credit_notes_are_not_sent_where_the_billing_profile_wants_no_mail(world: World) -> None:
    invoice = made(world)
    profile(invoice.tenant, no_mail=True)
    granted_credits.grant_credit(
        TESTER, invoice, reference="T-1", reason="late support", amount_micro=1_000_000
    )
    worker(2)
    assert not Mail.objects.exists() and asked(invoice).notes_mailed == 1


def test_twenty_invoices_that_cannot_be_printed_hold_no_other_mail_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [issued(world, "bad"), issued(world, "worse")]
    for invoice in bad:
        Membership.objects.create(
            tenant=invoice.tenant, person=make_person(f"{invoice.tenant.name}@x.example")[0], role="owner"
        )
    good = made(world)
    monkeypatch.setattr(tasks, "MAILED_MAX", 2)
    broken = {invoice.pk for invoice in bad}
    whole = printing.printed

    def printed(invoice: Invoice) -> bytes:
        if invoice.pk in broken:
            raise RuntimeError("the printer burns")
        return whole(invoice)

    monkeypatch.setattr(printing, "printed", printed)
    worker()
    assert not Mail.objects.exists(), "the oldest two had their turn"
    worker()
    assert [mail.to for mail in Mail.objects.all()] == ["owner@acme.example"]
    assert setbacks.counts() == {tasks.MAILING: 2}
    assert not tasks.round_has_work(), "what rests wakes no round"
    broken.clear()
    worker()
    assert Mail.objects.count() == 1, "the others rest"
    Setback.objects.update(retry_at=datetime.now(UTC))
    worker()
    assert Mail.objects.count() == 3 and setbacks.counts() == {}
    assert asked(good).mail_due is False


def test_an_invoice_that_was_asked_for_before_there_was_such_mail_is_not_sent(world: World) -> None:
    invoice = of_amount(world.tenant("acme"), 1_000_000)
    with_owner(invoice.tenant)
    worker(2)
    assert not Mail.objects.exists(), "it has no document to print"
    assert not asked(invoice).mail_due


def test_paper_has_the_state_in_the_words_of_the_console(world: World) -> None:
    invoice = made(world)
    worker()
    assert printing.standing(invoice).state == "open"
    due(invoice, 1)
    worker()
    assert printing.standing(invoice).state == PAYMENT_WORDS["past_due"] == "past due"
    actions.give_up(TESTER, invoice, reason="insolvent")
    assert printing.standing(invoice).state == "given up"


@pytest.mark.parametrize(
    "field", ["legal_name", "email", "city", "line1", "line2", "state", "postal_code", "tax_id"]
)
def test_a_billing_profile_refuses_what_is_too_long_for_an_invoice(world: World, field: str) -> None:
    tenant = world.tenant("acme")
    text = "x" * 10_000 + ("@acme.example" if field == "email" else "")
    with pytest.raises(InvalidRequest, match=rf"{field}: 10,0\d\d characters, at most \d+ allowed"):
        profile(tenant, **{field: text}, **({"tax_id_type": "eu_vat"} if field == "tax_id" else {}))


def test_a_billing_profile_that_is_too_long_is_refused_in_the_console(world: World) -> None:
    tenant = world.tenant("acme")
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=tenant, person=person, role="owner")
    client = Client()
    client.cookies["penstock"] = token
    answer = client.post("/t/acme/tax-address", {"country": "DE", "city": "Berlin", "legal_name": "x" * 201})
    assert answer.status_code == 422 and "at most 200 allowed" in answer.content.decode()
