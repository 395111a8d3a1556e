"""What Stripe refuses is named and comes again after a growing pause; what it must hear of waits for its turn."""

from datetime import timedelta

import pytest
from django.utils import timezone

from control_plane import config
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from demo.fake_stripe import FakeStripe
from payments import actions, customers, inbox, metrics, queries, sending, stripe_adapter, tasks
from payments.models import Receivable, StripeEvent
from payments.sending import KIND_RECEIVABLE
from payments.stripe_shapes import AnsweredFault
from penstock.contract.errors import OutcomeUnknown
from tests.control_plane.billing.world import TESTER, World
from tests.control_plane.payments.conftest import Configure
from tests.control_plane.payments.paying import (
    CENT,
    WEBHOOK_SECRET,
    asked,
    deliver,
    differences,
    event,
    of_amount,
    worker,
)


def one_delivery(receivable: Receivable) -> None:
    """As the worker makes it, if it is due."""
    sending.send_next()
    delivery.deliver(KIND_RECEIVABLE, receivable.public_id)


def test_a_refusal_is_on_the_receivable_with_what_to_do_and_comes_again_later_each_time(
    world: World, fake: FakeStripe, caplog: pytest.LogCaptureFixture
) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    fake.refuses = "/invoiceitems"
    tasks.payment_round()
    # A pause begins somewhere between these two moments, which a busy machine sets apart.
    shortest: list[timedelta] = []
    longest: list[timedelta] = []
    for _ in range(12):
        Receivable.objects.update(retry_at=None)
        before = timezone.now()
        one_delivery(asked(invoice))
        row = asked(invoice)
        assert row.retry_at is not None
        longest.append(row.retry_at - before)
        shortest.append(row.retry_at - timezone.now())
    assert "This account cannot do that. Correct it at Stripe, then try again" in asked(invoice).problem
    assert caplog.text.count("an invoice is not collected") == 1
    assert all(pause <= later for pause, later in zip(shortest, longest[1:], strict=False))
    assert shortest[0] < timedelta(minutes=2)
    assert timedelta(hours=5) < shortest[-1] <= timedelta(hours=6)
    calls = len(fake.calls)
    for _ in range(3):
        tasks.payment_round()
        one_delivery(asked(invoice))
    assert len(fake.calls) == calls, "it is not due"
    assert not Delivery.objects.filter(delivered_at=None, kind=KIND_RECEIVABLE).exists()
    fake.refuses = ""
    actions.try_again(TESTER, invoice)
    one_delivery(asked(invoice))
    row = asked(invoice)
    assert (row.stripe_state, row.problem, row.failures, row.retry_at) == ("open", "", 0, None)
    assert differences() == []


def test_no_answer_is_no_problem_and_comes_again_soon(world: World, fake: FakeStripe) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    fake.faults[:] = ["timeout"]
    tasks.payment_round()
    one_delivery(asked(invoice))
    row = asked(invoice)
    assert row.key_version == 1, "what was done is not known: the same keys"
    assert row.retry_at is not None and row.retry_at - timezone.now() < timedelta(seconds=5)
    assert row.problem == ""
    deliver()
    assert (asked(invoice).stripe_state, asked(invoice).failures) == ("open", 0)


def test_a_customer_that_was_refused_is_made_with_another_key_and_one_without_an_answer_with_the_same(
    world: World, fake: FakeStripe
) -> None:
    gateway, tenant = stripe_adapter.configured(), world.tenant("acme")
    assert gateway is not None
    for fault, error in (("timeout", OutcomeUnknown), ("fault", AnsweredFault)):
        fake.faults[:] = [fault]
        with pytest.raises(error):
            customers.ensure_customer(gateway, tenant)
    made = customers.ensure_customer(gateway, tenant)
    assert [one["id"] for one in fake.all("customer")] == [made]
    keys = [key for key in fake.keys if key.startswith("customer/")]
    assert keys == [f"customer/{tenant.public_id}/{version}" for version in (1, 2)]


def test_a_wrong_key_is_named_and_events_wait_for_the_right_one(world: World, fake: FakeStripe) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    worker()
    (customer,) = fake.all("customer")
    fake.refuses = "key"
    inbox.receive(*event("customer.updated", customer, event_id="evt_1"), WEBHOOK_SECRET, timezone.now())
    worker(2)
    assert StripeEvent.objects.get().processed_at is None
    other = of_amount(invoice.tenant, 1_000 * CENT)
    worker()
    assert "payments.stripe_key_file" in asked(other).problem
    assert asked(other).retry_at - timezone.now() <= sending.NO_ANSWER_MAX  # type: ignore[operator]
    fake.refuses = ""
    worker()
    assert StripeEvent.objects.get().processed_at is not None
    assert (asked(other).problem, asked(other).stripe_state) == ("", "open")


def test_a_key_that_cannot_be_read_is_named(world: World, fake: FakeStripe) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    file = config.current().payments.stripe_key_file
    assert file is not None
    text = file.read_text()
    file.unlink()
    worker()
    assert "cannot be read" in asked(invoice).problem
    file.write_text(text)
    worker()
    assert (asked(invoice).problem, asked(invoice).stripe_state) == ("", "open")


