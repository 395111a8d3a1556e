"""What a consumer makes of batches whose records are not what their headers say."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import SkippedBatch
from penstock.client.arguments import consumer_settings
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.consuming.malformed import LOG_EVERY_MS, SkipLog
from penstock.client.telling import write_lines
from penstock.contract import errors
from penstock.records import parse
from penstock.records.batch import placed
from tests.unit.client.runner import CONSUMER, Runner
from tests.unit.records.forging import forged, plain_block


def poisoned(bad: int = 1, partitions: int = 1) -> Runner:
    """A topic `orders`: three messages, `bad` batches of 1,000 messages that say 1, three messages."""
    runner = Runner()
    runner.cluster.create("orders", partitions)
    _fill(runner, 0)
    partition = runner.cluster.topics["orders"].partitions[0]
    for _ in range(bad):
        end = partition.next_offset
        partition.log.append((end, b"".join(placed(forged(plain_block(1_000), 1), end, 1))))
        partition.next_offset = end + 1
    _fill(runner, 3)
    return runner


def _fill(runner: Runner, start: int) -> None:
    producer = runner.producer(batch_messages=3)
    for number in range(start, start + 3):
        for partition in range(len(runner.cluster.topics["orders"].partitions)):
            runner.send(producer, "orders", b"%d:%d" % (partition, number), partition=partition)
    runner.run(100)
    runner.core.remove(producer, runner.now)
    runner.run(0)


def collector_of(runner: Runner, consumer: ConsumerCore) -> FetchCollector:
    """All of the topic waits to be handed out."""
    for _ in range(2):
        consumer.prepare()
        runner.run(50)
    return FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
    )


def read(runner: Runner, consumer: ConsumerCore) -> list[bytes | None]:
    found: list[bytes | None] = []
    while more := [message.value for message in runner.poll(consumer)]:
        found += more
    return found


FIRST, LAST = [b"0:0", b"0:1", b"0:2"], [b"0:3", b"0:4", b"0:5"]


def test_a_malformed_batch_is_skipped_whole_and_what_stands_behind_it_is_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    with caplog.at_level(logging.WARNING, "penstock"):
        assert read(runner, consumer) == FIRST + LAST
    (skipped,) = runner.skipped
    assert (skipped.topic, skipped.partition) == ("orders", 0)
    assert (skipped.first_offset, skipped.end_offset) == (3, 4)
    assert "records" in skipped.reason
    assert consumer.position("orders", 0).offset == 7
    assert consumer.skipping.messages == 1
    (line,) = caplog.messages
    assert line.startswith(
        "penstock: skipped a malformed batch: orders-0: offsets 3 to 3 are no messages: batch: "
    )
    assert "a key that may produce to orders" in line


def test_what_stands_before_it_is_handed_out_before_it_is_told_of() -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    hands = collector_of(runner, consumer)
    assert len(hands.messages(1_000)) == 3
    assert consumer.position("orders", 0).offset == 3
    assert hands.messages(1_000) == []
    fetched = hands.found_malformed
    assert fetched is not None
    assert consumer.position("orders", 0).offset == 3
    consumer.skip(fetched, runner.now)
    assert consumer.position("orders", 0).offset == 4
    assert [message.offset for message in hands.messages(1_000)] == [4, 5, 6]
    assert hands.found_malformed is None


def test_whole_batches_are_read_around_it_as_well() -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    hands = collector_of(runner, consumer)
    assert [list(batch.offsets) for batch in hands.batches(100)] == [[0, 1, 2]]
    assert hands.batches(100) == []
    assert hands.found_malformed is not None
    consumer.skip(hands.found_malformed, runner.now)
    assert [list(batch.offsets) for batch in hands.batches(100)] == [[4, 5, 6]]


def test_it_is_parsed_once_however_often_it_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    hands = collector_of(runner, consumer)
    hands.messages(1_000)
    for name in ("check_batch", "decompress"):
        monkeypatch.delattr(parse, name)
    for _ in range(3):
        assert hands.messages(1_000) == []
        assert hands.found_malformed is not None


def test_an_application_that_seeks_while_it_is_told_goes_where_it_said() -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    hands = collector_of(runner, consumer)
    hands.messages(1_000)
    assert hands.messages(1_000) == []
    fetched = hands.found_malformed
    assert fetched is not None
    consumer.seek(consumer.position("orders", 0), offset=1)
    consumer.skip(fetched, runner.now)
    assert consumer.position("orders", 0).offset == 1
    assert consumer.skipping.messages == 0
    assert read(runner, consumer) == FIRST[1:] + LAST


def test_other_partitions_are_read_meanwhile() -> None:
    runner = poisoned(bad=5, partitions=3)
    assert sorted(map(str, read(runner, runner.consumer("orders")))) == sorted(
        str(b"%d:%d" % (partition, number)) for partition in range(3) for number in range(6)
    )
    assert len(runner.skipped) == 5


def test_a_time_that_is_sought_may_lie_in_one() -> None:
    runner = poisoned()
    consumer = runner.consumer("orders")
    collector_of(runner, consumer)
    consumer.seek(consumer.position("orders", 0), timestamp_ms=1)
    assert read(runner, consumer) == FIRST + LAST


def test_a_consumer_that_would_rather_stop_is_told_how_to_go_on() -> None:
    runner = poisoned()
    consumer = runner.consumer("orders", malformed="stop")
    assert [message.value for message in runner.poll(consumer)] == FIRST
    with pytest.raises(errors.MalformedBatch):
        runner.poll(consumer)
    with pytest.raises(errors.MalformedBatch) as told:
        runner.poll(consumer)
    assert told.value.message.startswith("orders-0: at offset 3: batch: ")
    assert told.value.message.endswith("; seek to offset 4 to go on behind it")
    assert isinstance(told.value, errors.CorruptBatch)
    consumer.seek(consumer.position("orders", 0), offset=4)
    assert read(runner, consumer) == LAST
    assert runner.skipped == []


@pytest.mark.pure  # it replaces a function of a compiled module
def test_a_consumer_short_of_memory_stops_and_skips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = poisoned(bad=0)
    consumer = runner.consumer("orders")

    def refuse(*_: object) -> bytes:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(parse, "decompress", refuse)
        with pytest.raises(errors.LimitExceeded, match="orders-0: at offset 0: this process has no memory"):
            runner.poll(consumer)
    consumer.seek(consumer.position("orders", 0), offset=0)
    assert read(runner, consumer) == FIRST + LAST


def test_the_log_hears_of_a_flood_once_in_a_while_and_how_many_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = SkipLog()
    one = SkippedBatch(topic="orders", partition=0, first_offset=3, end_offset=5, reason="batch: bad")
    other = SkippedBatch(topic="orders", partition=1, first_offset=3, end_offset=5, reason="batch: bad")
    for ms in range(100):
        log.note(one, 1_000.0 + ms)
    log.note(other, 1_100.0)
    log.note(one, 1_000.0 + LOG_EVERY_MS)
    write_lines()
    assert log.messages == 2 * 102
    assert len(caplog.messages) == 3
    assert caplog.messages[2].endswith("99 more of this partition were skipped since the last such line.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"malformed": "ignore"}, "malformed: 'ignore' is not one of skip, stop"),
        ({"malformed": "stop", "on_malformed": print}, "on_malformed: reports skipped batches"),
    ],
)
def test_settings_out_of_their_bounds_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message):
        consumer_settings(topics=["orders"], **{**CONSUMER, **given})


def test_a_stream_on_which_a_broker_broke_the_protocol_is_opened_again_each_time() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    producer, consumer = runner.producer(delivery_timeout_ms=10_000), runner.consumer("orders")
    for number in range(3):
        delivery = runner.send(producer, "orders", b"%d" % number)
        runner.run(100)
        assert delivery.receipt().offset == number
        assert [message.value for message in runner.poll(consumer)] == [b"%d" % number]
        for token in list(runner.streams):
            runner.core.frame_received(token, b"this is no frame", runner.now)
        runner.run(2_000)
        assert runner.streams
