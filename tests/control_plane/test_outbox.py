"""The outbox: nothing is lost, one delivery at a time per object, a newer generation takes the older ones along."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import connection, transaction
from django.utils import timezone

from control_plane.outbox import actions, delivery, in_request, queries, registry, tasks
from control_plane.outbox import wake_ups as outbox_wake_ups
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import Delivered
from control_plane.processes import queries as processes
from data_plane.contract import broker_calls
from penstock.contract.errors import BrokerUnavailable, PenstockError
from penstock.contract.invariant import InvariantBroken
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)

KIND = "parcel"


@dataclass
class Recipient:
    """Takes deliveries of a kind of object that only these tests know, and can refuse or be slow."""

    newest: int = 1
    refusal: Exception | None = None
    received: list[int] = field(default_factory=list)
    noted: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)

    def deliver(self, object_id: str, generation: int) -> Delivered:
        self.received.append(self.newest)
        told = self.newest
        self.entered.set()
        assert self.leave.wait(PATIENCE_S)
        if self.refusal is not None:
            raise self.refusal
        return Delivered(generation=told, revision=7)

    def delivered(self, object_id: str, done: Delivered) -> None:
        assert connection.in_atomic_block
        self.noted.append(done.generation)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        assert connection.in_atomic_block
        self.failures.append(f"{reason}: {message}")


@pytest.fixture
def recipient() -> Iterator[Recipient]:
    made = Recipient()
    made.leave.set()
    registry.register(KIND, made)
    yield made
    registry._deliverers.pop(KIND)


def enqueue(generation: int, object_id: str = "par_1") -> None:
    with transaction.atomic():
        actions.enqueue(kind=KIND, object_id=object_id, tenant="tn_1", generation=generation)


def row(generation: int = 1) -> Delivery:
    return Delivery.objects.get(object_id="par_1", generation=generation)


def test_a_row_is_written_in_a_transaction_only() -> None:
    with pytest.raises(InvariantBroken):
        actions.enqueue(kind=KIND, object_id="par_1", tenant="tn_1", generation=1)


def test_a_change_that_is_rolled_back_leaves_no_row() -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        actions.enqueue(kind=KIND, object_id="par_1", tenant="tn_1", generation=1)
        raise RuntimeError
    assert not Delivery.objects.exists()


def test_what_is_delivered_is_noted_on_row_and_object(recipient: Recipient) -> None:
    enqueue(1)
    assert not queries.is_delivered(KIND, "par_1", 1)
    assert delivery.deliver(KIND, "par_1")
    assert (recipient.received, recipient.noted) == ([1], [1])
    assert queries.is_delivered(KIND, "par_1", 1)
    assert delivery.deliver(KIND, "par_1")
    assert recipient.received == [1]


def test_a_newer_generation_takes_the_older_ones_along(recipient: Recipient) -> None:
    for generation in (1, 2, 3):
        enqueue(generation)
    recipient.newest = 3
    assert delivery.deliver(KIND, "par_1")
    assert recipient.received == [3]
    assert queries.waiting() == (0, None)


def test_a_change_during_a_delivery_is_delivered_after_it(recipient: Recipient) -> None:
    enqueue(1)
    recipient.leave.clear()
    worker = threading.Thread(target=in_thread, args=(KIND, "par_1"))
    worker.start()
    assert recipient.entered.wait(PATIENCE_S)
    enqueue(2)
    recipient.newest = 2
    recipient.leave.set()
    worker.join(PATIENCE_S)
    assert recipient.received == [1, 2]
    assert queries.is_delivered(KIND, "par_1", 2)


def in_thread(kind: str, object_id: str) -> None:
    try:
        delivery.deliver(kind, object_id)
    finally:
        connection.close()


def test_one_object_is_with_one_deliverer_and_others_are_not_held_up(recipient: Recipient) -> None:
    enqueue(1)
    enqueue(1, "par_2")
    recipient.leave.clear()
    worker = threading.Thread(target=in_thread, args=(KIND, "par_1"))
    worker.start()
    assert recipient.entered.wait(PATIENCE_S)
    assert actions.claim(KIND, "par_1", timezone.now()) is None
    other = actions.claim(KIND, "par_2", timezone.now())
    assert other is not None
    recipient.leave.set()
    worker.join(PATIENCE_S)
    assert recipient.received == [1]


def test_of_many_who_want_one_row_one_gets_it(recipient: Recipient) -> None:
    enqueue(1)
    claims: list[object] = []
    start = threading.Barrier(4)

    def race() -> None:
        start.wait(PATIENCE_S)
        try:
            claims.append(actions.claim(KIND, "par_1", timezone.now()))
        finally:
            connection.close()

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(PATIENCE_S)
    assert len(claims) == 4 and sum(claim is not None for claim in claims) == 1


def test_a_deliverer_that_died_is_replaced_when_its_lease_is_over(recipient: Recipient) -> None:
    enqueue(1)
    now = timezone.now()
    assert actions.claim(KIND, "par_1", now) is not None
    almost = now + timedelta(seconds=actions.LEASE_S - 1)
    assert actions.claim(KIND, "par_1", almost) is None
    assert queries.due(almost, 10) == []
    later = now + timedelta(seconds=actions.LEASE_S + 1)
    assert queries.due(later, 10) == [(KIND, "par_1")]
    claim = actions.claim(KIND, "par_1", later)
    assert claim is not None and claim.attempts == 2


def test_who_comes_late_with_a_failure_disturbs_nobody(recipient: Recipient) -> None:
    enqueue(1)
    now = timezone.now()
    late = actions.claim(KIND, "par_1", now)
    second = actions.claim(KIND, "par_1", now + timedelta(seconds=actions.LEASE_S + 1))
    assert late is not None and second is not None
    actions.record_failed(late, "internal", "too late", now)
    assert row().lease_holder == second.holder
    assert recipient.failures == []


def test_a_refusal_is_shown_on_the_object_and_tried_again_ever_later(recipient: Recipient) -> None:
    enqueue(1)
    recipient.refusal = BrokerUnavailable("nobody there")
    waits = []
    for _ in range(3):
        Delivery.objects.update(next_attempt_at=timezone.now())
        assert not delivery.deliver(KIND, "par_1")
        waits.append((row().next_attempt_at - timezone.now()).total_seconds())
    assert recipient.failures == ["broker_unavailable: nobody there"] * 3
    assert row().error == "nobody there" and row().lease_until is None
    assert waits[0] < waits[1] < waits[2] < 2.1
    assert not delivery.deliver(KIND, "par_1"), "not due yet"
    assert len(recipient.received) == 3
    recipient.refusal = None
    Delivery.objects.update(next_attempt_at=timezone.now())
    assert delivery.deliver(KIND, "par_1")


def test_a_change_after_a_refusal_is_delivered_at_once(recipient: Recipient) -> None:
    enqueue(1)
    recipient.refusal = BrokerUnavailable("nobody there")
    delivery.deliver(KIND, "par_1")
    recipient.refusal = None
    enqueue(2)
    recipient.newest = 2
    assert delivery.deliver(KIND, "par_1")
    assert queries.waiting()[0] == 0


def test_our_own_fault_is_shown_and_not_tried_in_a_circle(recipient: Recipient) -> None:
    enqueue(1)
    recipient.refusal = ZeroDivisionError()
    assert not delivery.deliver(KIND, "par_1")
    assert recipient.failures == ["internal: the delivery broke; see the log"]
    assert row().next_attempt_at > timezone.now()


def test_the_sweep_delivers_whatever_was_lost(recipient: Recipient) -> None:
    for number in range(3):
        enqueue(1, f"par_{number}")
    assert delivery.sweep(10) == 3
    assert queries.waiting() == (0, None)
    assert delivery.sweep(10) == 0


def test_a_request_delivers_what_it_changed(recipient: Recipient) -> None:
    enqueue(1)
    assert in_request.deliver_now(KIND, "par_1", 1)
    assert (recipient.received, recipient.noted) == ([1], [1])
    assert in_request.deliver_now(KIND, "par_1", 1)
    assert recipient.received == [1]


def test_a_request_waits_for_whoever_delivers_already_and_no_longer_than_it_may(recipient: Recipient) -> None:
    enqueue(1)
    recipient.leave.clear()
    worker = threading.Thread(target=in_thread, args=(KIND, "par_1"))
    worker.start()
    assert recipient.entered.wait(PATIENCE_S)
    assert not in_request.deliver_now(KIND, "par_1", 1, timeout_s=0.05)
    threading.Timer(0.2, recipient.leave.set).start()
    assert in_request.deliver_now(KIND, "par_1", 1, timeout_s=PATIENCE_S)
    worker.join(PATIENCE_S)
    assert recipient.received == [1]


def test_a_request_whose_delivery_failed_waits_no_longer_and_leaves_it_to_the_sweep(
    recipient: Recipient,
) -> None:
    enqueue(1)
    recipient.refusal = BrokerUnavailable("nobody there")
    assert not in_request.deliver_now(KIND, "par_1", 1, timeout_s=PATIENCE_S)
    assert not in_request.deliver_now(KIND, "par_1", 1, timeout_s=PATIENCE_S), "not due yet, and with nobody"
    assert recipient.received == [1]
    recipient.refusal = None
    Delivery.objects.update(next_attempt_at=timezone.now())
    assert delivery.sweep(10) == 1


def test_a_request_without_time_delivers_nothing(recipient: Recipient) -> None:
    enqueue(1)
    assert not in_request.deliver_now(KIND, "par_1", 1, timeout_s=0.0)
    assert recipient.received == []


def test_calls_to_brokers_end_with_the_time_of_the_request(recipient: Recipient) -> None:
    enqueue(1)
    ends: list[float] = []
    told = recipient.deliver

    def deliver(object_id: str, generation: int) -> Delivered:
        ends.append(broker_calls.ends_at(1_000.0) - time.monotonic())
        return told(object_id, generation)

    recipient.deliver = deliver  # type: ignore[method-assign]
    assert in_request.deliver_now(KIND, "par_1", 1, timeout_s=5.0)
    assert 0 < ends[0] <= 5.0
    assert broker_calls.ends_at(1_000.0) - time.monotonic() > 900


def test_a_row_is_due_to_the_microsecond_and_its_lease_ends_likewise(recipient: Recipient) -> None:
    enqueue(1)
    due = row().next_attempt_at
    a_little = timedelta(microseconds=1)
    assert actions.claim(KIND, "par_1", due - a_little) is None
    first = actions.claim(KIND, "par_1", due)
    assert first is not None
    assert actions.claim(KIND, "par_1", first.until - a_little) is None
    assert actions.claim(KIND, "par_1", first.until) is not None


class WakeUps:
    """Celery's end of the wire: keeps what it was asked to send, or cannot send anything."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[str]]] = []
        self.broken = False

    def send_task(self, name: str, *, args: list[str], **options: object) -> None:
        assert options == {"retry": False, "expires": 60}
        if self.broken:
            raise ConnectionError("no transport")
        self.sent.append((name, args))


