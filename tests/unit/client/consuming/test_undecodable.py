"""A consumer that meets messages which its deserializer does not take."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import SkippedBatch
from penstock.client.arguments import consumer_settings
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.consuming.fetch_collector import FetchCollector
from penstock.client.consuming.malformed import LOG_EVERY_MS, SkipLog
from penstock.client.serialization import message_deserializer
from penstock.client.telling import write_lines
from penstock.contract.errors import ConfigurationError, NotFound, SerializationFailed
from penstock.serializers import JSON
from tests.unit.client.groups.members import Member, Service
from tests.unit.client.runner import CONSUMER, Runner

VALUES = (b"1", b"{", b"[", b"2")
"""Messages of a partition, two of which are no JSON."""


def stored(*partitions: tuple[bytes, ...]) -> Runner:
    """A topic `orders` with these messages, one batch a partition."""
    runner = Runner()
    runner.cluster.create("orders", len(partitions))
    producer = runner.producer(batch_messages=50, linger_ms=20)
    for number, values in enumerate(partitions):
        for value in values:
            runner.send(producer, "orders", value, partition=number)
    runner.run(100)
    return runner


def collector_of(runner: Runner, consumer: ConsumerCore) -> FetchCollector:
    """Everything waits to be handed out."""
    for _ in range(3):
        consumer.prepare()
        runner.run(50)
    return FetchCollector(
        consumer.next_fetched,
        lambda fetched: consumer.finished(fetched, runner.now),
        consumer.skipping.unreadable,
        consumer.skipping.malformed,
        consumer.skipping.undecodable,
        message_deserializer(JSON, None),
    )


def skip(runner: Runner, consumer: ConsumerCore, hands: FetchCollector) -> tuple[bytes, SerializationFailed]:
    """Skip what the last gathering ended before: its value as it is stored, and the error."""
    fetched = hands.found_undecodable
    assert fetched is not None
    met = fetched.undecodable
    assert met is not None
    consumer.skipping.skip_undecodable(fetched, runner.now)
    return bytes(met.message.value or b""), met.error


def gathered(hands: FetchCollector, most: int = 100) -> list[Any]:
    return [message.value for message in hands.messages(most)]


@pytest.mark.parametrize("most", [1, 100])
def test_messages_around_undecodable_ones_are_read_and_each_of_these_is_met_once(most: int) -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert gathered(hands, most) == [1]
    for offset, value in ((1, b"{"), (2, b"[")):
        assert gathered(hands, most) == []
        assert consumer.position("orders", 0).offset == offset
        assert consumer.skipping.messages == offset - 1
        as_stored, error = skip(runner, consumer, hands)
        assert as_stored == value
        assert (error.topic, error.partition, error.offset) == ("orders", 0, offset)
        assert error.message.startswith(
            f"orders-0: at offset {offset}: the value does not pass its serializer"
        )
    assert gathered(hands, most) == [2]
    assert gathered(hands, most) == []
    assert hands.found_undecodable is None
    assert consumer.position("orders", 0).offset == 4


def test_a_batch_that_ends_with_an_undecodable_message_is_done_when_that_is_skipped() -> None:
    runner = stored((b"1", b"{"))
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert (gathered(hands), gathered(hands)) == ([1], [])
    skip(runner, consumer, hands)
    assert gathered(hands) == []
    assert hands.found_undecodable is None
    position = consumer.position("orders", 0)
    assert (position.offset, position.part) == (2, None)
    assert position.credit_owed > 0


def test_what_is_not_skipped_is_met_again() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert gathered(hands) == [1]
    for _ in range(3):
        assert gathered(hands) == []
        assert hands.found_undecodable is not None
        assert consumer.position("orders", 0).offset == 1
    assert skip(runner, consumer, hands)[0] == b"{"


def test_an_undecodable_message_comes_before_more_of_other_partitions() -> None:
    runner = stored(tuple(b"%d" % number for number in range(30)), (b"{", b"7"))
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    values: list[Any] = []
    for turn in range(3):
        values += gathered(hands, 5)
        if hands.found_undecodable is not None and not values[5 * turn :]:
            break
    assert skip(runner, consumer, hands)[0] == b"{"
    assert len(values) <= 10
    while more := gathered(hands, 5):
        values += more
    assert sorted(values) == sorted([7, *range(30)])


def test_an_application_that_seeks_meanwhile_goes_where_it_said() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert (gathered(hands), gathered(hands)) == ([1], [])
    consumer.seek(consumer.position("orders", 0), offset=3)
    skip(runner, consumer, hands)
    assert (consumer.position("orders", 0).offset, consumer.skipping.messages) == (3, 0)


def test_whole_batches_come_as_they_are_stored() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert gathered(hands) == [1]
    assert [list(batch.values) for batch in hands.batches(10)] == [[b"{", b"[", b"2"]]
    assert consumer.position("orders", 0).offset == 4


def test_a_partition_that_stops_says_where_in_its_error() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders")
    hands = collector_of(runner, consumer)
    assert gathered(hands) == [1]
    for _ in range(2):
        with pytest.raises(SerializationFailed) as stopped:
            consumer.raise_halted()
        error = stopped.value
        assert (error.topic, error.partition, error.offset) == ("orders", 0, 1)
    assert hands.found_undecodable is None


def test_an_error_of_several_partitions_names_the_one_that_it_is_raised_for() -> None:
    runner = stored((b"1",), (b"2",))
    consumer = runner.consumer("orders")
    collector_of(runner, consumer)
    shared = NotFound("orders: was deleted")
    for partition in (0, 1):
        position = consumer.position("orders", partition)
        position.look_up(None)
        position.halt(shared)
        assert position.stopped_by is shared
        assert (shared.topic, shared.partition, shared.offset) == ("orders", partition, None)
    other = NotFound("elsewhere")
    assert (other.topic, other.partition, other.offset) == (None, None, None)


def test_what_is_never_skipped_leaves_each_second_turn_to_others() -> None:
    runner = stored(tuple(b"%d" % number for number in range(20)), (b"{", b"7"))
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    read, met = 0, 0
    for _ in range(12):
        consumer.prepare()
        read += len(gathered(hands, 5))
        met += hands.found_undecodable is not None
    assert read == 20
    assert met >= 5


def test_a_consumer_that_is_closed_meanwhile_has_nothing_to_read() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert gathered(hands) == [1]
    position = consumer.position("orders", 0)
    consumer.close(runner.now)
    assert not position.queued
    assert gathered(hands) == []


def test_what_was_skipped_is_not_read_again_when_the_poll_is_interrupted() -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    assert (gathered(hands), gathered(hands)) == ([1], [])
    skip(runner, consumer, hands)
    consumer.give_back()
    assert consumer.position("orders", 0).offset == 2


def test_a_moment_without_memory_is_no_fault_of_a_message() -> None:
    class Short:
        content_type = "application/json"

        def serialize(self, value: object) -> bytes:
            raise MemoryError

        def deserialize(self, stored: bytes) -> object:
            raise MemoryError

    deserializer = message_deserializer(Short(), None)
    assert deserializer is not None
    runner = stored(VALUES)
    (message, *_) = runner.poll(runner.consumer("orders"))
    with pytest.raises(MemoryError):
        deserializer.deserialize(message)


def test_a_line_of_a_malformed_batch_silences_none_of_an_undecodable_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = SkipLog()
    error = SerializationFailed("orders-0: at offset 4: no")
    error.topic = "orders"
    error.partition = 0
    batch = SkippedBatch(topic="orders", partition=0, first_offset=3, end_offset=4, reason="batch: bad")
    with caplog.at_level(logging.WARNING, "penstock"):
        log.note(batch, 1_000.0)
        for ms in range(4):
            log.note_undecodable(error, 1_001.0 + ms)
        log.note_undecodable(error, 1_001.0 + LOG_EVERY_MS)
        write_lines()
    assert [record.name for record in caplog.records] == [
        "penstock.malformed",
        "penstock.undecodable",
        "penstock.undecodable",
    ]
    assert caplog.messages[2].endswith("3 more of this partition were skipped since the last such line")
    assert log.messages == 6


def test_skipped_messages_have_a_line_in_the_log_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    runner = stored(VALUES)
    consumer = runner.consumer("orders", on_undecodable="skip")
    hands = collector_of(runner, consumer)
    with caplog.at_level(logging.WARNING, "penstock"):
        while gathered(hands) or hands.found_undecodable is not None:
            if hands.found_undecodable is not None:
                skip(runner, consumer, hands)
        write_lines()
    (line,) = caplog.messages
    assert line.startswith("penstock: skipped a message that cannot be decoded: orders-0: at offset 1: ")
    assert consumer.skipping.messages == 2


@pytest.mark.parametrize("wrong", ["ignore", None, 5])
def test_what_says_nothing_of_undecodable_messages_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match=r"on_undecodable: .* is not 'stop', 'skip' or a function"):
        consumer_settings(topics="orders", **CONSUMER, on_undecodable=wrong)  # type: ignore[arg-type]
    for right, policy in (("stop", "stop"), ("skip", "skip"), (print, "skip")):
        _, settings = consumer_settings(topics="orders", **CONSUMER, on_undecodable=right)  # type: ignore[arg-type]
        assert settings.undecodable == policy


@pytest.mark.parametrize("values", [(b"1", b"2"), (b"1", b"{", b"2")], ids=["sound", "undecodable"])
def test_a_member_that_falls_silent_after_a_skip_is_put_out_as_any_other(values: tuple[bytes, ...]) -> None:
    service = Service(1)
    producer = service.runner.producer(batch_messages=50, linger_ms=20)
    for value in values:
        service.runner.send(producer, "orders", value, partition=0)
    service.runner.run(100)
    member = Member(service, on_undecodable="skip", max_poll_interval_ms=10_000)
    hands = collector_of(service.runner, member.consumer)
    read: list[Any] = []
    for _ in range(20):
        member.core.poll_begins(service.runner.now)
        member.consumer.prepare()
        while (event := member.core.next_event()) is not None:
            member.core.finish(event, service.runner.now, kept=True)
        read += gathered(hands)
        if hands.found_undecodable is not None:
            skip(service.runner, member.consumer, hands)
        service.run(50)
        member.core.poll_ends(service.runner.now)
    assert read == [1, 2]
    assert member.owned == [0]
    service.run(60_000)
    assert member.owned == []
