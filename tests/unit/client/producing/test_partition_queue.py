"""The batches of one partition: which leaves next and when, under which numbers, and what each outcome does to it."""

from __future__ import annotations

import pytest

from penstock.client.producing.batch import Identity, ProducerBatch
from penstock.client.producing.partition_queue import (
    SLOW_DOWN_MS_MAX,
    SLOW_DOWN_SHARE,
    Gap,
    PartitionQueue,
)
from penstock.client.timing import NEVER
from penstock.contract import errors
from penstock.records.build import BatchBuilder

NOW, LINGER_MS, DEADLINE_MS = 1_000.0, 50.0, 30_000.0
FIRST, NEXT = Identity(7, 0), Identity(7, 1)


def queue_of(window: int = 2, *, numbered: bool = True, tolerant: bool = False) -> PartitionQueue:
    queue = PartitionQueue("orders", bytes(16), 0, window=window, numbered=numbered, tolerant=tolerant)
    queue.leader = 1
    return queue


def add(queue: PartitionQueue, messages: int = 1, *, closed: bool = True) -> ProducerBatch:
    """One more batch with so many messages."""
    batch = ProducerBatch(
        queue, BatchBuilder(), queue.next_order(), NOW + LINGER_MS, NOW + DEADLINE_MS + queue.buffered_bytes
    )
    queue.open = batch
    assert batch.builder is not None
    for _ in range(messages):
        assert batch.builder.append(1_700_000_000_000, None, b"value", None)
    if closed:
        queue.close_open()
    return batch


def send(queue: PartitionQueue, identity: Identity | None = FIRST) -> ProducerBatch:
    batch = queue.sendable(NOW, identity)
    assert batch is not None
    queue.sent(batch)
    return batch


def numbers(batch: ProducerBatch) -> tuple[Identity | None, int]:
    return batch.identity, batch.base_sequence


REFUSAL = errors.NotLeader("elsewhere")


# -- which leaves next --------------------------------------------------------------------------------------


def test_batches_leave_in_their_order_as_many_as_the_window_takes_with_numbers_that_follow() -> None:
    queue = queue_of(window=2)
    first, second, third = add(queue, 3), add(queue, 2), add(queue)
    assert [send(queue), send(queue)] == [first, second]
    assert [numbers(first), numbers(second)] == [(FIRST, 0), (FIRST, 3)]
    assert queue.sendable(NOW, FIRST) is None and queue.wake_at(NOW) == NEVER, "the window is full"
    queue.applied(first)
    assert send(queue) is third and numbers(third) == (FIRST, 5)
    assert (first.attempts, third.attempts) == (1, 1)


def test_a_batch_that_lingers_leaves_at_its_time_or_when_another_is_closed_before_it() -> None:
    queue = queue_of()
    lingering = add(queue, closed=False)
    assert queue.sendable(NOW, FIRST) is None and queue.wake_at(NOW) == NOW + LINGER_MS
    assert queue.sendable(NOW + LINGER_MS, FIRST) is lingering and queue.open is None
    assert queue.buffered_bytes == lingering.raw_bytes > 0


def test_a_queue_waits_for_its_identity_its_retry_and_its_slowing_down() -> None:
    queue = queue_of()
    batch = add(queue)
    assert queue.sendable(NOW, None) is None and queue.wake_at(NOW) == NEVER
    queue.retry_at = NOW + 10
    assert queue.sendable(NOW + 9, FIRST) is None and queue.wake_at(NOW) == NOW + 10
    queue.slow_down(NOW, 40)
    assert queue.sendable(NOW + 39, FIRST) is None and queue.wake_at(NOW) == NOW + 40
    assert queue.sendable(NOW + 40, FIRST) is batch
    assert queue_of(numbered=False).wake_at(NOW) == NEVER
    empty = queue_of()
    empty.retry_at = NOW + 10
    assert empty.wake_at(NOW) == NEVER, "nothing waits"


def test_without_numbers_no_identity_is_needed() -> None:
    queue = queue_of(numbered=False)
    batch = add(queue)
    assert send(queue, None) is batch and numbers(batch) == (None, -1)


def test_a_batch_that_is_being_encoded_is_not_sent_a_second_time_meanwhile() -> None:
    queue = queue_of()
    batch = add(queue)
    batch.encoding = True
    assert queue.sendable(NOW, FIRST) is None
    batch.encoding = False
    send(queue)
    assert queue.lost(batch, REFUSAL, None) == []
    batch.encoding = True
    assert queue.sendable(NOW, FIRST) is None
    batch.encoding = False
    assert queue.sendable(NOW, FIRST) is batch


