"""Collection through Stripe: what it is given, what is checked before it is finalized, and every fault on the way."""

from typing import Any

import pytest
import stripe

from billing.models import Invoice, InvoiceLine
from demo.fake_stripe import FakeStripe
from payments import actions
from payments.models import StripeCustomer
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import (
    CENT,
    again,
    asked,
    credit,
    deliver,
    differences,
    due,
    issued,
    of_amount,
    worker,
)

MONEY = ("payment", "refund")


def customer_of(fake: FakeStripe) -> str:
    (one,) = fake.all("customer")
    return str(one["id"])


def test_an_invoice_is_at_stripe_line_by_line_and_can_be_paid_on_its_page(
    world: World, fake: FakeStripe
) -> None:
    invoice = issued(world, "acme")
    worker()
    row = asked(invoice)
    (theirs,) = fake.all("invoice")
    assert (theirs["status"], theirs["total"] * CENT) == ("open", invoice.total_micro)
    items = {one["metadata"]["penstock_line"]: one["amount"] * CENT for one in fake.all("invoiceitem")}
    assert items == {line.line_id: line.amount_micro for line in invoice.lines.all() if line.amount_micro}
    assert (row.state, row.stripe_state, row.pay_url) == ("open", "open", theirs["hosted_invoice_url"])
    fake.pay_on_page(theirs["id"])
    again(invoice)
    row = asked(invoice)
    assert (row.state, row.open_micro, row.pay_url) == ("paid", 0, "")
    assert differences() == []


def finer_than_cents(invoice: Invoice) -> int:
    """As by a price book with six digits, with a discount and tax."""
    lines = list(invoice.lines.order_by("position"))
    amounts = [10_006_000 + number for number in range(len(lines))]
    for line, amount in zip(lines, amounts, strict=True):
        InvoiceLine.objects.filter(pk=line.pk).update(amount_micro=amount)
    charges = [
        {"id": "ic_1", "kind": "discount", "name": "spring", "meter": "", "amount_micro": -1_234_567},
        {"id": "ic_2", "kind": "tax", "name": "DE", "meter": "", "amount_micro": 3_579_975},
    ]
    total = sum(amounts) - 1_234_567 + 3_579_975
    Invoice.objects.filter(pk=invoice.pk).update(charges=charges, total_micro=total)
    invoice.refresh_from_db()
    return total


