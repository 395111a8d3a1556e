"""Which partition a message goes to and what its producer says of one that has none, message by message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.cluster_view import NO_LEADER
from penstock.client.producing.accumulator import Route
from penstock.client.producing.partition_queue import PartitionQueue
from penstock.client.producing.producer import ProducerCore
from penstock.contract import errors
from tests.unit.client.runner import Runner, SyncDelivery

NOW = 1_000.0
FREE, SLOWED, FULL, LEADERLESS = "free", "slowed", "full", "leaderless"
OVER = "slowed until now"


def route_of(*states: str) -> tuple[Route, Callable[[PartitionQueue], bool]]:
    """Partitions in these states, and what says whether one has its share of the buffer."""
    route = Route("orders", bytes(16), 0)
    for number, state in enumerate(states):
        queue = PartitionQueue("orders", bytes(16), number, window=5, numbered=True, tolerant=False)
        queue.leader = NO_LEADER if state == LEADERLESS else number
        if state in (SLOWED, FULL, OVER):
            queue.slow_down(NOW - 500, 500 if state == OVER else 5_000)
        route.queues.append(queue)
    return route, lambda queue: states[queue.partition] == FULL


@pytest.mark.parametrize(
    ("states", "sticky", "following"),
    [
        ((FREE, FREE, FREE), 0, 1),
        ((FREE, FREE, FREE), 2, 0),
        ((FREE,), 0, 0),
        ((FREE, LEADERLESS, FREE), 0, 2),
        ((FREE, SLOWED, FREE), 0, 2),
        ((FREE, SLOWED, SLOWED), 0, 0),
        ((SLOWED, SLOWED, LEADERLESS), 0, 1),
        ((SLOWED, LEADERLESS, SLOWED), 0, 2),
        ((FREE, OVER, FREE), 0, 1),
        ((SLOWED, FULL, SLOWED), 0, 2),
        ((FULL, FULL, FULL), 0, 1),
        ((FULL, LEADERLESS, FULL), 0, 2),
        ((LEADERLESS, FULL, LEADERLESS), 1, 1),
        ((LEADERLESS, LEADERLESS, LEADERLESS), 0, 1),
        ((LEADERLESS, LEADERLESS, LEADERLESS), 2, 0),
        ((FULL, SLOWED, FREE), 0, 2),
    ],
)
def test_messages_without_a_key_go_on_to_the_next_partition_that_takes_them(
    states: tuple[str, ...], sticky: int, following: int
) -> None:
    route, has_its_share = route_of(*states)
    route.sticky = sticky
    assert route.advance_sticky(NOW, has_its_share) is route.queues[following]
    assert route.sticky == following


def started(partitions: int = 3, **settings: object) -> tuple[Runner, ProducerCore]:
    runner = Runner()
    runner.cluster.create("orders", partitions)
    producer = runner.producer(None, **settings)
    assert producer.route("orders") is None
    runner.run(0)
    return runner, producer


def appended(
    runner: Runner,
    producer: ProducerCore,
    value: bytes | None,
    key: bytes | None = None,
    partition: object = None,
) -> SyncDelivery | None:
    route = producer.route("orders")
    assert route is not None
    return producer.accumulator.append(
        route, value, key, None, 1_700_000_000_000, partition, lambda: runner.now, SyncDelivery
    )


@pytest.mark.parametrize("partition", ["1", 1.0, b"1"])
def test_a_partition_is_a_number(partition: object) -> None:
    runner, producer = started()
    with pytest.raises(TypeError, match=r"orders: partition .* is not a number"):
        appended(runner, producer, b"v", partition=partition)


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_is_one_that_there_is(partition: int) -> None:
    runner, producer = started()
    with pytest.raises(errors.NotFound, match=f"orders: no partition {partition}; it has 3, 0 to 2"):
        appended(runner, producer, b"v", partition=partition)
    for there in range(3):
        assert appended(runner, producer, b"v", partition=there) is not None


def test_a_partitioner_of_ones_own_is_asked_unless_the_message_names_its_partition() -> None:
    asked: list[tuple[object, ...]] = []

    def choose(*about: object) -> int:
        asked.append(about)
        return 2

    runner, producer = started(partitioner=choose)
    appended(runner, producer, b"a", b"k")
    appended(runner, producer, b"b")
    appended(runner, producer, b"c", b"k", partition=1)
    runner.run(100)
    assert asked == [("orders", b"k", b"a", 3), ("orders", None, b"b", 3)]
    logs = [partition.values() for partition in runner.cluster.topics["orders"].partitions]
    assert logs == [[], [b"c"], [b"a", b"b"]]


def test_a_message_may_be_as_large_as_the_topic_allows_its_key_included() -> None:
    runner, producer = started(batch_bytes=4 << 20, buffer_bytes=8 << 20)
    route = producer.route("orders")
    assert route is not None
    largest = route.max_message_bytes
    with pytest.raises(errors.MessageTooLarge, match=f"message of {largest + 1} bytes, at most {largest}"):
        appended(runner, producer, bytes(largest), b"k")
    assert appended(runner, producer, bytes(largest - 1), b"k") is not None
    assert appended(runner, producer, None, b"k") is not None


def test_a_message_larger_than_the_buffer_is_refused_for_good_and_one_that_only_waits_is_not() -> None:
    runner, producer = started(linger_ms=60_000, buffer_bytes=64 << 10)
    room = 64 << 10
    with pytest.raises(
        errors.BufferFull, match=f"message of {room + 1} bytes, buffer_bytes is {room}; raise it"
    ):
        appended(runner, producer, bytes(room + 1))
    assert producer.accumulator.buffered_bytes == 0
    first = appended(runner, producer, bytes(40_000), partition=0)
    assert first is not None and 40_000 <= producer.accumulator.buffered_bytes < 40_100
    assert appended(runner, producer, bytes(40_000), partition=1) is None
    runner.run(10)
    assert first.done(), "what lingers leaves when space is needed"
    assert producer.accumulator.buffered_bytes == 0
    assert appended(runner, producer, bytes(40_000), partition=1) is not None


@pytest.mark.parametrize("on_full", ["fail", "drop"])
def test_a_message_that_may_not_wait_is_refused_or_dropped_and_counted(on_full: str) -> None:
    _, producer = started(on_full=on_full, acks=1 if on_full == "fail" else 0, idempotent=False)
    accumulator, route = producer.accumulator, producer.route("orders")
    assert route is not None
    if on_full == "fail":
        with pytest.raises(errors.BufferFull, match="0 of buffer_bytes=1048576 wait for their outcome"):
            accumulator.rejected(route, 7, SyncDelivery)
        assert accumulator.dropped_messages == 0
        return
    for times in (1, 2):
        dropped = accumulator.rejected(route, 7, SyncDelivery)
        assert isinstance(dropped.error, errors.BufferFull)
        assert accumulator.dropped_messages == times
    assert accumulator.buffered_bytes == 0 and producer.pending() == []


def test_a_message_that_cannot_be_encoded_leaves_no_batch_behind() -> None:
    runner, producer = started(linger_ms=60_000)
    with pytest.raises((TypeError, AttributeError, ValueError)):
        appended(runner, producer, "text", partition=0)  # type: ignore[arg-type]
    assert producer.pending() == [] and producer.accumulator.buffered_bytes == 0
    assert appended(runner, producer, b"v", partition=0) is not None
    assert len(producer.close_batches()) == 1
    runner.run(100)
    assert producer.pending() == [] and runner.cluster.topics["orders"].partitions[0].values() == [b"v"]