def test_a_newer_identity_is_taken_on_once_nothing_depends_on_the_old_one() -> None:
    queue = queue_of()
    first, second = add(queue, 2), add(queue)
    send(queue)
    assert queue.sendable(NOW, NEXT) is second
    queue.sent(second)
    assert numbers(second) == (FIRST, 2), "the first is under way"
    queue.applied(first)
    queue.applied(second)
    third = add(queue)
    assert send(queue, NEXT) is third and numbers(third) == (NEXT, 0)


# -- outcomes -----------------------------------------------------------------------------------------------


def test_what_is_refused_for_now_is_sent_again_under_its_numbers_before_what_came_later() -> None:
    queue = queue_of()
    first, second, third = add(queue, 2), add(queue), add(queue)
    send(queue)
    send(queue)
    assert queue.postponed(first, REFUSAL, NOW + 100, None) == []
    assert (queue.failures, queue.retry_at, queue.blocked_by) == (1, NOW + 100, REFUSAL)
    assert queue.postponed(second, REFUSAL, NOW + 50, None) == []
    assert (queue.failures, queue.retry_at) == (2, NOW + 100), "the later time holds"
    for expected in (first, second):
        batch = queue.sendable(NOW + 100, FIRST)
        assert batch is expected
        queue.sent(batch)
    assert numbers(first) == (FIRST, 0) and numbers(second) == (FIRST, 2)
    assert (first.attempts, third.attempts) == (2, 0)
    queue.applied(first)
    assert (queue.failures, queue.blocked_by) == (0, None)


@pytest.mark.parametrize("tainted", [False, True])
def test_the_last_attempt_that_is_refused_fails_with_what_is_known_of_it(tainted: bool) -> None:
    queue = queue_of()
    batch = add(queue)
    send(queue)
    batch.tainted = tainted
    ((failed, error),) = queue.postponed(batch, REFUSAL, NOW, 1)
    assert failed is batch and isinstance(error, errors.OutcomeUnknown if tainted else errors.NotLeader)
    assert queue.buffered_bytes >= 0 and not queue.in_flight and not queue.resend


def test_an_attempt_without_an_answer_may_have_been_applied_from_then_on() -> None:
    queue = queue_of()
    batch = add(queue)
    send(queue)
    assert queue.lost(batch, REFUSAL, 2) == [] and batch.tainted
    send(queue)
    ((failed, error),) = queue.lost(batch, REFUSAL, 2)
    assert failed is batch and isinstance(error, errors.OutcomeUnknown)
    assert "no answer to attempt 2, the last allowed; elsewhere" in error.message


@pytest.mark.parametrize(("tainted", "kind"), [(False, errors.InvalidRequest), (True, errors.OutcomeUnknown)])
def test_a_refusal_for_good_is_final_unless_an_earlier_attempt_may_have_been_applied(
    tainted: bool, kind: type[Exception]
) -> None:
    queue = queue_of()
    batch = add(queue)
    send(queue)
    batch.tainted = tainted
    ((failed, error),) = queue.refused(batch, errors.InvalidRequest("bad"))
    assert failed is batch and isinstance(error, kind)


def test_a_batch_that_is_out_of_order_behind_another_waits_for_it_and_no_attempt_is_counted() -> None:
    queue = queue_of()
    first, second = add(queue), add(queue)
    send(queue)
    send(queue)
    assert queue.out_of_order(second, errors.OutOfOrderSequence("gap"), NOW + 20) == []
    assert (second.attempts, queue.retry_at, queue.gap) == (0, NOW + 20, Gap.NONE)
    assert queue.postponed(first, REFUSAL, NOW, None) == []
    assert list(queue.resend) == [first, second], "in their order"


@pytest.mark.parametrize("tolerant", [True, False])
def test_a_batch_that_is_out_of_order_for_itself_needs_a_newer_epoch(tolerant: bool) -> None:
    queue = queue_of(tolerant=tolerant)
    batch = add(queue)
    send(queue)
    failures = queue.out_of_order(batch, errors.OutOfOrderSequence("gap"), NOW)
    assert queue.needs_epoch
    if not tolerant:
        ((failed, error),) = failures
        assert failed is batch and isinstance(error, errors.OutOfOrderSequence)
        return
    assert failures == [] and queue.sendable(NOW, FIRST) is None and queue.wants_epoch
    assert send(queue, NEXT) is batch and numbers(batch) == (NEXT, 0)


def test_a_producer_that_the_broker_forgot_goes_on_under_a_newer_epoch() -> None:
    queue = queue_of()
    batch, later = add(queue), add(queue)
    send(queue)
    assert queue.producer_unknown(batch, errors.UnknownProducer("forgot")) == []
    assert queue.sendable(NOW, FIRST) is None and queue.wants_epoch
    assert [send(queue, NEXT), send(queue, NEXT)] == [batch, later]
    assert numbers(batch) == (NEXT, 0) and numbers(later) == (NEXT, 1)


