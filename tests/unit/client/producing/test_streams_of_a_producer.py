"""Streams to brokers as a producer opens, keeps and gives them up, and that no message is lost or doubled by it."""

from __future__ import annotations

import pytest

from penstock.client.producing.producer import OPEN_TIMEOUT_MS, STALL_MS, ProducerCore
from penstock.contract import errors, methods
from penstock.contract.frames import FrameKind, pack_frame
from tests.unit.client.runner import Runner

REOPENED_MS = 200
"""A stream that was given up is opened again within this the first time."""


def started(**settings: object) -> tuple[Runner, ProducerCore]:
    """A topic of three partitions, each led by one of the three brokers; the producer has its id."""
    runner = Runner()
    runner.cluster.create("orders", 3)
    producer = runner.producer(None, **settings)
    runner.send(producer, "orders", b"first", partition=2)
    runner.run(100)
    return runner, producer


def streams_to(runner: Runner, broker: int) -> list[int]:
    """Tokens of the produce streams that are open."""
    return [
        token
        for token, stream in runner.streams.items()
        if stream.broker == broker and stream.method == methods.PRODUCE
    ]


def log_of(runner: Runner, partition: int) -> list[bytes | None]:
    return runner.cluster.topics["orders"].partitions[partition].values()


def test_a_broker_that_gives_no_credit_is_given_up_after_its_time_and_asked_again() -> None:
    runner, producer = started()
    runner.cluster.silent[0] = None
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(0)
    (first,) = streams_to(runner, 0)
    runner.run(OPEN_TIMEOUT_MS - 1)
    assert streams_to(runner, 0) == [first]
    runner.run(1 + REOPENED_MS)
    (second,) = streams_to(runner, 0)
    assert second != first and not delivery.done()
    runner.cluster.silent.clear()
    runner.run(2 * OPEN_TIMEOUT_MS)
    assert delivery.receipt().offset == 0 and log_of(runner, 0) == [b"a"]


def test_a_broker_that_owes_answers_and_is_silent_is_given_up_and_gets_the_same_batch_again() -> None:
    runner, producer = started()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(10)
    (first,) = streams_to(runner, 0)
    runner.run(STALL_MS * 2)
    assert streams_to(runner, 0) == [first], "it owes nothing"
    runner.cluster.silent[0] = None
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(STALL_MS - 1)
    assert streams_to(runner, 0) == [first]
    runner.run(1 + REOPENED_MS)
    assert streams_to(runner, 0) != [first] and not delivery.done()
    runner.let_ghosts_in()
    runner.cluster.silent.clear()
    runner.run(2 * OPEN_TIMEOUT_MS)
    assert delivery.receipt().duplicate and log_of(runner, 0) == [b"a", b"b"]


def test_an_answer_begins_the_time_of_silence_again() -> None:
    runner, producer = started()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(10)
    (first,) = streams_to(runner, 0)
    runner.cluster.silent[0] = None
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(STALL_MS / 2)
    empty = pack_frame(FrameKind.PRODUCE_ANSWER, b"")
    runner.core.frame_received(first, empty, runner.now)
    runner.run(STALL_MS - 1)
    assert streams_to(runner, 0) == [first]
    runner.run(1 + REOPENED_MS)
    assert first not in streams_to(runner, 0)


@pytest.mark.parametrize("frame", [pack_frame(FrameKind.CONSUME_PUSH, b""), b"no frame"])
def test_what_is_no_answer_ends_the_stream_and_what_it_owed_is_sent_again(frame: bytes) -> None:
    runner, producer = started()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(10)
    runner.cluster.silent[0] = None
    delivery = runner.send(producer, "orders", b"b", partition=0)
    runner.run(10)
    (first,) = streams_to(runner, 0)
    runner.core.frame_received(first, frame, runner.now)
    runner.cluster.silent.clear()
    runner.run(REOPENED_MS)
    assert streams_to(runner, 0) and first not in streams_to(runner, 0)
    assert delivery.receipt().offset == 1 and log_of(runner, 0) == [b"a", b"b"]


def test_a_stream_to_a_broker_that_is_not_registered_any_more_ends_once_nothing_waits_there() -> None:
    runner, producer = started()
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(10)
    assert len(streams_to(runner, 0)) == 1
    runner.cluster.move("orders", 0, 1)
    del runner.cluster.registered[0]
    runner.cluster.changed()
    runner.run(1_000)
    runner.send(producer, "orders", b"b", partition=0)
    runner.run(1_000)
    assert streams_to(runner, 0) == [] and len(streams_to(runner, 1)) == 1
    assert log_of(runner, 0) == [b"a", b"b"]
    runner.cluster.registered[0] = "b0"
    runner.cluster.move("orders", 0, 0)
    delivery = runner.send(producer, "orders", b"c", partition=0)
    runner.run(1_000)
    assert delivery.receipt().offset == 2 and len(streams_to(runner, 0)) == 1


def test_a_leader_of_which_no_address_is_known_is_looked_for_until_there_is_one() -> None:
    runner, producer = started()
    del runner.cluster.registered[0]
    runner.cluster.changed()
    runner.run(10)
    delivery = runner.send(producer, "orders", b"a", partition=0)
    asked = len(runner.calls)
    runner.run(2_000)
    assert not delivery.done() and streams_to(runner, 0) == []
    assert 1 <= len(runner.calls) - asked <= 60, "again and again, and not all the time"
    runner.cluster.registered[0] = "b0"
    runner.cluster.changed()
    runner.run(2_000)
    assert delivery.receipt().offset == 0


def test_a_producer_that_closes_fails_what_it_has_not_sent_and_ends_its_streams() -> None:
    runner, producer = started(linger_ms=60_000)
    runner.run(1)
    waiting = [runner.send(producer, "orders", b"w", partition=number) for number in range(3)]
    runner.run(10)
    producer.close(runner.now)
    runner.run(10)
    assert all(isinstance(delivery.error, errors.Closed) for delivery in waiting)
    assert [streams_to(runner, broker) for broker in range(3)] == [[], [], []]
    assert producer.closed and producer.pending() == [] and producer.accumulator.buffered_bytes == 0
    assert log_of(runner, 0) == []
