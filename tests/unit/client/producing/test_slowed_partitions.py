"""A broker asks to slow down for one partition: that one waits and fills its batches, the others go on."""

from __future__ import annotations

import pytest

from penstock.client.producing import statistics
from penstock.client.producing.partition_queue import SLOW_DOWN_JITTER, SLOW_DOWN_MS_MAX
from penstock.client.producing.producer import ProducerCore
from penstock.contract.errors import BufferFull, ErrorCode
from penstock.contract.v1 import log_pb2
from tests.unit.client.runner import Runner, SyncDelivery

WAIT_MS = 400


def started(partitions: int = 3, brokers: int = 1, **settings: object) -> tuple[Runner, ProducerCore]:
    runner = Runner(brokers=brokers)
    runner.cluster.create("orders", partitions)
    producer = runner.producer(None, **settings)
    assert producer.route("orders") is None
    runner.run(0)
    return runner, producer


def log_of(runner: Runner, partition: int) -> list[bytes | None]:
    return runner.cluster.topics["orders"].partitions[partition].values()


def slowed(runner: Runner, producer: ProducerCore, partition: int = 0, wait_ms: int = WAIT_MS) -> None:
    """From now on the broker says so to whatever comes to the partition, and has said it once."""
    runner.cluster.slow_down_ms[partition] = wait_ms
    runner.send(producer, "orders", b"first", partition=partition)
    runner.run(5)


def test_only_the_slowed_partition_waits_and_its_batch_fills_meanwhile() -> None:
    runner, producer = started()
    slowed(runner, producer)
    frames = len(runner.cluster.frames_of_batches)
    for number in range(10):
        runner.send(producer, "orders", b"%d" % number, partition=0)
        runner.send(producer, "orders", b"%d" % number, partition=1)
        runner.run(10)
    assert log_of(runner, 0) == [b"first"]
    assert log_of(runner, 1) == [b"%d" % number for number in range(10)]
    runner.run(WAIT_MS * (1 + SLOW_DOWN_JITTER))
    assert log_of(runner, 0) == [b"first", *[b"%d" % number for number in range(10)]]
    assert sum(runner.cluster.frames_of_batches[frames:]) == 11, "the ten of the slowed one went as one batch"


def test_a_later_answer_without_it_ends_the_wait_at_once() -> None:
    runner, producer = started()
    deliveries = []
    runner.cluster.slow_down_ms[0] = WAIT_MS
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    queue = producer.accumulator.routes["orders"].queues[0]
    assert queue.slowed_until > runner.now
    queue.slow_down(runner.now, 0)
    runner.cluster.slow_down_ms.clear()
    deliveries.append(runner.send(producer, "orders", b"b", partition=0))
    runner.run(5)
    assert deliveries[0].receipt().offset == 1
    assert queue.slowed_ms < WAIT_MS / 2, "what was not waited does not count"


def test_messages_without_a_key_go_elsewhere_and_those_with_one_stay() -> None:
    runner, producer = started()
    slowed(runner, producer)
    free = [runner.send(producer, "orders", b"free") for _ in range(1)]
    for _ in range(40):
        free.append(runner.send(producer, "orders", b"free"))
        runner.run(2)
    assert {delivery.batch.queue.partition for delivery in free} == {1, 2}
    route = producer.accumulator.routes["orders"]
    key = next(b"%d" % number for number in range(100) if route.queue_of_key(b"%d" % number).partition == 0)
    assert runner.send(producer, "orders", b"keyed", key).batch.queue.partition == 0


def test_without_another_partition_they_stay_and_leave_in_order() -> None:
    runner, producer = started(partitions=1)
    slowed(runner, producer)
    runner.cluster.slow_down_ms.clear()
    deliveries = [runner.send(producer, "orders", b"%d" % number) for number in range(5)]
    runner.run(2 * WAIT_MS)
    assert [delivery.receipt().offset for delivery in deliveries] == [1, 2, 3, 4, 5]


