"""Changes that someone makes on Stripe's own pages, and what the service says and does of each.

Each command that a `problem` advises is executed here, and leaves no problem and no difference.
"""

import re
from collections.abc import Callable

import pytest
from django.utils import timezone

from billing.models import CreditNote, Invoice
from demo.fake_stripe import FakeStripe
from payments import actions, dunning, inbox, queries
from payments.models import Payment, Receivable, StripeCustomer, StripeEvent
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import (
    CENT,
    WEBHOOK_SECRET,
    again,
    asked,
    credit,
    deliver,
    differences,
    due,
    event,
    of_amount,
    worker,
)

COMMANDS: dict[str, Callable[[Invoice], object]] = {
    "payment paid": lambda invoice: actions.mark_paid(TESTER, invoice, reference="bank 1"),
    "payment give-up": lambda invoice: actions.give_up(TESTER, invoice, reason="insolvent"),
    "payment void": lambda invoice: actions.void(TESTER, invoice, reason="wrong"),
    "payment retry": lambda invoice: actions.try_again(TESTER, invoice),
    "billing credit": lambda invoice: credit(invoice, 500 * CENT),
}
"""What the commands of `problem` do."""
EXPECTED = {
    "payment paid": "paid",
    "payment give-up": "uncollectible",
    "payment void": "void",
    "payment retry": "open",
    "billing credit": "open",
}


def advised(invoice: Invoice) -> set[str]:
    """The commands that the receivable's problem names."""
    return set(re.findall(r"`penstock (\w+ [a-z-]+)", asked(invoice).problem))


@pytest.fixture
def invoice(world: World, fake: FakeStripe) -> Invoice:
    made = of_amount(world.tenant("acme"), 2_000 * CENT)
    worker()
    assert asked(made).stripe_state == "open"
    return made


def lower(fake: FakeStripe, theirs: str) -> None:
    fake.change_by_hand("credit_notes", theirs, amount=500)


def enlarge(fake: FakeStripe, theirs: str) -> None:
    """As if the draft had been finalized by hand, with a discount."""
    fake.objects[theirs].update(total=2_500, amount_due=2_500, amount_remaining=2_500)


def lose_mark(fake: FakeStripe, theirs: str) -> None:
    fake.objects[theirs]["metadata"] = {}


def delete(fake: FakeStripe, theirs: str) -> None:
    """Only drafts can be deleted, so it is one whose finalizing was not noted."""
    fake.objects[theirs]["status"] = "draft"
    fake.change_by_hand("delete", theirs)


def move_to_balance(fake: FakeStripe, theirs: str) -> None:
    fake.objects[theirs].update(ending_balance=300)


CHANGES: dict[str, tuple[Callable[[FakeStripe, str], object], str, set[str]]] = {
    "voided": (
        lambda fake, theirs: fake.change_by_hand("void", theirs),
        "was voided at Stripe",
        {"payment paid", "payment give-up", "payment void", "payment retry"},
    ),
    "marked as uncollectible": (
        lambda fake, theirs: fake.change_by_hand("mark_uncollectible", theirs),
        "was marked as uncollectible at Stripe",
        {"payment paid", "payment give-up", "payment void", "payment retry"},
    ),
    "deleted": (
        delete,
        "was deleted at Stripe",
        {"payment paid", "payment give-up", "payment void", "payment retry"},
    ),
    "lowered": (lower, "was lowered by 5.00 USD at Stripe", {"billing credit"}),
    "finalized with another total": (
        enlarge,
        "was finalized at Stripe with a total of 2500",
        {"payment void", "payment retry"},
    ),
    "without our mark": (lose_mark, "has no mark of this invoice at Stripe", {"payment retry"}),
    "moved to a balance": (
        move_to_balance,
        "to its customer's balance at Stripe",
        {"payment paid", "payment give-up", "payment void"},
    ),
}
CASES = [(change, command) for change, (_, _, commands) in CHANGES.items() for command in sorted(commands)]


@pytest.mark.parametrize(("change", "command"), CASES)
def test_what_is_changed_at_stripe_is_named_stops_reminders_and_each_command_it_advises_solves_it(
    fake: FakeStripe, invoice: Invoice, change: str, command: str
) -> None:
    apply, says, commands = CHANGES[change]
    apply(fake, asked(invoice).stripe_invoice)
    again(invoice)
    row = asked(invoice)
    assert says in row.problem
    assert advised(invoice) == commands
    assert len(row.problem) < 500, "all of it is kept"
    due(invoice, 1)
    now = timezone.now()
    dunning.remind(row.public_id, now)
    assert (asked(invoice).state, asked(invoice).reminders) == ("past_due", 0)
    assert not queries.to_remind(now, (0,), 30).exists()
    due(invoice, -10)
    Receivable.objects.filter(pk=row.pk).update(state="open")
    COMMANDS[command](invoice)
    worker(3)
    row = asked(invoice)
    assert (row.problem, row.changed_there, row.state) == ("", False, EXPECTED[command])
    assert differences() == []
    if command == "payment retry":
        theirs = fake.objects[row.stripe_invoice]
        assert (theirs["status"], theirs["amount_due"]) == ("open", 2_000)
        fake.pay_on_page(theirs["id"])
        again(invoice)
        assert asked(invoice).state == "paid"
    due(invoice, 1)
    assert queries.to_remind(now, (0,), None).exists() is (command == "billing credit")


