"""Whatever fails and whatever happens at Stripe, in the end there is no difference, and nothing is collected twice or
never.

A history is of three invoices of one tenant, small ones among them. It takes faults of Stripe's answers, credit notes,
payments by bank, refunds by hand and such that fail, disputes, and times in which payment through Stripe is off.
"""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from billing.models import Invoice
from control_plane import config
from control_plane.outbox.models import Delivery
from demo.fake_stripe import FAULTS, FakeStripe
from payments import actions, queries
from payments.models import Payment, Receivable
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.conftest import Configure
from tests.control_plane.payments.paying import CENT, asked, credit, deliver, differences, of_amount, worker

TURNS = 6
STEPS = ("credit", "bank", "page", "refund", "failing refund", "dispute", "won dispute", "off", "again")
Billed = tuple[FakeStripe, Tenant, Configure]


def step(what: str, invoice: Invoice, fake: FakeStripe, configure: Configure, on: Any) -> None:
    """Do it, if it can be done now."""
    row = Receivable.objects.filter(invoice=invoice).first()
    if what == "off":
        configure()
        worker()
        configure(stripe_key_file=on.stripe_key_file)
    if row is None:
        return
    row = asked(invoice)
    at_stripe = (row if row.carried_by is None else row.carried_by).stripe_invoice
    theirs = fake.objects.get(at_stripe)
    paid = at_stripe and fake.charged(at_stripe)
    if what == "credit" and queries.credited_micro(invoice) + 20 * CENT <= row.total_micro:
        credit(invoice, 20 * CENT)
    elif what == "bank" and row.open_micro and row.state in ("open", "past_due"):
        actions.mark_paid(TESTER, invoice, reference=f"bank {invoice.number}")
    elif what == "page" and theirs is not None and theirs["status"] == "open":
        fake.pay_on_page(at_stripe)
    elif what in ("refund", "failing refund") and paid and not fake.all("refund") and not fake.all("dispute"):
        fake.refund_by_hand(at_stripe, 7)
    elif what == "dispute" and paid and not fake.all("dispute"):
        fake.dispute(at_stripe)
    elif what == "again":
        actions.try_again(TESTER, invoice)
    if what == "failing refund":
        for one in fake.all("refund"):
            one["status"] = "failed"
    if what == "won dispute":
        for one in fake.all("dispute"):
            one["status"] = "won"


@given(
    amounts=st.tuples(*[st.sampled_from([20, 30, 60, 2_000])] * 3),
    faults=st.lists(st.sampled_from([*FAULTS, ""]), max_size=30),
    method=st.booleans(),
    steps=st.lists(
        st.tuples(st.integers(0, TURNS - 1), st.sampled_from(STEPS), st.integers(0, 2)), max_size=8
    ),
)
@example(amounts=(20, 20, 20), faults=[], method=True, steps=[(3, "credit", 2), (4, "bank", 0)])
@example(amounts=(30, 2_000, 20), faults=[], method=True, steps=[(2, "refund", 1), (3, "failing refund", 1)])
@example(amounts=(30, 20, 20), faults=["timeout"] * 3, method=True, steps=[(2, "credit", 1)])
@example(amounts=(30, 60, 20), faults=["timeout after commit"] * 9, method=False, steps=[(2, "off", 0)])
@example(
    amounts=(20, 30, 20),
    faults=["", "timeout", "timeout", "timeout", "timeout", "fault after commit", "timeout"],
    method=False,
    steps=[(0, "credit", 0), (4, "credit", 0)],
)
@example(
    amounts=(20, 20, 2_000),
    faults=["timeout"] * 8,
    method=False,
    steps=[(3, "bank", 0), (4, "credit", 0), (5, "off", 2)],
)
@example(amounts=(20, 30, 20), faults=[], method=False, steps=[(5, "bank", 1)])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_ends_without_a_difference(
    billed: Billed,
    amounts: tuple[int, ...],
    faults: list[str],
    method: bool,
    steps: list[tuple[int, str, int]],
) -> None:
    fake, tenant, configure = billed
    on = config.current().payments
    with transaction.atomic():
        fake.objects.clear()
        fake.keys.clear()
        fake.calls.clear()
        customer = fake.make(
            "cus", "customer", invoice_settings={}, metadata={"penstock_tenant": tenant.public_id}
        )
        if method:
            fake.give_method(customer["id"])
        fake.faults[:] = faults
        invoices: list[Invoice] = []
        for turn in range(TURNS):
            if turn < len(amounts):
                invoices.append(of_amount(tenant, amounts[turn] * CENT))
            for at, what, number in steps:
                if at == turn and number < len(invoices):
                    step(what, invoices[number], fake, configure, on)
            worker()
        fake.faults[:] = []
        worker(3)
        # A last invoice carries what still waits, and everything that is open is paid.
        invoices.append(of_amount(tenant, 1_000 * CENT))
        worker(2)
        for theirs in fake.all("invoice"):
            if theirs["status"] == "open":
                fake.pay_on_page(theirs["id"])
        for _ in range(3):
            for invoice in invoices:
                with actions.locked(asked(invoice).public_id) as row:
                    actions.tell_stripe(row)
            deliver()
        _nothing_is_lost(fake, invoices)
        transaction.set_rollback(True)


def _nothing_is_lost(fake: FakeStripe, invoices: list[Invoice]) -> None:
    rows = [asked(one) for one in invoices]
    assert not [row.problem for row in rows if row.failures]
    assert not Delivery.objects.filter(kind="receivable", delivered_at=None).exists()
    assert not queries.unsent().exists()
    # Each of Stripe's charges, refunds and disputes is counted once, to the cent.
    money: dict[str, int] = dict.fromkeys(Payment.Kind.values, 0)
    for payment in Payment.objects.filter(source="stripe"):
        money[payment.kind] += payment.amount_micro
    assert money["payment"] == CENT * sum(one["amount_paid"] for one in fake.all("invoice_payment"))
    arrived = sum(one["amount"] for one in fake.all("refund") if one["status"] != "failed")
    assert money["refund"] - money["refund_failed"] == CENT * arrived
    taken = sum(one["amount"] for one in fake.all("dispute") if one["status"] != "won")
    assert money["dispute"] - money["dispute_won"] == CENT * taken
    # Nothing is collected twice: what is overpaid came by bank as well, or its refund failed.
    crossed = {one.receivable_id for one in Payment.objects.filter(source="bank")}
    failed = bool(fake.all("refund")) or bool(fake.all("dispute"))
    assert all(row.pk in crossed or failed for row in rows if row.overpaid_micro), rows
    # Nothing is never collected: what is open was given or taken back.
    assert all(row.state == "paid" or row.state == "void" for row in rows), [row.state for row in rows]
    assert all(row.refunded_micro for row in rows if row.open_micro)
    assert [one for one in differences() if one["kind"] not in ("to be refunded", "problem")] == []


@pytest.fixture
def billed(world: World, fake: FakeStripe, configure: Configure) -> Billed:
    return fake, world.tenant("acme"), configure
