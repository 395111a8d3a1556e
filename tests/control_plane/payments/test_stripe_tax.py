"""Stripe Tax: what it is asked, what stands on the invoice and is proven, what is reported, and every fault."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import msgspec
import pytest
import stripe
from django.test import Client

from billing import invoice_pdf, paper, price_actions, tax_actions, tax_shown
from billing.models import CreditNote, Invoice
from billing.tax_models import TaxAddress, TaxCalculation
from control_plane import config
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from demo.fake_stripe import FAULTS, FakeStripe
from payments import actions, stripe_adapter, tasks, tax_reporting
from payments.models import TaxReport
from payments.stripe_shapes import AnsweredFault
from payments.tax_asking import KIND_TAX, ask_next
from penstock.contract import tax_documents
from penstock.contract.errors import PenstockError
from tenants.models import Membership, Tenant
from tests.control_plane.billing.test_terms import (
    FIRST,
    LOST,
    NEW,
    SECOND,
    change,
    document_of,
    hours_ago,
    problems_of,
    terms,
)
from tests.control_plane.billing.world import TESTER, Part, World
from tests.control_plane.payments.conftest import Configure
from tests.control_plane.payments.paying import asked, differences, worker
from tests.control_plane.payments.test_stripe import check_shapes
from tests.control_plane.world import call, make_person

BERLIN = {
    "country": "DE", "state": "", "postal_code": "10115", "city": "Berlin", "line1": "Invalidenstr. 1", "line2": "",
    "tax_id_type": "", "tax_id": "",
}  # fmt: skip


@pytest.fixture
def acme(world: World, fake: FakeStripe, configure: Configure) -> Tenant:
    """A tenant whose tax is stated from its first period on."""
    configure(**msgspec.structs.asdict(config.current().payments) | {"stripe_tax": True})
    tenant = world.tenant("acme")
    price_actions.begin_chains(10)
    return tenant


def live(tenant: Tenant, **changes: str) -> None:
    tax_actions.set_address(TESTER, tenant, now=datetime.now(UTC), **(BERLIN | changes))


def ask(times: int = 1) -> None:
    """Stripe Tax is asked for what waits, each time as if its pause were over."""
    for _ in range(times):
        TaxCalculation.objects.update(retry_at=None)
        ask_next()
        for waiting in Delivery.objects.filter(kind=KIND_TAX, delivered_at=None):
            delivery.deliver(KIND_TAX, waiting.object_id)


def cut(world: World, tenant: Tenant, part: Part, hours: int, lost: Part | None = None) -> Invoice:
    """The invoice of a period that ended so many hours ago; a draft, while its tax is not known."""
    made = world.cut(tenant, [part], end=hours_ago(hours))
    world.covered(made, [part], **({"start_offset": lost.end} if lost else {}))
    if lost is not None:
        world.lost(made, lost)
    world.spark()
    world.bill()
    return world.invoice(made)


def billed(world: World, tenant: Tenant, part: Part, hours: int, lost: Part | None = None) -> Invoice:
    """The same, with its tax."""
    invoice = cut(world, tenant, part, hours, lost)
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "issued", invoice.gaps
    return invoice


def test_a_draft_waits_for_an_address_and_its_tax_and_is_proven_with_what_stripe_said(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme)
    first = billed(world, acme, FIRST, 5)
    TaxAddress.objects.all().delete()
    second = cut(world, acme, SECOND, 3)
    assert (second.status, second.gaps) == ("draft", [tax_actions.NO_ADDRESS])
    live(acme)
    world.bill()
    second.refresh_from_db()
    assert (second.status, second.gaps) == ("draft", [tax_actions.NOT_ASKED])
    ask()
    second.refresh_from_db()
    assert second.status == "issued", second.gaps
    statement = document_of(second).tax_statement
    assert isinstance(statement, tax_documents.TaxStatement)
    _, calculation = fake.all("tax.calculation")
    assert statement.calculation == calculation["id"] and statement.address.city == "Berlin"
    # 2,000 messages above the allowance and 3 MB are 7.00, and 19 % of it 1.33
    assert second.charges == [
        {
            "id": second.charges[0]["id"], "kind": "tax", "name": "DE", "meter": "", "base_micro": 7_000_000,
            "basis_points": 0, "amount_micro": 1_330_000, "reason": calculation["id"],
        }
    ]  # fmt: skip
    assert second.total_micro == 8_330_000
    assert proof(second, first) == [f"stated: 1.33 are what Stripe Tax says in {calculation['id']}"]
    assert calculation["tax_date"] == int(second.cut.period_end.timestamp())
    page = invoice_pdf.invoice_page(second, paper.Issuer(name="Penstock", lines=()), invoice_pdf.Standing())
    (row,) = tax_shown.shown(statement).rows
    assert (row.taxable_micro, row.amount_micro, row.reason) == (7_000_000, 1_330_000, "standard rated")
    assert "19" in row.tax and "DE" in row.where
    for text in ("Tax by jurisdiction", row.where, row.tax, "7.00 USD", "Berlin", calculation["id"]):
        assert text in page, text


def test_it_is_reported_once_issued_and_what_is_given_back_is_reversed(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme)
    first = billed(world, acme, FIRST, 5)
    second = billed(world, acme, SECOND, 3)
    assert not fake.all("tax.transaction"), "nothing is reported before it is asked for"
    worker(2)
    _, sale = fake.all("tax.transaction")
    assert (sale["reference"], sale["type"]) == (second.public_id, "transaction")
    billed(world, acme, NEW, 1, lost=LOST)
    worker(3)
    (note,) = CreditNote.objects.all()
    # 1,000 messages and 1 MB cost 3.00 less, with their tax 3.57.
    assert (note.invoice, note.total_micro) == (second, 3_570_000)
    assert [one["amount_micro"] for one in note.charges] == [-570_000]
    assert proof(second, first) == [f"stated: 1.33 are what Stripe Tax says in {second.charges[0]['reason']}"]
    actions.void(TESTER, second, reason="wrong company")
    worker(2)
    reports = [
        (one.amount, one.tax) for one in TaxReport.objects.filter(receivable=asked(second)).order_by("pk")
    ]
    assert reports == [(833, 133), (-357, -57), (-476, -76)]
    assert sum(amount for amount, _ in reports) == sum(tax for _, tax in reports) == 0
    assert differences() == []


@pytest.mark.parametrize("fault", [one for one in FAULTS if one != "fault after commit"])
def test_whatever_stripe_tax_answers_at_first_the_tax_is_stated_and_reported_once(
    world: World, acme: Tenant, fake: FakeStripe, fault: str
) -> None:
    live(acme)
    fake.faults[:] = [fault, fault]
    invoice = cut(world, acme, FIRST, 3)
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "draft" and invoice.gaps[0].startswith(tax_actions.NOT_ASKED + ": Stripe: ")
    ask(2)
    invoice.refresh_from_db()
    assert invoice.status == "issued", invoice.gaps
    row = actions.open_receivable(invoice)
    gateway = stripe_adapter.configured()
    assert gateway is not None
    fake.faults[:] = [fault]
    with pytest.raises((PenstockError, AnsweredFault)):
        tax_reporting.report(gateway, row)
    worker(3)
    assert [one["reference"] for one in fake.all("tax.transaction")] == [invoice.public_id]
    assert TaxReport.objects.count() == 1 and asked(invoice).problem == ""


def test_a_sale_whose_id_at_stripe_was_lost_is_named_and_not_reported_twice(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme)
    invoice = cut(world, acme, FIRST, 3)
    ask()
    invoice.refresh_from_db()
    fake.make("tax", "tax.transaction", reference=invoice.public_id, reversal=None)
    worker(3)
    assert f"There is a transaction with the reference {invoice.public_id} already" in asked(invoice).problem
    assert len(fake.all("tax.transaction")) == 1 and asked(invoice).stripe_state == "open", "it is collected"


def test_what_stripe_tax_refuses_is_named_and_another_address_asks_again(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme, country="US", state="NY", postal_code="")
    invoice = cut(world, acme, FIRST, 3)
    assert tasks._tax_to_ask()
    ask(2)
    assert not tasks._tax_to_ask(), "a round of payments is woken when the pause is over"
    TaxCalculation.objects.update(retry_at=datetime.now(UTC))
    assert tasks._tax_to_ask()
    TaxCalculation.objects.update(retry_at=datetime.now(UTC) + timedelta(minutes=1))
    invoice.refresh_from_db()
    assert invoice.status == "draft" and "could not determine the customer's tax location" in invoice.gaps[0]
    assert TaxCalculation.objects.get(invoice=invoice).key_version == 3, "no refusal is repeated to its key"
    calls = len(fake.calls)
    ask_next()
    assert len(fake.calls) == calls, "not asked again before a pause"
    live(acme, country="US", state="NY", postal_code="11201")
    world.bill()
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "issued"
    statement = document_of(invoice).tax_statement
    assert isinstance(statement, tax_documents.TaxStatement)
    assert [part.level for part in statement.lines[0].parts] == ["state", "county"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda line: line | {"amount_tax": line["amount_tax"] + 1},
        lambda line: line | {"tax_breakdown": []},
        lambda line: _with_part(line, taxable_amount=line["amount"] + 1),
        lambda line: _with_part(
            line, jurisdiction=line["tax_breakdown"][0]["jurisdiction"] | {"level": "x" * 256}
        ),
    ],
)
def test_an_answer_that_no_invoice_can_hold_is_not_used(
    world: World, acme: Tenant, fake: FakeStripe, wrong: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    live(acme)
    invoice = cut(world, acme, FIRST, 3)
    whole = FakeStripe._page

    def other(self: FakeStripe, kind: str, *arguments: Any) -> Any:
        found = whole(self, kind, *arguments)
        return {**found, "data": [wrong(one) for one in found["data"]]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeStripe, "_page", other)
        ask()
    invoice.refresh_from_db()
    assert invoice.status == "draft" and "Stripe Tax: " in invoice.gaps[0]
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "issued"


def _with_part(line: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """With another first jurisdiction."""
    first, *others = line["tax_breakdown"]
    return line | {"tax_breakdown": [first | changes, *others]}


def test_an_answer_for_an_address_that_changed_meanwhile_is_asked_for_again(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme)
    invoice = cut(world, acme, FIRST, 3)
    whole = FakeStripe._page

    def moved(self: FakeStripe, kind: str, *arguments: Any) -> Any:
        live(acme, country="FR", city="Paris")
        return whole(self, kind, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeStripe, "_page", moved)
        ask()
    invoice.refresh_from_db()
    assert (invoice.status, invoice.gaps) == ("draft", [tax_actions.NOT_ASKED])
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "issued" and invoice.charges[0]["name"] == "FR"
    assert TaxCalculation.objects.get(invoice=invoice).question == 2


def test_a_number_of_a_business_is_sent_and_a_table_of_tax_comes_first(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme, tax_id_type="eu_vat", tax_id="DE123456789")
    first = cut(world, acme, FIRST, 5)
    ask()
    first.refresh_from_db()
    assert [one["amount_micro"] for one in first.charges] == [0], "reverse charge"
    change(acme, terms(discounts=[], credits=[]))
    more = Part(first=2_000, end=30_000, size=3_000_000)
    cut(world, acme, more, 3)  # its terms were fixed when the period before was closed
    ask()
    last = cut(world, acme, Part(first=30_000, end=35_000, size=4_000_000), 1)
    assert last.status == "issued" and [one["reason"] for one in last.charges] == ["VAT"]


def test_without_stripe_the_draft_says_what_to_turn_on(
    world: World, acme: Tenant, fake: FakeStripe, configure: Configure
) -> None:
    live(acme)
    configure()
    invoice = cut(world, acme, FIRST, 3)
    ask()
    invoice.refresh_from_db()
    assert invoice.status == "draft" and "payment through Stripe is off" in invoice.gaps[0]


def proof(invoice: Invoice, previous: Invoice) -> list[str]:
    """What is not shown to be right."""
    return [problem.message for problem in problems_of(invoice, previous)]


def test_shapes_of_the_fakes_tax_are_members_of_the_librarys_types(
    world: World, acme: Tenant, fake: FakeStripe
) -> None:
    live(acme)
    invoice = cut(world, acme, FIRST, 3)
    ask()
    worker(2)
    actions.void(TESTER, invoice, reason="wrong company")
    worker(2)
    types: dict[str, type] = {
        "tax.calculation": stripe.tax.Calculation,
        "tax.calculation_line_item": stripe.tax.CalculationLineItem,
        "tax.transaction": stripe.tax.Transaction,
        "tax.transaction_line_item": stripe.tax.TransactionLineItem,
    }
    check_shapes(fake, types, {"calculation", "transaction"})
    (line,) = fake.all("tax.calculation_line_item")[:1]
    (part,) = line["tax_breakdown"]
    form = stripe.tax.CalculationLineItem.TaxBreakdown
    assert set(part) == set(form.__annotations__) - {"_inner_class_types"}
    assert set(part["jurisdiction"]) == set(form.Jurisdiction.__annotations__)
    assert set(part["tax_rate_details"]) == set(form.TaxRateDetails.__annotations__)


def test_a_tenant_sees_how_it_is_taxed_and_gives_its_address(world: World, acme: Tenant) -> None:
    person, token = make_person("owner@acme.example")
    Membership.objects.create(tenant=acme, person=person, role="owner")
    account = call("GET", "/v1/billing-account", token=token, tenant=acme).body
    assert account == {"currency": "USD", "tax_by": "stripe_tax"}
    assert call("GET", "/v1/prices", token=token, tenant=acme).body["tax_stated_by"] == "stripe_tax"
    client = Client()
    client.cookies["penstock"] = token
    assert "No invoice with tax is issued before you say where you are" in page(client, "/t/acme/invoices")
    assert "as Stripe Tax states it when the invoice is issued" in page(client, "/t/acme/usage")
    wrong = client.post("/t/acme/tax-address", {"country": "de", "city": "Berlin"})
    assert wrong.status_code == 422 and "capital letters" in unescape(wrong.content.decode())
    assert client.post("/t/acme/tax-address", {"country": "DE", "city": "Berlin"}).status_code == 302
    assert "Invoices are to acme in Berlin, DE." in page(client, "/t/acme/invoices")
    assert call("GET", "/v1/billing-account/address", token=token, tenant=acme).body["city"] == "Berlin"
    for given, said in (
        ({"country": "Germany"}, "country"),
        ({"country": "DE", "tax_id": "1"}, "a number and its type together"),
        ({"country": "DE", "city": "a\nb"}, "control character"),
        ({"country": "DE", "tax_id": "1", "tax_id_type": "vat"}, "as eu_vat"),
    ):
        refused = call("PUT", "/v1/billing-account/address", given, token=token, tenant=acme)
        assert refused.status in (400, 422) and said in str(refused.body), refused.body


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.content
    return unescape(answer.content.decode())