def test_a_payment_out_of_band_at_stripe_pays_the_invoice_and_says_where_it_was_noted(
    fake: FakeStripe, invoice: Invoice
) -> None:
    theirs = asked(invoice).stripe_invoice
    fake.change_by_hand("pay", theirs)
    again(invoice)
    again(invoice)
    row = asked(invoice)
    assert (row.state, row.open_micro, row.overpaid_micro, row.problem) == ("paid", 0, 0, "")
    paid = Payment.objects.get()
    assert (paid.source, paid.reference, paid.amount_micro) == ("out_of_band", theirs, 2_000 * CENT)
    assert differences() == []
    # What came without Stripe is given back without it.
    credit(invoice, 500 * CENT)
    worker()
    assert asked(invoice).overpaid_micro == 500 * CENT
    assert not fake.all("refund")
    actions.mark_refunded(TESTER, invoice, reference="bank 2")
    worker()
    assert asked(invoice).overpaid_micro == 0
    assert differences() == []


def test_a_payment_by_bank_that_is_noted_here_is_not_counted_again_from_stripe(
    fake: FakeStripe, invoice: Invoice
) -> None:
    actions.mark_paid(TESTER, invoice, reference="bank 1")
    fake.change_by_hand("pay", asked(invoice).stripe_invoice)
    again(invoice)
    assert Payment.objects.get().source == "bank"
    assert (asked(invoice).state, asked(invoice).overpaid_micro) == ("paid", 0)
    assert differences() == []


def test_a_carrier_that_is_paid_out_of_band_pays_what_it_carries(world: World, fake: FakeStripe) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, 2_000 * CENT)
    worker()
    fake.change_by_hand("pay", asked(second).stripe_invoice)
    again(second)
    assert [(asked(one).state, asked(one).overpaid_micro) for one in (first, second)] == [("paid", 0)] * 2
    assert differences() == []