def test_what_may_have_been_applied_when_the_broker_forgot_the_producer_is_unknown() -> None:
    queue = queue_of()
    batch = add(queue)
    send(queue)
    batch.tainted = True
    ((failed, error),) = queue.producer_unknown(batch, errors.UnknownProducer("forgot"))
    assert failed is batch and isinstance(error, errors.OutcomeUnknown) and queue.needs_epoch


# -- the end of its time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["waits", "under way", "may have been applied"])
def test_a_batch_whose_time_is_over_says_whether_it_may_be_in_the_topic(how: str) -> None:
    queue = queue_of()
    batch = add(queue)
    if how != "waits":
        send(queue)
    if how == "may have been applied":
        assert queue.lost(batch, REFUSAL, None) == []
    ((failed, error),) = queue.expired(batch, 30_000.0)
    assert failed is batch and not queue.in_flight and not queue.resend and not queue.closed
    unknown = "the batch may or may not be in the topic" in str(error)
    assert unknown is (how != "waits")
    if how == "may have been applied":
        assert "1 attempts; last refusal: elsewhere" in str(error)


def test_a_queue_that_is_given_up_fails_all_that_waits_and_keeps_nothing() -> None:
    queue = queue_of(window=1)
    sent, lost, waiting = add(queue), add(queue), add(queue)
    lingering = add(queue, closed=False)
    send(queue)
    failures = dict(queue.abandon(errors.Closed("closed")))
    assert set(failures) == {sent, lost, waiting, lingering}
    assert isinstance(failures[waiting], errors.Closed)
    assert queue.idle and not queue.in_flight and queue.open is None


@pytest.mark.parametrize(
    ("failure", "blocked_by", "note"),
    [
        (None, None, ""),
        (REFUSAL, None, "; blocked by NotLeader: elsewhere"),
        (None, errors.Throttled("slow"), "; blocked by Throttled: slow"),
        (REFUSAL, errors.Throttled("slow"), "; blocked by NotLeader: elsewhere"),
    ],
)
def test_a_batch_says_what_blocks_it_its_own_refusal_before_its_partitions(
    failure: errors.PenstockError | None, blocked_by: errors.PenstockError | None, note: str
) -> None:
    queue = queue_of()
    batch = add(queue)
    batch.failure, queue.blocked_by = failure, blocked_by
    assert batch.blocked_note == note


# -- slowed -------------------------------------------------------------------------------------------------


def test_a_queue_is_slowed_until_the_newest_answer_says_and_counts_for_how_long_in_all() -> None:
    queue = queue_of()
    assert queue.slow_down(NOW, 0) == 0.0 and queue.slowed_until == 0.0
    assert queue.slow_down(NOW, 100) == 100
    assert queue.slow_down(NOW + 40, 100) == 40, "60 of it were to be waited already"
    assert queue.slowed_for_ms(NOW + 40) == 100 and queue.slowed_ms == 140
    assert queue.slow_down(NOW + 90, 0) == -50
    assert (queue.slowed_for_ms(NOW + 90), queue.slowed_ms, queue.slow_down_ms) == (0, 90, 0)


@pytest.mark.parametrize(
    ("wait_ms", "chance", "timeout_ms", "believed_ms"),
    [
        (100, 0.0, 120_000, 100),
        (100, 1.0, 120_000, 125),
        (100_000, 0.0, 120_000, SLOW_DOWN_MS_MAX),
        (100_000, 0.0, 8_000, 8_000 / SLOW_DOWN_SHARE),
    ],
)
def test_a_broker_is_believed_for_so_long(
    wait_ms: float, chance: float, timeout_ms: float, believed_ms: float
) -> None:
    assert queue_of().believed_ms(wait_ms, NOW, chance, timeout_ms) == believed_ms


def test_waits_take_half_of_the_time_of_the_batch_that_leaves_next_and_no_more() -> None:
    queue = queue_of()
    batch = add(queue)
    batch.deadline = NOW + 600
    assert queue.first_deadline == NOW + 600
    assert queue.believed_ms(1_000, NOW, 0.0, 1_000) == 100
    assert queue.believed_ms(1_000, NOW + 200, 0.0, 1_000) == 1
    send(queue)
    assert queue.first_deadline == NEVER
    assert queue.lost(batch, REFUSAL, None) == [] and queue.first_deadline == NOW + 600
    empty = queue_of()
    assert empty.first_deadline == NEVER
    lingering = add(empty, closed=False)
    assert empty.first_deadline == lingering.deadline