def test_a_slowed_partition_takes_half_of_the_buffer_and_leaves_the_rest_to_others() -> None:
    runner, producer = started(buffer_bytes=100_000, batch_bytes=2_000)
    slowed(runner, producer, wait_ms=60_000)
    route = producer.accumulator.routes["orders"]

    def append(partition: int) -> SyncDelivery | None:
        return producer.accumulator.append(
            route, bytes(1_000), None, None, 1_700_000_000_000, partition, lambda: runner.now, SyncDelivery
        )

    taken = 0
    while append(0) is not None:
        taken += 1
        assert taken < 200
    assert 40 <= taken <= 60
    with pytest.raises(BufferFull, match="orders-0 wait, and its broker asks to slow down"):
        producer.accumulator.rejected(route, 0, SyncDelivery)
    for _ in range(100):
        assert append(1) is not None
        runner.run(1)
    assert len(log_of(runner, 1)) >= 99
    runner.cluster.slow_down_ms.clear()
    runner.run(2 * SLOW_DOWN_MS_MAX)
    assert len(log_of(runner, 0)) == taken + 1 and append(0) is not None
    assert route.queues[0].buffered_bytes == 0


def test_all_slowed_partitions_together_leave_room_for_those_that_are_not() -> None:
    runner, producer = started(partitions=5, buffer_bytes=100_000, batch_bytes=2_000)
    slowed(runner, producer, 0, wait_ms=60_000)
    accumulator, route = producer.accumulator, producer.accumulator.routes["orders"]

    def fill(partition: int) -> int:
        taken = 0
        while True:
            one = accumulator.append(
                route, bytes(1_000), None, None, 0, partition, lambda: runner.now, SyncDelivery
            )
            if one is None:
                return taken
            taken += 1
            assert taken < 200

    assert fill(0) > 40, "alone it has all of it"
    for partition in (1, 2, 3):
        slowed(runner, producer, partition, wait_ms=60_000)
    more = [fill(partition) for partition in (1, 2, 3, 0)]
    assert more[3] == 0 and all(1 <= taken <= 3 for taken in more[:3]), f"a batch each, not {more}"
    with pytest.raises(BufferFull, match="4 slowed partitions have 1/2 of buffer_bytes=100000 together"):
        accumulator.rejected(route, 0, SyncDelivery)
    for _ in range(100):
        runner.send(producer, "orders", bytes(1_000), partition=4)
        runner.run(1)
    assert len(log_of(runner, 4)) >= 99
    runner.cluster.slow_down_ms.clear()
    runner.run(2 * SLOW_DOWN_MS_MAX)
    slowed(runner, producer, 1, wait_ms=60_000)
    assert fill(1) > 40, "the others are not slowed any more"


@pytest.mark.parametrize("many", [False, True])
def test_messages_without_a_key_pass_slowed_partitions_that_have_their_share(many: bool) -> None:
    runner, producer = started(partitions=4, buffer_bytes=100_000, batch_bytes=2_000)
    for partition in range(4):
        slowed(runner, producer, partition, wait_ms=60_000)
    accumulator, route = producer.accumulator, producer.accumulator.routes["orders"]

    def append(partition: int | None) -> list[SyncDelivery]:
        if many:
            return accumulator.append_many(
                route, [bytes(1_000)], None, 0, None, 0, partition, lambda: runner.now, SyncDelivery
            )
        one = accumulator.append(
            route, bytes(1_000), None, None, 0, partition, lambda: runner.now, SyncDelivery
        )
        return [] if one is None else [one]

    while append(1):
        assert accumulator.free_bytes > 0
    full = route.queues[1].buffered_bytes
    assert 12_500 <= full < 16_000, "an even share of what four slowed ones may have"
    route.queues[1].slowed_until = runner.now
    taken = []
    for _ in range(30):
        taken += append(None)
    assert len(taken) == 30, "half of the buffer is free, for the others"
    assert 1 not in {delivery.batch.queue.partition for delivery in taken}
    assert route.queues[1].buffered_bytes == full


