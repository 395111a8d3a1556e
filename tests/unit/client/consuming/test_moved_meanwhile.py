"""A position that is moved or halted while something of it is under way."""

from __future__ import annotations

import pytest

from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.consuming.fetch_position import FetchedBatch, FetchPosition
from penstock.contract import errors, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.methods import BEGINNING
from tests.unit.client.consuming.test_consuming import expected, filled, values
from tests.unit.client.fake_cluster import Refused
from tests.unit.client.runner import Runner

LOOKUPS_MS = 12_000
"""Longer than a lookup of an offset is tried."""


def created_again(runner: Runner, consumer: ConsumerCore) -> FetchPosition:
    """A position of a topic that was deleted and created again after it was read."""
    assert values(runner, consumer) == expected(range(10))
    runner.cluster.delete("orders")
    runner.cluster.create("orders", 1)
    runner.run(200)
    with pytest.raises(errors.NotFound, match="created again"):
        runner.poll(consumer)
    return consumer.position("orders", 0)


@pytest.mark.parametrize("place", [{"offset": 0}, {"timestamp_ms": BEGINNING}])
def test_a_seek_in_a_topic_that_was_created_again_is_refused_and_not_tried_without_end(
    place: dict[str, int],
) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    position = created_again(runner, consumer)
    consumer.seek(position, **place)
    with pytest.raises(errors.NotFound, match="created again"):
        runner.poll(consumer)


def test_a_lookup_answered_after_its_topic_was_created_again_moves_nothing() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    position = consumer.position("orders", 0)
    runner.cluster.silent[position.leader] = None
    consumer.seek(position, timestamp_ms=BEGINNING)
    runner.run(10)
    runner.cluster.delete("orders")
    runner.cluster.create("orders", 1)
    runner.run(200)
    runner.cluster.silent.clear()
    runner.run(LOOKUPS_MS)
    assert position.error is not None
    with pytest.raises(errors.NotFound, match="created again"):
        runner.poll(consumer)


def test_a_paused_partition_that_retention_passes_still_hands_out_the_rest_of_its_batch() -> None:
    runner = filled(count=3)
    consumer = runner.consumer("orders")
    assert values(runner, consumer, 1) == expected(range(1))
    position = consumer.position("orders", 0)
    consumer.pause(position)
    partition = runner.cluster.topics["orders"].partitions[0]
    partition.log.clear()
    partition.log_start = partition.next_offset = 50
    runner.lose_streams(partition.leader)
    runner.run(3_000)
    consumer.resume("orders", 0)
    assert values(runner, consumer) == expected(range(1, 3))


def test_a_position_that_moves_while_its_batch_is_decoded_goes_on_where_it_was_moved_to() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    while not consumer.has_readable():
        consumer.prepare()
        runner.run(0)
    takes = 0

    def take() -> FetchedBatch | None:
        """As when another thread moves the position right after its batch was taken."""
        nonlocal takes
        takes += 1
        assert takes < 100, "the same batch is taken again and again"
        fetched = consumer.next_fetched()
        if takes == 1:
            consumer.seek(consumer.position("orders", 0), timestamp_ms=BEGINNING)
        return fetched

    collector = FetchCollector(
        take,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
    )
    collector.messages(1_000)
    assert values(runner, consumer) == expected(range(10))


def interrupted(runner: Runner, consumer: ConsumerCore, count: int) -> list[bytes | None]:
    """What a poll gathered that an interrupt ended before it returned."""
    while not consumer.has_readable():
        consumer.prepare()
        runner.run(1)
    consumer.prepare()
    collector = FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
    )
    return [message.value for message in collector.messages(count)]


@pytest.mark.parametrize("before", [0, 1, 3, 4])
def test_what_an_interrupted_poll_took_is_read_again_and_what_was_returned_before_is_not(before: int) -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    if before:
        assert values(runner, consumer, before) == expected(range(before))
    for count in (1, 5, 1_000):
        assert interrupted(runner, consumer, count) == expected(range(before, min(before + count, 10)))
        consumer.give_back()
    assert values(runner, consumer) == expected(range(before, 10))
    consumer.give_back()
    assert values(runner, consumer) == []


def test_an_interrupted_poll_after_a_seek_to_a_time_begins_at_that_time_again() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    consumer.seek(consumer.position("orders", 0), timestamp_ms=1_000_005)
    assert interrupted(runner, consumer, 1_000) == expected(range(5, 10))
    consumer.give_back()
    assert values(runner, consumer) == expected(range(5, 10))


def test_an_interrupted_poll_that_met_a_batch_it_cannot_read_gives_back_what_was_before_it() -> None:
    runner = filled()
    partition = runner.cluster.topics["orders"].partitions[0]
    base_offset, batch = partition.log[2]
    partition.log[2] = (base_offset, batch[:-1] + bytes([batch[-1] ^ 0xFF]))
    consumer = runner.consumer("orders")
    assert interrupted(runner, consumer, 1_000) == expected(range(6))
    consumer.give_back()
    assert values(runner, consumer) == expected(range(6))
    with pytest.raises(errors.CorruptBatch):
        runner.poll(consumer)


def test_a_position_that_was_sought_since_an_interrupted_poll_took_of_it_stays_there() -> None:
    runner = filled(partitions=2)
    consumer = runner.consumer("orders")
    assert len(interrupted(runner, consumer, 1_000)) == 20
    consumer.seek(consumer.position("orders", 0), offset=8)
    consumer.give_back()
    assert sorted(values(runner, consumer), key=str) == expected(range(8, 10)) + expected(range(10), 1)


def test_a_leader_that_moves_between_an_assignment_and_the_next_poll_is_followed() -> None:
    runner = filled()
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    consumer.assign([("orders", 0)])
    before = consumer.position("orders", 0).leader
    runner.cluster.move("orders", 0, (before + 1) % 3)
    runner.run(200)
    producer = runner.producer()
    runner.send(producer, "orders", b"behind the move", partition=0)
    assert values(runner, consumer) == [b"behind the move"]


def test_a_topic_that_a_watch_described_is_heard_of_although_the_question_for_it_was_refused() -> None:
    runner = filled()
    ask = runner.cluster.call

    def refuse_metadata(broker: int, method: str, request: bytes) -> bytes:
        if method == methods.METADATA:
            raise Refused(ErrorCode.UNAUTHENTICATED, "this broker does not know the key yet")
        return ask(broker, method, request)

    runner.cluster.call = refuse_metadata  # type: ignore[method-assign]
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    runner.cluster.call = ask  # type: ignore[method-assign]
    before = consumer.position("orders", 0).leader
    runner.cluster.move("orders", 0, (before + 1) % 3)
    runner.run(200)
    assert consumer.position("orders", 0).leader == (before + 1) % 3