def test_an_invoice_that_was_taken_back_here_and_paid_out_of_band_there_is_to_be_refunded(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.change_by_hand("pay", asked(invoice).stripe_invoice)
    actions.void(TESTER, invoice, reason="wrong")
    deliver()
    assert (asked(invoice).state, asked(invoice).overpaid_micro) == ("void", 2_000 * CENT)
    assert [one["kind"] for one in differences()] == ["to be refunded"]
    actions.mark_refunded(TESTER, invoice, reference="bank 2")
    worker()
    assert asked(invoice).overpaid_micro == 0


@pytest.mark.parametrize("status", ["open", "draft", "none yet", "paid"])
def test_a_customer_that_was_deleted_is_made_anew_and_asked_again(
    world: World, fake: FakeStripe, status: str
) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    if status == "draft":
        fake.refuses = "/finalize"
    worker()
    fake.refuses = ""
    before = asked(invoice).stripe_invoice
    if status == "paid":
        fake.pay_on_page(before)
    (customer,) = fake.all("customer")
    fake.delete_customer(customer["id"])
    if status == "none yet":
        invoice = of_amount(invoice.tenant, 1_000 * CENT)
    deleted = {"object": "customer", "id": customer["id"]}
    inbox.receive(*event("customer.deleted", deleted, event_id="evt_1"), WEBHOOK_SECRET, timezone.now())
    worker(3)
    row, known = asked(invoice), StripeCustomer.objects.get()
    assert known.stripe_id != customer["id"] and known.former_ids == [customer["id"]]
    assert (row.problem, row.state) == ("", "paid" if status == "paid" else "open")
    theirs = fake.objects[row.stripe_invoice]
    if status == "paid":
        assert theirs["id"] == before
        # What Stripe says of it still names the customer that is gone.
        inbox.receive(*event("invoice.paid", theirs, event_id="evt_2"), WEBHOOK_SECRET, timezone.now())
        worker()
        assert StripeEvent.objects.get(event_id="evt_2").outcome == f"{row.public_id} is compared with Stripe"
    else:
        assert (theirs["customer"], theirs["status"]) == (known.stripe_id, "open")
        fake.pay_on_page(theirs["id"])
        again(invoice)
        assert asked(invoice).state == "paid"
        assert (
            sum(fake.charged(one["id"]) for one in fake.all("invoice")) == asked(invoice).paid_micro // CENT
        )
    again(invoice)
    assert differences() == []


def test_a_deleted_customer_is_made_anew_once_though_the_answer_is_lost(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.delete_customer(fake.all("customer")[0]["id"])
    fake.faults = ["timeout after commit"]
    again(invoice)
    worker(3)
    assert len(fake.all("customer")) == 2
    assert (asked(invoice).stripe_state, asked(invoice).problem) == ("open", "")


def test_a_customer_of_another_account_is_named_with_what_to_do(fake: FakeStripe, invoice: Invoice) -> None:
    (customer,) = fake.all("customer")
    fake.objects.pop(customer["id"])
    again(invoice)
    assert "is not a customer of this Stripe account" in asked(invoice).problem
    fake.objects[customer["id"]] = customer
    again(invoice)
    assert asked(invoice).problem == ""
    assert differences() == []


@pytest.mark.parametrize("change", ["deleted item", "other amount", "odd item"])
@pytest.mark.parametrize("remedy", ["there", "retry"])
def test_a_draft_whose_items_were_changed_is_named_and_finalized_once_it_is_corrected(
    world: World, fake: FakeStripe, change: str, remedy: str
) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    fake.refuses = "/finalize"
    worker()
    fake.refuses = ""
    (item,) = fake.all("invoiceitem")
    if change == "deleted item":
        del fake.objects[item["id"]]
    elif change == "other amount":
        item["amount"] = 1_500
    else:
        item = fake.make("ii", "invoiceitem", invoice=item["invoice"], amount=100)
    again(invoice)
    if change == "deleted item":
        # It is added again by itself.
        again(invoice)
    else:
        assert "other items at Stripe than the invoice has lines" in asked(invoice).problem
        if remedy == "there":
            del fake.objects[item["id"]]
            again(invoice)
        else:
            actions.try_again(TESTER, invoice)
    worker(2)
    assert (asked(invoice).problem, asked(invoice).stripe_state) == ("", "open")
    assert fake.objects[asked(invoice).stripe_invoice]["total"] == 2_000
    assert differences() == []


def test_a_credit_note_of_ours_that_was_voided_at_stripe_is_made_again(
    fake: FakeStripe, invoice: Invoice
) -> None:
    credit(invoice, 500 * CENT)
    worker()
    fake.void_note(fake.all("credit_note")[0]["id"])
    again(invoice)
    assert fake.objects[asked(invoice).stripe_invoice]["amount_remaining"] == 1_500
    assert (asked(invoice).problem, differences()) == ("", [])


def test_a_credit_note_that_was_made_at_stripe_and_is_voided_there_is_no_problem_any_more(
    fake: FakeStripe, invoice: Invoice
) -> None:
    made = fake.change_by_hand("credit_notes", asked(invoice).stripe_invoice, amount=500)
    again(invoice)
    assert asked(invoice).changed_there
    fake.void_note(made["id"])
    again(invoice)
    assert (asked(invoice).problem, asked(invoice).changed_there) == ("", False)
    assert differences() == []


def test_a_credit_note_at_stripe_over_the_whole_is_one_here_and_nothing_is_lowered_twice(
    fake: FakeStripe, invoice: Invoice
) -> None:
    fake.change_by_hand("credit_notes", asked(invoice).stripe_invoice, amount=2_000)
    again(invoice)
    assert "lowered by 20.00 USD" in asked(invoice).problem
    credit(invoice, 2_000 * CENT)
    worker(2)
    assert (asked(invoice).state, asked(invoice).problem) == ("void", "")
    assert len(fake.all("credit_note")) == 1
    assert differences() == []


def test_a_credit_note_at_stripe_that_gave_money_back_is_one_here_and_nothing_is_given_back_twice(
    fake: FakeStripe, invoice: Invoice
) -> None:
    theirs = asked(invoice).stripe_invoice
    fake.pay_on_page(theirs)
    again(invoice)
    fake.change_by_hand("credit_notes", theirs, amount=500, refund_amount=500)
    again(invoice)
    assert "billing credit" in advised(invoice)
    credit(invoice, 500 * CENT)
    worker(2)
    assert (asked(invoice).problem, asked(invoice).overpaid_micro) == ("", 0)
    assert (len(fake.all("credit_note")), fake.collected_cents()) == (1, 1_500)
    assert differences() == []


@pytest.mark.parametrize("command", ["payment paid", "payment give-up", "billing credit"])
def test_each_command_that_a_refund_by_hand_advises_solves_it(
    fake: FakeStripe, invoice: Invoice, command: str
) -> None:
    fake.pay_on_page(asked(invoice).stripe_invoice)
    again(invoice)
    fake.refund_by_hand(asked(invoice).stripe_invoice, 500)
    again(invoice)
    assert advised(invoice) == {"payment paid", "payment give-up", "billing credit"}
    COMMANDS[command](invoice)
    worker(2)
    assert asked(invoice).problem == ""
    assert differences() == []
    assert CreditNote.objects.count() == (command == "billing credit")


def test_a_payment_method_that_was_removed_at_stripe_is_not_shown_any_more(
    fake: FakeStripe, invoice: Invoice
) -> None:
    (customer,) = fake.all("customer")
    method = fake.give_method(customer["id"])
    fake.declines = True
    inbox.receive(*event("payment_method.attached", method, event_id="evt_1"), WEBHOOK_SECRET, timezone.now())
    worker()
    assert StripeCustomer.objects.get().method == "visa ending in 4242"
    fake.take_method(method["id"])
    gone = {**method, "customer": None}
    inbox.receive(*event("payment_method.detached", gone, event_id="evt_2"), WEBHOOK_SECRET, timezone.now())
    worker()
    assert StripeCustomer.objects.get().method == ""
