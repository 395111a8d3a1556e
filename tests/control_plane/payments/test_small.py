"""Invoices that are less than Stripe charges: they wait, a later one carries them, and none is collected twice or
never.
"""

import pytest
from django.utils import timezone

from demo.fake_stripe import FakeStripe
from payments import actions, carrying, queries
from payments.models import Payment, Receivable
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.conftest import Configure
from tests.control_plane.payments.paying import (
    CENT,
    again,
    asked,
    credit,
    differences,
    due,
    issued,
    of_amount,
    worker,
)


def test_a_small_invoice_waits_and_stripe_hears_nothing_of_an_invoice(world: World, fake: FakeStripe) -> None:
    invoice = of_amount(world.tenant("acme"), 30 * CENT)
    worker(3)
    row = asked(invoice)
    assert (row.state, row.waits, row.stripe_invoice, row.problem) == ("open", True, "", "")
    assert not fake.all("invoice")
    due(invoice, 90)
    worker(2)
    row = asked(invoice)
    assert (row.state, row.reminders) == ("open", 0), "it cannot be paid yet, so it is not reminded of"
    assert differences() == []


def test_a_later_invoice_carries_what_waits_and_its_payment_pays_both(world: World, fake: FakeStripe) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    (theirs,) = fake.all("invoice")
    assert (theirs["status"], theirs["total"], theirs["amount_due"]) == ("open", 2_030, 2_030)
    assert asked(first).carried_by == asked(second)
    assert asked(first).page == theirs["hosted_invoice_url"]
    assert asked(first).due_at == asked(second).due_at
    assert differences() == []
    fake.pay_on_page(theirs["id"])
    again(second)
    assert [(asked(one).state, asked(one).open_micro) for one in (first, second)] == [("paid", 0)] * 2
    found = sorted(Payment.objects.values_list("receivable__invoice__number", "amount_micro"))
    assert found == [(1, 30 * CENT), (2, 2_000 * CENT)]
    again(second)
    assert Payment.objects.count() == 2
    assert differences() == []


def test_small_invoices_are_collected_together_once_they_are_enough(world: World, fake: FakeStripe) -> None:
    first = of_amount(world.tenant("acme"), 20 * CENT)
    worker()
    second = of_amount(first.tenant, 20 * CENT)
    worker()
    assert not fake.all("invoice")
    third = of_amount(first.tenant, 10 * CENT)
    worker()
    (theirs,) = fake.all("invoice")
    assert (theirs["total"], theirs["status"]) == (50, "open")
    fake.pay_on_page(theirs["id"])
    again(third)
    assert {asked(one).state for one in (first, second, third)} == {"paid"}
    assert differences() == []


def test_what_waits_of_one_tenant_or_currency_is_not_carried_by_another(
    world: World, fake: FakeStripe
) -> None:
    first, other = of_amount(world.tenant("acme"), 30 * CENT), of_amount(world.tenant("other"), 30 * CENT)
    euro = of_amount(world.tenant("euro"), 30 * CENT)
    worker()
    Receivable.objects.filter(invoice=euro).update(currency="EUR")
    of_amount(euro.tenant, 30 * CENT)
    worker(2)
    assert not fake.all("invoice")
    assert all(asked(one).waits for one in (first, other, euro))