@pytest.fixture
def wake_ups(monkeypatch: pytest.MonkeyPatch) -> WakeUps:
    made = WakeUps()
    monkeypatch.setattr(outbox_wake_ups, "app", made)
    return made


def test_each_change_wakes_a_worker_once_it_is_committed(recipient: Recipient, wake_ups: WakeUps) -> None:
    with transaction.atomic():
        actions.enqueue(kind=KIND, object_id="par_1", tenant="tn_1", generation=1)
        assert wake_ups.sent == [], "a worker would not see the row yet"
    enqueue(2)
    assert wake_ups.sent == [("outbox.deliver", [KIND, "par_1"])] * 2


def test_what_a_request_does_not_deliver_itself_wakes_a_worker_at_its_end(
    recipient: Recipient, wake_ups: WakeUps
) -> None:
    with outbox_wake_ups.within_a_request():
        enqueue(1)
        enqueue(1, "par_2")
        enqueue(2, "par_2")
        assert in_request.deliver_now(KIND, "par_1", 1)
        assert wake_ups.sent == []
    assert wake_ups.sent == [("outbox.deliver", [KIND, "par_2"])]


def test_a_request_that_fails_wakes_a_worker_for_what_it_had_changed(
    recipient: Recipient, wake_ups: WakeUps
) -> None:
    with pytest.raises(ZeroDivisionError), outbox_wake_ups.within_a_request():
        enqueue(1)
        raise ZeroDivisionError
    assert wake_ups.sent == [("outbox.deliver", [KIND, "par_1"])]
    enqueue(2)
    assert len(wake_ups.sent) == 2, "after the request a worker is woken at once again"