def test_what_changes_while_stripe_is_off_is_counted_and_sent_once_it_is_on(
    world: World, fake: FakeStripe, configure: Configure
) -> None:
    on = config.current().payments
    invoices = [of_amount(world.tenant(name), 2_000 * CENT) for name in ("bank", "gone", "open")]
    worker()
    configure()
    bank, gone, _ = invoices
    actions.mark_paid(TESTER, bank, reference="bank 1")
    actions.give_up(TESTER, gone, reason="insolvent")
    fresh = of_amount(world.tenant("fresh"), 2_000 * CENT)
    calls = len(fake.calls)
    worker(3)
    assert len(fake.calls) == calls
    assert queries.unsent().count() == 3
    metrics.refresh()
    assert metrics._unsent._value.get() == 3
    configure(stripe_key_file=on.stripe_key_file)
    worker()
    states = [fake.objects[asked(one).stripe_invoice]["status"] for one in (*invoices, fresh)]
    assert states == ["paid", "uncollectible", "open", "open"]
    assert not queries.unsent().exists()
    assert differences() == []


def test_it_is_turned_off_between_the_outbox_and_the_delivery(
    world: World, fake: FakeStripe, configure: Configure
) -> None:
    on = config.current().payments
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    tasks.payment_round()
    assert Delivery.objects.filter(delivered_at=None, kind=KIND_RECEIVABLE).count() == 1
    configure()
    deliver()
    assert asked(invoice).unsent_since is not None and not fake.calls
    configure(stripe_key_file=on.stripe_key_file)
    deliver()
    assert asked(invoice).stripe_state == "open"


def test_a_month_of_invoices_is_in_the_outbox_one_at_a_time(
    world: World, fake: FakeStripe, django_capture_on_commit_callbacks: object
) -> None:
    tenant = world.tenant("acme")
    for _ in range(40):
        of_amount(tenant, 2_000 * CENT)
    for _ in range(3):
        tasks.payment_round()
        assert Delivery.objects.filter(delivered_at=None, kind=KIND_RECEIVABLE).count() == 1
    assert queries.unsent().count() == 39
    row = Receivable.objects.get(
        public_id=Delivery.objects.get(delivered_at=None, kind=KIND_RECEIVABLE).object_id
    )
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        delivery.deliver(KIND_RECEIVABLE, row.public_id)
    (waiting,) = Delivery.objects.filter(delivered_at=None, kind=KIND_RECEIVABLE)
    assert waiting.object_id != row.public_id, "the next one has its turn when one is delivered"
    assert queries.unsent().count() == 38


def test_a_delivery_that_breaks_keeps_no_other_from_its_turn(
    world: World, fake: FakeStripe, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = (of_amount(world.tenant(name), 2_000 * CENT) for name in ("broken", "other"))
    tasks.payment_round()
    with monkeypatch.context() as patched:
        patched.setattr(FakeStripe, "answer", lambda *_: 1 / 0)
        one_delivery(asked(broken))
    assert Delivery.objects.get(delivered_at=None, kind=KIND_RECEIVABLE).reason == "internal"
    one_delivery(asked(other))
    assert asked(other).stripe_state == "open"
    Delivery.objects.filter(delivered_at=None).update(next_attempt_at=timezone.now())
    one_delivery(asked(broken))
    assert asked(broken).stripe_state == "open"


def test_a_new_payment_method_that_a_delivery_reads_first_is_tried_for_all_that_is_open(
    world: World, fake: FakeStripe
) -> None:
    first = of_amount(world.tenant("acme"), 2_000 * CENT)
    worker()
    (customer,) = fake.all("customer")
    fake.give_method(customer["id"], "0002")
    fake.declines = True
    second = of_amount(first.tenant, 1_000 * CENT)
    worker(2)
    assert all("was declined" in asked(one).problem for one in (first, second))
    tries = [path for _, path in fake.calls if path.endswith("/pay")]
    assert len(tries) == 2
    worker(2)
    assert len([path for _, path in fake.calls if path.endswith("/pay")]) == 2, "not again with the same one"
    fake.declines = False
    made = fake.give_method(customer["id"], "4242")
    # Another invoice's delivery comes before the event.
    third = of_amount(first.tenant, 500 * CENT)
    worker()
    inbox.receive(*event("payment_method.attached", made, event_id="evt_1"), WEBHOOK_SECRET, timezone.now())
    worker()
    assert [(asked(one).state, asked(one).problem) for one in (first, second, third)] == [("paid", "")] * 3
    assert differences() == []


def test_an_operator_can_have_the_method_charged_once_more(world: World, fake: FakeStripe) -> None:
    invoice = of_amount(world.tenant("acme"), 2_000 * CENT)
    customer = fake.make(
        "cus", "customer", invoice_settings={}, metadata={"penstock_tenant": invoice.tenant.public_id}
    )
    fake.give_method(customer["id"])
    fake.declines = True
    worker(2)
    fake.declines = False
    worker()
    assert asked(invoice).state == "open"
    actions.try_again(TESTER, invoice)
    worker()
    assert (asked(invoice).state, fake.charged(asked(invoice).stripe_invoice)) == ("paid", 2_000)
