"""What a producer enters into its receipts: each acknowledged batch once, as it was sent."""

from __future__ import annotations

from random import Random

import pytest

from penstock.contract.errors import ConfigurationError, ErrorCode
from penstock.records.batch import read_header
from tests.unit.client.runner import Runner

Entry = tuple[str, int, int, int, int]
"""Topic, partition, first offset, messages, bytes."""


class Noted:
    """A ledger that remembers."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.days: set[int] = set()

    def acknowledged(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        *,
        first_offset: int,
        messages: int,
        size: int,
        accepted_ms: int,
        leader_epoch: int,
    ) -> None:
        self.entries.append((topic, partition, first_offset, messages, size))
        self.days.add(accepted_ms)


def stored(runner: Runner, topic: str = "orders") -> list[Entry]:
    """The same of the log."""
    found = []
    for number, partition in enumerate(runner.cluster.topics[topic].partitions):
        for base, batch in partition.log:
            header = read_header(batch)
            found.append((topic, number, base, header.record_count, header.size))
    return found


def started() -> Runner:
    runner = Runner()
    runner.cluster.create("orders", 3)
    return runner


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_entries_are_the_stored_batches_to_the_byte(compression: str) -> None:
    runner, noted = started(), Noted()
    producer = runner.producer(noted, compression=compression)
    for number in range(60):
        runner.send(producer, "orders", b"value %d " % number * 20, partition=number % 3)
        runner.run(3)
    runner.run(100)
    assert sum(entry[3] for entry in noted.entries) == 60
    assert sorted(noted.entries) == stored(runner)
    assert noted.days == {runner.cluster.now_ms}


def test_a_batch_that_is_answered_as_a_duplicate_is_entered_once() -> None:
    runner, noted = started(), Noted()
    producer = runner.producer(noted)
    runner.cluster.applied_unsaid = 1
    delivery = runner.send(producer, "orders", b"once", partition=0)
    runner.run(500)
    assert delivery.receipt().duplicate
    assert noted.entries == stored(runner)
    assert len(noted.entries) == 1


def test_a_batch_that_got_new_numbers_is_entered_with_the_bytes_that_are_stored() -> None:
    runner, noted = started(), Noted()
    producer = runner.producer(noted, batch_messages=1)
    runner.send(producer, "orders", b"a", partition=0)
    runner.run(5)
    runner.cluster.topics["orders"].partitions[0].producers.clear()
    for value in (b"b", b"c", b"d"):
        runner.send(producer, "orders", value, partition=0)
    runner.run(500)
    assert noted.entries == stored(runner)
    assert len(noted.entries) == 4


def test_nothing_is_entered_without_an_acknowledgement() -> None:
    runner, noted = started(), Noted()
    producer = runner.producer(noted, delivery_timeout_ms=1_000, max_attempts=1)
    runner.cluster.refusals = [(ErrorCode.FORBIDDEN, "the key was restricted")]
    refused = runner.send(producer, "orders", b"refused", partition=0)
    runner.run(10)
    runner.cluster.applied_unsaid = 1
    unknown = runner.send(producer, "orders", b"unknown", partition=1)
    runner.run(500)
    runner.cluster.silent[2] = None
    silent = runner.send(producer, "orders", b"silent", partition=2)
    runner.run(2_000)
    assert None not in (refused.error, unknown.error, silent.error)
    assert noted.entries == []


def test_through_faults_of_all_kinds_every_entry_is_true_and_every_receipt_is_entered() -> None:
    for seed in range(20):
        random, runner, noted = Random(seed), started(), Noted()
        producer = runner.producer(noted, batch_messages=3)
        deliveries = []
        for number in range(80):
            deliveries.append(runner.send(producer, "orders", b"%d" % number, partition=number % 3))
            match random.randrange(8):
                case 0:
                    runner.cluster.applied_unsaid += 1
                case 1:
                    runner.cluster.refusals.append((ErrorCode.NOT_ENOUGH_REPLICAS, "1 in sync, 2 required"))
                case 2:
                    runner.cluster.move("orders", random.randrange(3), random.randrange(3))
                case 3:
                    runner.lose_streams(random.randrange(3))
            runner.run(random.choice((0, 1, 30)))
        runner.run(60_000)
        in_log = stored(runner)
        assert set(noted.entries) <= set(in_log), seed
        assert len(set(noted.entries)) == len(noted.entries), seed
        applied = {
            (delivery.receipt().partition, delivery.receipt().offset)
            for delivery in deliveries
            if delivery.error is None
        }
        entered = {
            (partition, offset)
            for _, partition, first, messages, _ in noted.entries
            for offset in range(first, first + messages)
        }
        assert applied == entered, seed


def test_receipts_without_acknowledgements_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="receipts: with acks=0 no broker acknowledges anything"):
        started().producer(acks=0, receipts="receipts")
