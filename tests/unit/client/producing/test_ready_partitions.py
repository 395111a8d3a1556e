"""Partitions that a produce stream looks at when it makes its next frame: at once, or when their time has come."""

from __future__ import annotations

from penstock.client.producing.partition_queue import PartitionQueue
from penstock.client.producing.produce_stream import ProduceStream
from penstock.client.timing import NEVER

NOW = 1_000.0
BROKER = 7


def queue_of(partition: int, leader: int = BROKER) -> PartitionQueue:
    queue = PartitionQueue("orders", bytes(16), partition, window=5, numbered=True, tolerant=False)
    queue.leader = leader
    return queue


def test_a_partition_is_looked_at_when_its_time_has_come_and_not_before() -> None:
    stream, first, second = ProduceStream(BROKER), queue_of(0), queue_of(1)
    stream.make_ready_at(second, NOW + 80)
    stream.make_ready_at(first, NOW + 50)
    stream.make_ready_at(queue_of(2), NEVER)
    assert stream.next_ready_at == NOW + 50
    stream.make_due_ready(NOW + 49)
    assert list(stream.ready) == []
    stream.make_due_ready(NOW + 50)
    assert list(stream.ready) == [first] and stream.next_ready_at == NOW + 80
    stream.make_due_ready(NOW + 500)
    assert list(stream.ready) == [first, second] and stream.next_ready_at == NEVER


def test_a_partition_waits_one_time_however_often_it_is_named() -> None:
    stream, queue = ProduceStream(BROKER), queue_of(0)
    stream.make_ready(queue)
    stream.make_ready(queue)
    stream.make_ready_at(queue, NOW)
    stream.make_due_ready(NOW)
    assert list(stream.ready) == [queue]


def test_a_partition_that_another_broker_leads_by_then_is_no_work_of_this_stream() -> None:
    stream, queue = ProduceStream(BROKER), queue_of(0)
    stream.make_ready_at(queue, NOW)
    queue.leader = BROKER + 1
    stream.make_due_ready(NOW)
    assert list(stream.ready) == [] and not stream.has_work()
    stream.make_ready(queue)
    assert not stream.has_work()
    queue.leader = BROKER
    assert stream.has_work()