def test_what_waits_is_withdrawn_unless_somebody_delivers_it(recipient: Recipient) -> None:
    enqueue(1)
    claim = actions.claim(KIND, "par_1", timezone.now())
    assert claim is not None
    with transaction.atomic():
        assert not actions.withdraw(KIND, "par_1")
    actions.record_failed(claim, "limit_exceeded", "too many", timezone.now())
    enqueue(1, "par_2")
    with transaction.atomic():
        assert actions.withdraw(KIND, "par_1")
    assert [row.object_id for row in Delivery.objects.all()] == ["par_2"]


def test_a_wake_up_that_cannot_be_sent_undoes_no_change(recipient: Recipient, wake_ups: WakeUps) -> None:
    wake_ups.broken = True
    enqueue(1)
    assert queries.waiting()[0] == 1
    assert delivery.deliver(KIND, "par_1")


def test_an_object_that_changes_faster_than_it_is_delivered_is_left_to_another_wake_up(
    recipient: Recipient, wake_ups: WakeUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = recipient.deliver

    def deliver(object_id: str, generation: int) -> Delivered:
        enqueue(generation + 1)
        recipient.newest = generation
        return told(object_id, generation)

    monkeypatch.setattr(recipient, "deliver", deliver)
    enqueue(1)
    assert not delivery.deliver(KIND, "par_1")
    assert recipient.received == [1, 2, 3, 4, 5]
    assert len(wake_ups.sent) == 1 + 5 + 1
    assert wake_ups.sent[-1] == ("outbox.deliver", [KIND, "par_1"])


def test_what_waits_may_be_made_due_again_and_again_until_it_is_delivered(recipient: Recipient) -> None:
    assert not actions.due_now(KIND, "par_1")
    enqueue(1)
    recipient.refusal = BrokerUnavailable("nobody there")
    for tries in (1, 2):
        delivery.deliver(KIND, "par_1")
        assert queries.due(timezone.now(), 10) == []
        assert actions.due_now(KIND, "par_1")
        assert queries.due(timezone.now(), 10) == [(KIND, "par_1")]
        assert len(recipient.received) == tries
    recipient.refusal = None
    assert delivery.deliver(KIND, "par_1")
    assert not actions.due_now(KIND, "par_1")


def test_the_task_of_the_sweep_sweeps_and_shows_that_the_worker_works(recipient: Recipient) -> None:
    enqueue(1)
    enqueue(1, "par_2")
    tasks.sweep()
    assert queries.waiting()[0] == 0
    beaten = processes.last_beat()
    assert beaten is not None and beaten.state == "ready"


def test_the_task_of_a_wake_up_delivers_its_object_alone(recipient: Recipient) -> None:
    enqueue(1)
    enqueue(1, "par_2")
    tasks.deliver(KIND, "par_2")
    assert queries.is_delivered(KIND, "par_2", 1) and not queries.is_delivered(KIND, "par_1", 1)


def test_a_claim_is_for_the_newest_generation_and_is_kept_on_its_row_alone() -> None:
    for generation in (2, 3, 1):
        enqueue(generation)
    now = timezone.now()
    claim = actions.claim(KIND, "par_1", now)
    assert claim is not None
    assert (claim.kind, claim.object_id, claim.generation, claim.attempts) == (KIND, "par_1", 3, 1)
    assert claim.until == now + timedelta(seconds=20)
    assert (row(3).lease_holder, row(3).lease_until, row(3).attempts) == (claim.holder, claim.until, 1)
    assert [row(older).lease_until for older in (1, 2)] == [None, None]
    second = actions.claim(KIND, "par_1", claim.until)
    assert second is not None and second.holder != claim.holder


def test_a_delivery_settles_its_object_and_no_newer_generation(recipient: Recipient) -> None:
    for generation in (1, 2):
        enqueue(generation)
    enqueue(1, "par_2")
    claim = actions.claim(KIND, "par_1", timezone.now())
    assert claim is not None
    enqueue(3)
    now = timezone.now()
    assert actions.record_delivered(claim, Delivered(generation=2), now), "the third one waits"
    settled = [row(generation) for generation in (1, 2, 3)]
    assert [one.delivered_at for one in settled] == [now, now, None]
    assert [(one.lease_until, one.lease_holder) for one in settled] == [(None, "")] * 3
    assert not queries.is_delivered(KIND, "par_2", 1)
    later = actions.claim(KIND, "par_1", timezone.now())
    assert later is not None
    assert not actions.record_delivered(later, Delivered(generation=3), timezone.now())
    assert recipient.noted == [2, 3]
    assert row(2).delivered_at == now, "what was settled stays as it is"


def test_a_delivery_of_something_older_than_was_claimed_is_a_broken_invariant(recipient: Recipient) -> None:
    enqueue(2)
    claim = actions.claim(KIND, "par_1", timezone.now())
    assert claim is not None
    with pytest.raises(InvariantBroken):
        actions.record_delivered(claim, Delivered(generation=1), timezone.now())


@pytest.mark.parametrize(("attempts", "wait_s"), [(1, 0.5), (2, 1), (6, 16), (7, 30), (5_000, 30)])
def test_the_wait_after_a_failure_doubles_up_to_half_a_minute(
    recipient: Recipient, attempts: int, wait_s: float
) -> None:
    enqueue(1)
    Delivery.objects.update(attempts=attempts - 1)
    now = timezone.now()
    claim = actions.claim(KIND, "par_1", now)
    assert claim is not None
    actions.record_failed(claim, "internal", "no", now)
    assert row().next_attempt_at == now + timedelta(seconds=wait_s)
    assert (row().lease_holder, row().lease_until) == ("", None)


def test_what_waits_longest_is_swept_first_and_what_is_with_somebody_or_not_due_is_left() -> None:
    now = timezone.now()
    for number, late_s in enumerate((1, 3, 2, -1, 4)):
        enqueue(1, f"par_{number}")
        Delivery.objects.filter(object_id=f"par_{number}").update(
            next_attempt_at=now - timedelta(seconds=late_s)
        )
    enqueue(2, "par_0")
    Delivery.objects.filter(object_id="par_0", generation=2).update(next_attempt_at=now)
    assert actions.claim(KIND, "par_4", now) is not None
    found = [object_id for _, object_id in queries.due(now, 10)]
    assert found == ["par_1", "par_2", "par_0"]
    assert [object_id for _, object_id in queries.due(now, 2)] == ["par_1", "par_2"]
    due = now + timedelta(seconds=1)
    assert "par_3" in [object_id for _, object_id in queries.due(due, 10)], "it is due to the microsecond"


def test_a_sweep_ends_when_its_time_is_up(recipient: Recipient, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 102.0, 105.0, 105.1])
    monkeypatch.setattr(delivery, "time", SimpleNamespace(monotonic=lambda: next(times)))
    for number in range(4):
        enqueue(1, f"par_{number}")
    assert delivery.sweep(5) == 2
    assert queries.waiting()[0] == 2