def test_of_an_invoice_with_charges_and_parts_of_cents_whole_cents_are_collected(
    world: World, fake: FakeStripe
) -> None:
    invoice = issued(world, "acme")
    total = finer_than_cents(invoice)
    assert total % CENT
    worker()
    (theirs,) = fake.all("invoice")
    assert (theirs["status"], theirs["total"]) == ("open", total // CENT), asked(invoice).problem
    items = {one["metadata"]["penstock_line"]: one["amount"] * CENT for one in fake.all("invoiceitem")}
    exact = {line.line_id: line.amount_micro for line in invoice.lines.all()}
    exact |= {one["id"]: one["amount_micro"] for one in invoice.charges}
    assert items.keys() == exact.keys()
    assert all(abs(items[name] - exact[name]) < CENT for name in exact)
    fake.pay_on_page(theirs["id"])
    again(invoice)
    assert (asked(invoice).state, asked(invoice).open_micro) == ("paid", 0)
    assert differences() == []


@pytest.mark.parametrize("paid", [False, True])
def test_credit_notes_finer_than_cents_leave_what_the_rest_costs_in_whole_cents(
    world: World, fake: FakeStripe, paid: bool
) -> None:
    invoice = issued(world, "acme")
    total = finer_than_cents(invoice)
    worker()
    (theirs,) = fake.all("invoice")
    if paid:
        fake.pay_on_page(theirs["id"])
    for micro in (3_333_333, 4_000, 1_111_111):
        credit(invoice, micro)
        total -= micro
        worker(2)
    row = asked(invoice)
    assert (row.total_micro - row.credited_micro) == total // CENT * CENT
    assert (row.state, row.overpaid_micro) == ("paid" if paid else "open", 0)
    assert row.open_micro == (0 if paid else total // CENT * CENT)
    assert differences() == []


def test_an_invoice_of_less_than_a_cent_is_paid_at_once_and_stripe_hears_nothing(
    world: World, fake: FakeStripe
) -> None:
    invoice = issued(world, "acme")
    Invoice.objects.filter(pk=invoice.pk).update(total_micro=CENT - 1)
    worker(2)
    assert (asked(invoice).state, asked(invoice).total_micro) == ("paid", 0)
    assert fake.all("invoice") == []


def test_a_tenant_with_a_payment_method_is_charged_once(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    customer = fake.make(
        "cus", "customer", invoice_settings={}, metadata={"penstock_tenant": invoice.tenant.public_id}
    )
    fake.give_method(customer["id"])
    worker(3)
    assert asked(invoice).state == "paid"
    assert fake.charged(asked(invoice).stripe_invoice) * CENT == invoice.total_micro
    assert StripeCustomer.objects.get().method == "visa ending in 4242"
    assert len(fake.all("customer")) == 1
    assert differences() == []


def test_a_declined_method_is_named_and_tried_again_with_the_reminder(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    customer = fake.make(
        "cus", "customer", invoice_settings={}, metadata={"penstock_tenant": invoice.tenant.public_id}
    )
    fake.give_method(customer["id"])
    fake.declines = True
    worker(3)
    tries = [path for _, path in fake.calls if path.endswith("/pay")]
    assert (len(tries), asked(invoice).state) == (1, "open")
    assert "visa ending in 4242 was declined" in asked(invoice).problem
    fake.declines = False
    due(invoice, 0)
    worker()
    assert (asked(invoice).state, asked(invoice).problem) == ("paid", "")


@pytest.mark.parametrize("change", ["amount", "item"])
def test_a_total_that_differs_keeps_the_draft_and_is_named(
    world: World, fake: FakeStripe, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    invoice = issued(world, "acme")
    worker()
    (theirs,) = fake.all("invoice")
    theirs["status"] = "draft"
    if change == "item":
        fake.make("ii", "invoiceitem", invoice=theirs["id"], amount=1)
    else:
        fake.all("invoiceitem")[0]["amount"] += 1
    fake._sum(theirs)
    again(invoice)
    deliver()
    assert theirs["status"] == "draft"
    assert "not finalized" in asked(invoice).problem
    assert caplog.text.count("an invoice is not collected") == 1
    assert {one["kind"] for one in differences()} >= {"state", "problem"}
    fake.all("invoiceitem")[0]["amount"] -= change == "amount"
    if change == "item":
        del fake.objects[fake.all("invoiceitem")[-1]["id"]]
    fake._sum(theirs)
    fake.keys.clear()
    deliver()
    assert (theirs["status"], asked(invoice).problem) == ("open", "")


def test_a_credit_note_before_and_after_finalization_and_after_payment(
    world: World, fake: FakeStripe
) -> None:
    invoice = issued(world, "acme")
    credit(invoice, 100 * CENT)
    worker(2)
    (theirs,) = fake.all("invoice")
    total = invoice.total_micro or 0
    assert theirs["amount_remaining"] * CENT == total - 100 * CENT
    credit(invoice, 200 * CENT)
    worker()
    assert theirs["amount_remaining"] * CENT == total - 300 * CENT
    fake.pay_on_page(theirs["id"])
    credit(invoice, 300 * CENT)
    worker()
    worker()
    again(invoice)
    row = asked(invoice)
    assert (row.state, row.paid_micro, row.refunded_micro) == ("paid", total - 300 * CENT, 300 * CENT)
    assert [one["amount"] for one in fake.all("refund")] == [300]
    assert differences() == []


def test_what_is_void_paid_by_bank_or_given_up_is_so_at_stripe(world: World, fake: FakeStripe) -> None:
    void, bank, gone = (issued(world, name) for name in ("void", "bank", "gone"))
    worker()
    credit(void, void.total_micro or 0)
    actions.mark_paid(TESTER, bank, reference="bank 1")
    actions.give_up(TESTER, gone, reason="insolvent")
    worker()
    states = {
        asked(one).state: fake.objects[asked(one).stripe_invoice]["status"] for one in (void, bank, gone)
    }
    assert states == {"void": "void", "paid": "paid", "uncollectible": "uncollectible"}
    assert not fake.all("invoice_payment")
    assert differences() == []


def test_what_operators_make_void_is_void_at_stripe_with_what_it_carries_waiting(
    world: World, fake: FakeStripe
) -> None:
    plain, draft, gone = (issued(world, name) for name in ("plain", "draft", "gone"))
    small = of_amount(issued(world, "many").tenant, 30 * CENT)
    carrier = Invoice.objects.get(tenant=small.tenant, number=1)
    actions.open_receivable(draft)
    actions.void(TESTER, draft, reason="before Stripe heard of it")
    worker()
    actions.give_up(TESTER, gone, reason="insolvent")
    worker()
    for one in (plain, gone):
        actions.void(TESTER, one, reason="wrong company")
    worker()
    states = [fake.objects[asked(one).stripe_invoice]["status"] for one in (plain, gone)]
    assert states == ["void", "void"]
    assert asked(draft).stripe_invoice == "" and asked(draft).unsent_since is None
    worker()
    assert asked(small).carried_by in (None, asked(carrier))
    actions.void(TESTER, carrier, reason="wrong company")
    worker(2)
    assert (asked(carrier).state, asked(small).state, asked(small).carried_by) == ("void", "open", None)
    assert differences() == []


def test_a_carried_invoice_that_becomes_void_lowers_its_carrier(world: World, fake: FakeStripe) -> None:
    large = issued(world, "acme")
    small = of_amount(large.tenant, 30 * CENT)
    with actions.locked(actions.open_receivable(small).public_id) as row:
        row.waits = True
        row.save(update_fields=["waits"])
    worker(2)
    assert asked(small).carried_by == asked(large)
    before = fake.objects[asked(large).stripe_invoice]["amount_remaining"]
    actions.void(TESTER, small, reason="wrong company")
    worker(2)
    there = fake.objects[asked(large).stripe_invoice]
    assert (there["status"], there["amount_remaining"]) == ("open", before - 30)
    assert asked(small).state == "void" and asked(large).open_micro == (before - 30) * CENT
    assert differences() == []


def test_a_payment_that_crosses_the_void_is_given_back(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    fake.pay_on_page(asked(invoice).stripe_invoice)
    actions.void(TESTER, invoice, reason="wrong company")
    worker(3)
    row = asked(invoice)
    assert (row.state, row.paid_micro, row.refunded_micro, row.overpaid_micro) == (
        "void",
        row.total_micro,
        row.total_micro,
        0,
    )


def test_a_draft_whose_deletion_got_no_answer_is_forgotten(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    (theirs,) = fake.all("invoice")
    theirs["status"] = "draft"
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    fake.faults[:] = ["timeout after commit"]
    deliver()
    assert not fake.all("invoice") and asked(invoice).stripe_invoice == theirs["id"]
    deliver()
    assert asked(invoice).stripe_invoice == ""
    assert differences() == []


def test_what_was_asked_for_without_stripe_goes_there_once_it_is_on(
    world: World, fake: FakeStripe, configure: Any
) -> None:
    from control_plane import config

    on = config.current().payments
    configure()
    invoice = issued(world, "acme")
    worker(2)
    assert not fake.calls and asked(invoice).generation == 0
    configure(stripe_key_file=on.stripe_key_file)
    worker()
    assert asked(invoice).stripe_state == "open"


def test_the_reconciliation_names_each_kind_of_difference(world: World, fake: FakeStripe) -> None:
    invoices = [issued(world, name) for name in ("missing", "amount", "state", "money")]
    worker()
    missing, amount, state, money = (asked(one).stripe_invoice for one in invoices)
    assert differences() == []
    del fake.objects[missing]
    fake.objects[amount]["total"] += 1
    fake.objects[state]["status"] = "void"
    fake.pay_on_page(money)
    made = fake._new_invoice(
        {"customer": customer_of_any(fake), "currency": "usd", "metadata": {"penstock_receivable": "x"}}
    )
    found = {(one["kind"], one["stripe_invoice"]) for one in differences()}
    assert found == {
        ("missing at Stripe", missing),
        ("amount", amount),
        ("state", state),
        ("state", money),
        ("unknown here", made["id"]),
    }


def customer_of_any(fake: FakeStripe) -> str:
    return str(fake.all("customer")[0]["id"])


def check_shapes(fake: FakeStripe, types: dict[str, type], beside: set[str]) -> None:
    """Each object that the fake has made has the members of the library's type; `beside`: what it has for itself."""
    made = {one["object"] for one in fake.objects.values()}
    assert types.keys() <= made, "all of them were made"
    for one in fake.objects.values():
        if one["object"] in types:
            known = set(types[one["object"]].__annotations__)
            assert set(one) - known - beside <= {"livemode", "metadata"}, one["object"]


def test_shapes_of_the_fake_are_members_of_the_librarys_types(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    fake.pay_on_page(asked(invoice).stripe_invoice)
    credit(invoice, CENT)
    worker()
    types: dict[str, type] = {
        "invoice": stripe.Invoice,
        "invoiceitem": stripe.InvoiceItem,
        "customer": stripe.Customer,
        "credit_note": stripe.CreditNote,
        "refund": stripe.Refund,
        "invoice_payment": stripe.InvoicePayment,
    }
    check_shapes(fake, types, {"pending_invoice_items_behavior", "refund_amount", "out_of_band_amount"})