@pytest.mark.parametrize("finalized", [False, True])
def test_a_carried_invoice_that_is_paid_by_bank_is_not_collected_again(
    world: World, fake: FakeStripe, finalized: bool
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    if not finalized:
        fake.refuses = "/finalize"
    worker()
    actions.mark_paid(TESTER, first, reference="bank 1")
    fake.refuses = ""
    worker(2)
    (theirs,) = fake.all("invoice")
    assert theirs["amount_remaining"] == 2_000
    fake.pay_on_page(theirs["id"])
    again(second)
    assert [(asked(one).state, asked(one).overpaid_micro) for one in (first, second)] == [("paid", 0)] * 2
    assert fake.charged(theirs["id"]) == 2_000
    assert differences() == []


@pytest.mark.parametrize("finalized", [False, True])
def test_a_credit_note_of_a_carried_invoice_that_is_paid_by_bank_lowers_no_other(
    world: World, fake: FakeStripe, finalized: bool
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    if not finalized:
        fake.refuses = "/finalize"
    worker()
    actions.mark_paid(TESTER, first, reference="bank 1")
    if finalized:
        worker()
    credit(first, 20 * CENT)
    fake.refuses = ""
    worker(2)
    (theirs,) = fake.all("invoice")
    assert (theirs["status"], theirs["amount_remaining"]) == ("open", 2_000)
    fake.pay_on_page(theirs["id"])
    again(second)
    assert [(asked(invoice).state, asked(invoice).open_micro) for invoice in (first, second)] == [
        ("paid", 0),
        ("paid", 0),
    ]
    assert (asked(first).overpaid_micro, asked(second).overpaid_micro) == (20 * CENT, 0)
    assert [difference["kind"] for difference in differences()] == ["to be refunded"]
    actions.mark_refunded(TESTER, first, reference="back 1")
    again(second)
    assert [asked(invoice).problem for invoice in (first, second)] == ["", ""]
    assert [asked(invoice).overpaid_micro for invoice in (first, second)] == [0, 0]
    assert sum(note["amount"] for note in fake.all("credit_note")) == (30 if finalized else 0)
    assert differences() == []


def test_what_was_given_back_by_bank_before_stripe_collects_changes_nothing_there(
    world: World, fake: FakeStripe
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    fake.refuses = "/finalize"
    worker()
    actions.mark_paid(TESTER, first, reference="bank 1")
    credit(first, 20 * CENT)
    fake.refuses = ""
    worker(2)
    actions.mark_refunded(TESTER, first, reference="back 1")
    again(second)
    assert asked(second).problem == ""
    (theirs,) = fake.all("invoice")
    fake.pay_on_page(theirs["id"])
    again(second)
    assert [(asked(invoice).state, asked(invoice).problem) for invoice in (first, second)] == [
        ("paid", ""),
        ("paid", ""),
    ]
    assert fake.charged(theirs["id"]) == 2_000
    assert differences() == []


def test_a_credit_note_of_what_another_one_carries_now_was_not_made_by_hand(
    world: World, fake: FakeStripe
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    credit(first, 20 * CENT)
    worker()
    actions.mark_paid(TESTER, second, reference="bank 1")
    worker()
    again(second)
    assert (asked(second).state, asked(second).problem) == ("paid", "")
    assert (asked(first).carried_by, asked(first).open_micro) == (None, 10 * CENT)
    assert differences() == []


def test_a_carried_invoice_that_is_paid_twice_is_to_be_refunded(world: World, fake: FakeStripe) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    fake.pay_on_page(asked(second).stripe_invoice)
    actions.mark_paid(TESTER, first, reference="bank 1")
    again(second)
    assert (asked(first).overpaid_micro, asked(second).overpaid_micro) == (30 * CENT, 0)
    assert [(one["kind"], one["invoice"]) for one in differences()] == [("to be refunded", first.public_id)]


@pytest.mark.parametrize("ending", ["bank", "given up", "void"])
def test_when_the_carrier_is_closed_otherwise_what_it_carried_waits_for_another(
    world: World, fake: FakeStripe, ending: str
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    if ending == "bank":
        actions.mark_paid(TESTER, second, reference="bank 1")
    elif ending == "given up":
        actions.give_up(TESTER, second, reason="insolvent")
    else:
        credit(second, 2_000 * CENT)
    worker(2)
    assert (asked(first).state, asked(first).waits, asked(first).carried_by) == ("open", True, None)
    assert differences() == []
    again(second)
    assert asked(second).problem == "", "what waits for another one was not credited by hand"
    third = of_amount(first.tenant, 100 * CENT)
    worker()
    theirs = fake.objects[asked(third).stripe_invoice]
    assert (theirs["total"], asked(first).carried_by) == (130, asked(third))
    fake.pay_on_page(theirs["id"])
    again(third)
    assert asked(first).state == asked(third).state == "paid"
    assert sum(fake.charged(one["id"]) for one in fake.all("invoice")) == 130
    assert differences() == []


@pytest.mark.parametrize("lost", [False, True])
def test_credit_notes_that_leave_less_than_is_charged_take_the_invoice_back_to_waiting(
    world: World, fake: FakeStripe, lost: bool
) -> None:
    first = of_amount(world.tenant("acme"), 100 * CENT)
    worker()
    (theirs,) = fake.all("invoice")
    credit(first, 80 * CENT)
    # The note's call is answered; that of voiding is not.
    fake.faults[:] = ["", "timeout after commit"] if lost else []
    worker(3)
    assert theirs["status"] == "void"
    row = asked(first)
    assert (row.state, row.waits, row.stripe_invoice, row.problem) == ("open", True, "", "")
    assert differences() == []
    second = of_amount(first.tenant, 100 * CENT)
    worker(2)
    theirs = fake.objects[asked(second).stripe_invoice]
    assert (theirs["status"], theirs["total"]) == ("open", 120)
    fake.pay_on_page(theirs["id"])
    again(second)
    assert asked(first).state == asked(second).state == "paid"
    assert differences() == []


def test_a_credit_note_of_a_carried_invoice_is_given_back_once(world: World, fake: FakeStripe) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    credit(first, 10 * CENT)
    worker(2)
    (theirs,) = fake.all("invoice")
    assert theirs["amount_remaining"] == 2_020
    fake.pay_on_page(theirs["id"])
    again(second)
    credit(first, 5 * CENT)
    worker(2)
    again(second)
    assert [one["amount"] for one in fake.all("refund")] == [5]
    assert (asked(first).refunded_micro, asked(first).overpaid_micro) == (5 * CENT, 0)
    assert asked(second).refunded_micro == 0
    assert differences() == []


def test_a_reminder_speaks_of_what_is_carried_too_and_comes_once(world: World, fake: FakeStripe) -> None:
    from control_plane.mail.models import Mail
    from tenants.models import Membership
    from tenants.roles import Role
    from tests.control_plane.world import make_person

    first = of_amount(world.tenant("acme"), 30 * CENT)
    person, _ = make_person("owner@acme.example")
    Membership.objects.create(tenant=first.tenant, person=person, role=Role.OWNER)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    for invoice in (first, second):
        due(invoice, 1)
    worker(2)
    assert [asked(one).state for one in (first, second)] == ["past_due"] * 2
    mail = Mail.objects.get(kind="payment-reminder")
    assert "20.30 USD" in mail.text and "with no. 1 that it carries" in mail.text
    assert not queries.to_remind(timezone.now(), (0, 3, 7, 14), None).exists()


def test_what_waits_is_due_as_any_other_once_payment_through_stripe_is_off(
    world: World, fake: FakeStripe, configure: Configure
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    due(first, 3)
    configure()
    worker()
    row = asked(first)
    assert (row.waits, row.state) == (False, "open")
    assert row.due_at > timezone.now()
    assert actions.mark_paid(TESTER, first, reference="bank 1").state == "paid"


@pytest.mark.parametrize("balance", [30, -30, 5_000])
def test_a_balance_of_the_customer_at_stripe_keeps_the_draft_and_is_named(
    world: World, fake: FakeStripe, balance: int
) -> None:
    invoice = issued(world, "acme")
    made = {
        "invoice_settings": {},
        "balance": balance,
        "metadata": {"penstock_tenant": invoice.tenant.public_id},
    }
    customer = fake.make("cus", "customer", **made)
    worker()
    (theirs,) = fake.all("invoice")
    assert theirs["status"] == "draft"
    assert f"a balance of {balance} at Stripe" in asked(invoice).problem
    assert "balance" in {one["kind"] for one in differences()}
    customer["balance"] = 0
    fake.keys.clear()
    fake._sum(theirs)
    worker()
    assert (theirs["status"], asked(invoice).problem) == ("open", "")
    assert differences() == []


def test_what_stripe_has_moved_to_a_balance_is_named_and_not_taken_as_paid(
    world: World, fake: FakeStripe
) -> None:
    invoice = issued(world, "acme")
    fake.refuses = "/finalize"
    worker()
    (theirs,) = fake.all("invoice")
    fake.refuses = ""
    # As Stripe does where its least charge is more than is known here.
    theirs.update(status="paid", amount_due=0, amount_remaining=0, ending_balance=theirs["total"])
    again(invoice)
    row = asked(invoice)
    assert row.state == "open" and "its customer's balance" in row.problem
    assert {"balance", "problem"} <= {one["kind"] for one in differences()}


def test_shares_are_given_in_order() -> None:
    assert carrying.shares(7, [3, 5]) == [3, 4]
    assert carrying.shares(9, [3, -1, 5]) == [3, 0, 5]
    assert carrying.shares(0, [3]) == [0]


def test_no_more_are_carried_than_stripe_takes_items(
    world: World, fake: FakeStripe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "CARRIED_MAX", 1)
    first = of_amount(world.tenant("acme"), 20 * CENT)
    worker()
    of_amount(first.tenant, 20 * CENT)
    worker()
    third = of_amount(first.tenant, 60 * CENT)
    worker()
    assert (fake.all("invoice")[0]["total"], asked(third).carries.count()) == (80, 1)
    fourth = of_amount(first.tenant, 60 * CENT)
    worker()
    assert (fake.all("invoice")[1]["total"], asked(fourth).carries.count()) == (80, 1)