def test_what_waits_is_counted_and_the_oldest_named() -> None:
    assert queries.waiting() == (0, None)
    enqueue(1)
    enqueue(1, "par_2")
    assert queries.waiting() == (2, row().created_at)


def test_a_generation_is_delivered_when_nothing_up_to_it_waits(recipient: Recipient) -> None:
    enqueue(2)
    assert queries.is_delivered(KIND, "par_1", 1)
    assert not queries.is_delivered(KIND, "par_1", 2)
    assert not queries.is_delivered(KIND, "par_1", 3)
    assert queries.is_delivered(KIND, "par_2", 2)


def test_a_request_that_waits_looks_often_at_first_then_ten_times_a_second_and_never_beyond_its_end(
    recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, pauses = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        pauses.append(seconds)

    monkeypatch.setattr(in_request, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    enqueue(1)
    assert actions.claim(KIND, "par_1", timezone.now()) is not None
    assert not in_request.deliver_now(KIND, "par_1", 1, timeout_s=0.5)
    growing = [0.015 * 1.5**count for count in range(5)]
    assert pauses == pytest.approx([*growing, 0.1, 0.1, 0.1, 0.2 - sum(growing)])


def test_the_deliverer_of_a_kind_is_the_one_registered_last(recipient: Recipient) -> None:
    assert registry.deliverer(KIND) is recipient
    other = Recipient()
    registry.register(KIND, other)
    assert registry.deliverer(KIND) is other
    with pytest.raises(InvariantBroken):
        registry.deliverer("letter")


@dataclass
class Crate(Recipient):
    """Takes many parcels at once, and breaks when a certain one is among them."""

    broken: str = ""

    def deliver(self, object_id: str, generation: int) -> Delivered:
        if object_id == self.broken:
            raise ZeroDivisionError
        return super().deliver(object_id, generation)

    def deliver_all(self, object_ids: Sequence[str]) -> dict[str, Delivered | PenstockError]:
        if self.broken in object_ids:
            raise ZeroDivisionError
        return {object_id: Delivered(generation=self.newest) for object_id in object_ids}

    def all_delivered(self, done: Mapping[str, Delivered]) -> None:
        self.noted += [one.generation for one in done.values()]


@pytest.mark.parametrize("broken", ["", "par_2"])
def test_one_object_that_breaks_its_delivery_holds_up_none_that_is_due_with_it(
    recipient: Recipient, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate = Crate(broken=broken)
    crate.leave.set()
    monkeypatch.setitem(registry._deliverers, KIND, crate)
    monkeypatch.setitem(registry._batch_deliverers, KIND, crate)
    for number in (1, 2, 3):
        enqueue(1, f"par_{number}")
    assert delivery.sweep(60.0) == 3
    waiting = Delivery.objects.filter(delivered_at=None)
    assert [(one.object_id, one.reason) for one in waiting] == [(broken, "internal")] * bool(broken)
    assert len(crate.noted) == 3 - bool(broken)
    assert queries.due(timezone.now(), 10) == [], "what broke is tried again later"


def test_many_are_claimed_when_they_are_due_and_settled_up_to_what_was_delivered(
    recipient: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._batch_deliverers, KIND, Crate())
    for number in (1, 2):
        enqueue(1, f"par_{number}")
    now = timezone.now()
    Delivery.objects.filter(object_id="par_2").update(next_attempt_at=now + timedelta(seconds=1))
    (claim,) = actions.claim_all(KIND, ["par_1", "par_2"], now)
    assert (claim.object_id, claim.attempts) == ("par_1", 1), "the other one is not due"
    enqueue(2)
    actions.record_all_delivered([claim], {"par_1": Delivered(generation=1)}, now)
    assert not queries.is_delivered(KIND, "par_1", 2), "the change that came meanwhile waits"
    # Who comes late gives nothing back that is somebody else's by now.
    (late,) = actions.claim_all(KIND, ["par_1"], timezone.now())
    later = timezone.now() + timedelta(seconds=actions.LEASE_S)
    (present,) = actions.claim_all(KIND, ["par_1"], later)
    actions.give_back([late])
    assert row(2).lease_holder == present.holder != late.holder and present.attempts == 2
