"""Money that goes back: refunds that fail later, refunds by hand at Stripe, and disputes."""

import pytest
from django.utils import timezone

from billing.models import Invoice
from demo.fake_stripe import FakeStripe
from payments import actions, inbox
from payments.models import Payment
from penstock.contract.errors import InvalidRequest
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.paying import (
    CENT,
    WEBHOOK_SECRET,
    again,
    asked,
    credit,
    deliver,
    differences,
    event,
    of_amount,
    worker,
)

TOTAL = 2_000 * CENT


@pytest.fixture
def paid(world: World, fake: FakeStripe) -> Invoice:
    invoice = of_amount(world.tenant("acme"), TOTAL)
    worker()
    fake.pay_on_page(asked(invoice).stripe_invoice)
    again(invoice)
    assert asked(invoice).state == "paid"
    return invoice


def hear(kind: str, thing: dict[str, object], number: int) -> None:
    inbox.receive(*event(kind, thing, event_id=f"evt_{number}"), WEBHOOK_SECRET, timezone.now())
    worker()


def kinds() -> list[str]:
    return [str(one) for one in Payment.objects.order_by("pk").values_list("kind", flat=True)]


def test_a_refund_that_fails_later_is_owed_again_and_given_back_by_bank_once(
    fake: FakeStripe, paid: Invoice
) -> None:
    credit(paid, 300 * CENT)
    worker(2)
    again(paid)
    (refund,) = fake.all("refund")
    assert (asked(paid).refunded_micro, asked(paid).overpaid_micro) == (300 * CENT, 0)
    refund["status"] = "failed"
    hear("refund.failed", refund, 1)
    hear("charge.refund.updated", refund, 2)
    row = asked(paid)
    assert (row.state, row.refunded_micro, row.overpaid_micro) == ("paid", 0, 300 * CENT)
    assert "a refund failed at Stripe: give 3.00 USD back by bank" in row.problem
    assert kinds() == ["payment", "refund", "refund_failed"]
    assert {one["kind"] for one in differences()} == {"to be refunded", "problem"}
    actions.mark_refunded(TESTER, paid, reference="back 1")
    worker()
    assert (asked(paid).overpaid_micro, asked(paid).problem) == (0, "")
    assert len(fake.all("refund")) == 1
    with pytest.raises(InvalidRequest):
        actions.mark_refunded(TESTER, paid, reference="back 2")
    assert differences() == []


def test_a_refund_that_had_failed_before_it_was_seen_counts_nothing(fake: FakeStripe, paid: Invoice) -> None:
    fake.refund_by_hand(asked(paid).stripe_invoice, 300)["status"] = "failed"
    again(paid)
    assert (asked(paid).refunded_micro, kinds()) == (0, ["payment"])
    assert differences() == []


def test_a_refund_by_hand_is_followed_and_a_credit_note_for_it_gives_nothing_back_again(
    fake: FakeStripe, paid: Invoice
) -> None:
    refund = fake.refund_by_hand(asked(paid).stripe_invoice, 500)
    hear("refund.created", refund, 1)
    row = asked(paid)
    assert (row.state, row.refunded_micro, row.open_micro) == ("paid", 500 * CENT, 500 * CENT)
    assert "5.00 USD was given or taken back at Stripe without a credit note" in row.problem
    assert {one["kind"] for one in differences()} == {"problem"}
    credit(paid, 500 * CENT)
    worker(2)
    again(paid)
    assert [one["amount"] for one in fake.all("refund")] == [500]
    row = asked(paid)
    assert (row.open_micro, row.overpaid_micro, row.problem) == (0, 0, "")
    assert differences() == []


def test_a_dispute_takes_the_money_and_winning_it_returns_it(fake: FakeStripe, paid: Invoice) -> None:
    dispute = fake.dispute(asked(paid).stripe_invoice)
    hear("charge.dispute.created", dispute, 1)
    row = asked(paid)
    assert (row.open_micro, row.refunded_micro) == (TOTAL, TOTAL)
    assert "taken back at Stripe" in row.problem
    dispute["status"] = "won"
    hear("charge.dispute.closed", dispute, 2)
    hear("charge.dispute.closed", dispute, 3)
    row = asked(paid)
    assert (row.open_micro, row.refunded_micro, row.problem) == (0, 0, "")
    assert kinds() == ["payment", "dispute", "dispute_won"]
    assert differences() == []


def test_an_inquiry_takes_nothing(fake: FakeStripe, paid: Invoice) -> None:
    fake.dispute(asked(paid).stripe_invoice)["status"] = "warning_needs_response"
    again(paid)
    assert (asked(paid).open_micro, kinds()) == (0, ["payment"])
    assert differences() == []


@pytest.mark.parametrize("ending", ["bank", "given up", "credited"])
def test_what_a_lost_dispute_has_opened_is_paid_by_bank_given_up_or_credited(
    fake: FakeStripe, paid: Invoice, ending: str
) -> None:
    dispute = fake.dispute(asked(paid).stripe_invoice)
    dispute["status"] = "lost"
    hear("charge.dispute.closed", dispute, 1)
    if ending == "bank":
        assert actions.mark_paid(TESTER, paid, reference="bank 1").open_micro == 0
    elif ending == "given up":
        assert actions.give_up(TESTER, paid, reason="chargeback").state == "uncollectible"
    else:
        credit(paid, TOTAL)
    worker(2)
    assert asked(paid).problem == ""
    assert not fake.all("refund")
    assert differences() == []


def test_a_refund_and_a_dispute_of_a_carried_invoice_are_split_as_its_payment_was(
    world: World, fake: FakeStripe
) -> None:
    first = of_amount(world.tenant("acme"), 30 * CENT)
    worker()
    second = of_amount(first.tenant, TOTAL)
    worker()
    theirs = asked(second).stripe_invoice
    fake.pay_on_page(theirs)
    again(second)
    dispute = fake.dispute(theirs)
    again(second)
    assert [asked(one).open_micro for one in (first, second)] == [30 * CENT, TOTAL]
    dispute["status"] = "won"
    again(second)
    assert [asked(one).open_micro for one in (first, second)] == [0, 0]
    assert differences() == []


def test_more_taken_back_than_was_paid_breaks_nothing(
    fake: FakeStripe, paid: Invoice, caplog: pytest.LogCaptureFixture
) -> None:
    fake.dispute(asked(paid).stripe_invoice)["amount"] = 3_000
    again(paid)
    row = asked(paid)
    assert (row.refunded_micro, row.failures) == (TOTAL, 0)
    assert "more was taken back at Stripe than was paid" in caplog.text


def test_an_event_of_an_unknown_payment_is_ignored(world: World, fake: FakeStripe) -> None:
    from payments.models import StripeEvent

    thing = {"id": "re_x", "object": "refund", "payment_intent": "pi_unknown"}
    inbox.receive(*event("refund.created", thing, event_id="evt_1"), WEBHOOK_SECRET, timezone.now())
    worker()
    deliver()
    assert StripeEvent.objects.get().outcome == "ignored: no receivable has this payment"
