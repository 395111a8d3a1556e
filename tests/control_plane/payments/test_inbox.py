"""The inbox of Stripe's webhooks: signatures, events that come twice, late, in another order or for another tenant."""

from datetime import timedelta

import pytest
from django.utils import timezone

from demo.fake_stripe import FakeStripe
from payments import inbox, tasks
from payments.models import StripeCustomer, StripeEvent
from penstock.contract.errors import Forbidden, InvalidRequest
from tests.control_plane.billing.world import World
from tests.control_plane.payments.paying import WEBHOOK_SECRET, asked, deliver, event, issued, worker


def receive(body: bytes, signature: str) -> bool:
    return inbox.receive(body, signature, WEBHOOK_SECRET, timezone.now())


@pytest.mark.parametrize("late_s", [-1000, 1000])
@pytest.mark.django_db
def test_a_wrong_or_old_signature_stores_nothing(late_s: int) -> None:
    body, signature = event("invoice.paid", {"id": "in_1", "object": "invoice"}, event_id="evt_1")
    for given in ("", "t=1", "t=x,v1=1", signature[:-1] + "x", signature.replace("v1", "v0")):
        with pytest.raises((Forbidden, InvalidRequest)):
            receive(body, given)
    with pytest.raises(Forbidden):
        receive(body + b" ", signature)
    with pytest.raises(Forbidden):
        inbox.receive(body, signature, None, timezone.now())
    if late_s < 0:
        old = event(
            "invoice.paid", {"id": "in_1"}, event_id="evt_1", at=timezone.now() + timedelta(seconds=late_s)
        )
        with pytest.raises(Forbidden):
            receive(*old)
    assert not StripeEvent.objects.exists()


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"object": "event", "id": 1}', "\x00", '{"data": 3}'])
@pytest.mark.django_db
def test_a_signed_body_that_is_no_event_is_refused(text: str) -> None:
    import stripe

    signature = stripe.WebhookSignature.generate_signature_header(text, WEBHOOK_SECRET)
    with pytest.raises(InvalidRequest):
        receive(text.encode(), signature)


@pytest.mark.django_db
def test_a_body_beyond_the_bound_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        receive(b"x" * (inbox.BODY_BYTES_MAX + 1), "t=1,v1=1")


def test_events_twice_and_in_any_order_pay_an_invoice_once(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    theirs = fake.all("invoice")[0]
    fake.pay_on_page(theirs["id"])
    calls = [
        event("invoice.paid", theirs, event_id="evt_2"),
        event("invoice.finalized", {**theirs, "status": "open"}, event_id="evt_1"),
        event("invoice.paid", theirs, event_id="evt_2"),
        event("some.new.thing", {"id": "x", "object": "thing"}, event_id="evt_3"),
    ]
    assert [receive(*call) for call in calls] == [True, True, False, True]
    worker(2)
    row = asked(invoice)
    assert (row.state, row.payments.count(), row.paid_micro) == ("paid", 1, invoice.total_micro)
    outcomes = {one.event_id: one.outcome for one in StripeEvent.objects.all()}
    assert outcomes["evt_3"].startswith("ignored")
    assert not StripeEvent.objects.filter(processed_at=None).exists()


@pytest.mark.django_db
def test_events_are_kept_for_ninety_days_after_they_were_processed() -> None:
    now = timezone.now()
    for days, processed in ((200, None), (200, 91), (150, 90), (120, 89), (0, 0)):
        StripeEvent.objects.create(
            event_id=f"evt_{days}_{processed}",
            type="some.thing",
            received_at=now - timedelta(days=days),
            processed_at=None if processed is None else now - timedelta(days=processed),
        )
    assert [inbox.forget(now, 1) for _ in range(3)] == [1, 1, 0]
    left = StripeEvent.objects.order_by("pk").values_list("event_id", flat=True)
    assert list(left) == ["evt_200_None", "evt_120_89", "evt_0_0"]


@pytest.mark.django_db
def test_the_nightly_task_forgets_old_events(fake: FakeStripe) -> None:
    at = timezone.now() - inbox.KEPT
    StripeEvent.objects.create(event_id="evt_1", type="some.thing", received_at=at, processed_at=at)
    tasks.reconcile()
    assert not StripeEvent.objects.exists()


def test_an_event_does_not_pay_what_stripe_says_is_open(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    theirs = fake.all("invoice")[0]
    receive(*event("invoice.paid", {**theirs, "status": "paid"}, event_id="evt_1"))
    worker()
    assert asked(invoice).state == "open"


def test_an_event_of_another_customer_changes_nothing(world: World, fake: FakeStripe) -> None:
    one, other = issued(world, "one"), issued(world, "other")
    worker()
    generation = asked(one).generation
    theirs = fake.objects[asked(one).stripe_invoice]
    stranger = StripeCustomer.objects.get(tenant=other.tenant).stripe_id
    receive(*event("invoice.paid", {**theirs, "customer": stranger}, event_id="evt_1"))
    receive(*event("invoice.paid", {"id": "in_unknown", "object": "invoice"}, event_id="evt_2"))
    worker()
    assert asked(one).generation == generation
    assert StripeEvent.objects.get(event_id="evt_1").outcome.startswith("refused")


def test_a_new_payment_method_pays_what_is_owed(world: World, fake: FakeStripe) -> None:
    invoice = issued(world, "acme")
    worker()
    (customer,) = fake.all("customer")
    made = fake.give_method(customer["id"])
    receive(*event("payment_method.attached", made, event_id="evt_1"))
    worker()
    deliver()
    assert asked(invoice).state == "paid"
    assert StripeCustomer.objects.get().method == "visa ending in 4242"


def test_an_event_that_stripe_gives_no_answer_for_is_kept_for_the_next_round(
    world: World, fake: FakeStripe, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued(world, "acme")
    worker()
    (customer,) = fake.all("customer")
    receive(*event("customer.updated", customer, event_id="evt_1"))
    answers = fake.answer

    def silent(*_: object) -> tuple[str, int]:
        import stripe

        raise stripe.APIConnectionError("timed out")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(FakeStripe, "answer", silent)
    worker()
    assert StripeEvent.objects.get().processed_at is None
    monkeypatch.undo()
    assert answers is not None