def test_only_if_all_have_their_share_messages_without_a_key_have_no_room() -> None:
    runner, producer = started(partitions=1, buffer_bytes=100_000, batch_bytes=2_000)
    slowed(runner, producer, wait_ms=60_000)
    taken = 0
    with pytest.raises(AssertionError, match="the buffer is full"):
        for _ in range(200):
            runner.send(producer, "orders", bytes(1_000))
            taken += 1
    assert 40 <= taken <= 60


@pytest.mark.parametrize("answer", ["throttled", "duplicate", "applied"])
def test_only_a_batch_that_was_taken_now_ends_the_wait(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    runner, producer = started()
    slowed(runner, producer)
    runner.cluster.slow_down_ms.clear()
    append = runner.cluster._append

    def duplicate(broker: int, wanted: log_pb2.ProduceBatch, batch: bytes) -> log_pb2.ProduceResult:
        result = append(broker, wanted, batch)
        result.duplicate = True
        return result

    if answer == "throttled":
        runner.cluster.refusals.append((ErrorCode.THROTTLED, "rate"))
    elif answer == "duplicate":
        monkeypatch.setattr(runner.cluster, "_append", duplicate)
    queue = producer.accumulator.routes["orders"].queues[0]
    queue.slowed_until = runner.now
    runner.send(producer, "orders", b"x", partition=0)
    runner.run(2)
    assert bool(queue.slow_down_ms) is (answer != "applied")


def test_whatever_a_broker_says_a_partition_waits_for_its_bound_at_most() -> None:
    runner, producer = started()
    slowed(runner, producer, wait_ms=2**32 - 1)
    delivery = runner.send(producer, "orders", b"x", partition=0)
    runner.run(SLOW_DOWN_MS_MAX + 10)
    assert delivery.receipt().offset == 1


def test_what_the_delivery_timeout_leaves_room_for_is_sent_whatever_a_broker_asks() -> None:
    runner, producer = started(delivery_timeout_ms=1_000)
    slowed(runner, producer, wait_ms=5_000)
    deliveries = []
    for number in range(40):
        deliveries.append(runner.send(producer, "orders", b"%d" % number, partition=0))
        runner.run(50)
    runner.run(1_000)
    assert [delivery.receipt().offset for delivery in deliveries] == list(range(1, 41))


def test_nothing_fails_unsent_behind_a_long_backlog_of_a_partition_that_stays_slowed() -> None:
    runner, producer = started(delivery_timeout_ms=1_000, batch_messages=1)
    slowed(runner, producer, wait_ms=5_000)
    deliveries = [runner.send(producer, "orders", b"%d" % number, partition=0) for number in range(60)]
    runner.run(400)
    assert not deliveries[-1].done()
    runner.run(1_000)
    assert [delivery.receipt().offset for delivery in deliveries] == list(range(1, 61))


def test_a_message_that_waited_too_long_says_that_its_partition_was_slowed() -> None:
    runner, producer = started(delivery_timeout_ms=1_000)
    slowed(runner, producer)
    delivery = runner.send(producer, "orders", b"x", partition=0)
    producer.accumulator.routes["orders"].queues[0].slow_down(runner.now, 10_000)
    runner.run(2_000)
    assert "orders-0: waited because its broker asks to slow down" in str(delivery.error)


def test_a_new_leader_is_not_waited_for() -> None:
    runner, producer = started(brokers=2)
    slowed(runner, producer)
    delivery = runner.send(producer, "orders", b"x", partition=0)
    runner.cluster.move("orders", 0, 1)
    runner.run(50)
    assert delivery.receipt().offset == 1


def test_statistics_say_what_is_slowed_throttled_and_hot() -> None:
    runner, producer = started()
    slowed(runner, producer)
    runner.cluster.throttled_ms = 70
    delivery = runner.send(producer, "orders", b"x", partition=1)
    for _ in range(3_000):
        runner.send(producer, "orders", b"", b"hot", partition=2)
    runner.run(5)
    assert delivery.throttled_ms == 70
    stats = producer.stats(runner.now)
    assert stats.throttled_ms >= 70 and stats.refused_for_limits == 0
    assert 0 < stats.slowed_ms <= 10, "what is still to be waited was not waited"
    found = {one.partition: one for one in stats.partitions}
    assert found[0].slowed_for_ms > WAIT_MS / 2 and found[0].hot_keys == ()
    assert [(one.key, one.share_percent) for one in found[2].hot_keys] == [(b"hot", 100)]
    waiting = runner.send(producer, "orders", b"y", partition=1)
    assert waiting.batch.blocked_note == "; a limit of the tenant delayed the batch before it by 70 ms"
    runner.run(100)
    runner.cluster.throttled_ms = 0
    at_once = runner.send(producer, "orders", b"x", partition=1)
    runner.run(5)
    assert at_once.receipt().offset == 2 and at_once.throttled_ms == 0


def test_a_total_never_goes_back() -> None:
    runner, producer = started()
    slowed(runner, producer)
    runner.run(WAIT_MS / 2)
    before = producer.stats(runner.now).slowed_ms
    assert WAIT_MS / 2 <= before <= WAIT_MS / 2 + 10
    runner.cluster.delete("orders")
    runner.run(100)
    assert not producer.accumulator.routes and producer.stats(runner.now).slowed_ms >= before
    producer.close(runner.now)
    assert producer.stats(runner.now).slowed_ms >= before


def test_what_was_slowed_is_known_after_the_end_and_what_was_not_waited_does_not_count() -> None:
    runner, producer = started()
    slowed(runner, producer)
    runner.run(WAIT_MS / 2)
    producer.close(runner.now)
    assert WAIT_MS / 2 <= producer.stats(runner.now).slowed_ms <= WAIT_MS / 2 + 10


def test_refusals_for_any_limit_are_counted() -> None:
    runner, producer = started()
    runner.cluster.refusals += [(ErrorCode.THROTTLED, "rate"), (ErrorCode.THROTTLED, "storage")]
    runner.send(producer, "orders", b"x", partition=0)
    runner.run(500)
    assert producer.stats(runner.now).refused_for_limits == 2


def test_the_worst_partitions_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, producer = started(partitions=5)
    monkeypatch.setattr(statistics, "PARTITIONS_MAX", 3)
    route = producer.route("orders")
    assert route is not None
    queues = route.queues
    queues[0].buffered_bytes, queues[1].buffered_bytes = 10, 20
    queues[2].slow_down(runner.now - 700, 500)
    queues[3].slow_down(runner.now - 700, 600)
    queues[4].slow_down(runner.now - 10, 20)
    assert [one.partition for one in producer.stats(runner.now).partitions] == [4, 3, 2]


def test_a_send_that_waits_for_space_is_looked_at_once() -> None:
    runner, producer = started(partitions=1, buffer_bytes=100_000, batch_bytes=2_000)
    slowed(runner, producer, wait_ms=60_000)
    accumulator, route = producer.accumulator, producer.accumulator.routes["orders"]

    def append() -> SyncDelivery | None:
        return accumulator.append(route, bytes(1_000), b"k", None, 0, None, lambda: runner.now, SyncDelivery)

    while append() is not None:
        assert accumulator.free_bytes > 0
    left = accumulator._until_sample
    for _ in range(1_000):
        assert append() is None
    assert accumulator._until_sample == left


@pytest.mark.parametrize("sample_keys", [True, False])
def test_keys_are_only_looked_at_where_that_is_wanted(sample_keys: bool) -> None:
    runner, producer = started(sample_keys=sample_keys)
    for _ in range(3_000):
        runner.send(producer, "orders", b"", b"hot", partition=0)
    runner.run(100)
    assert bool(producer.stats(runner.now).partitions) is sample_keys


def test_of_a_deleted_topic_no_key_is_kept() -> None:
    runner, producer = started()
    for _ in range(3_000):
        runner.send(producer, "orders", b"", b"hot", partition=0)
    runner.cluster.delete("orders")
    runner.run(100)
    sampler = producer.accumulator.sampler
    assert sampler is not None and not sampler.sketches()
