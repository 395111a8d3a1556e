"""One load on one cluster: closed loops of pre-encoded batches for a while, and what a message took of everything."""

import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from itertools import cycle
from typing import Self

from benchmarks.cluster import BenchCluster
from benchmarks.curves.axes import Shape
from benchmarks.figures import median
from benchmarks.throughput import batch_of
from benchmarks.wire import Placed, ProduceWire, replay, until_writable
from penstock.contract.ids import TopicId

TURNS = 3
TURN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one acknowledged message, all brokers together."""

    messages_per_s: float
    brokers_cpu_us: float
    client_cpu_us: float
    """Of the client that sends batches encoded beforehand: frames and gRPC, not the SDK."""
    disk_bytes: float
    """Written to the disk, by `write_bytes` of /proc/PID/io."""
    between_brokers_bytes: float
    """Batches with their stamps, pushed to followers."""
    moved_bytes: float
    """Through system calls: received from clients, sent to followers and received there, written to files."""

    @classmethod
    def middle(cls, turns: list[Self]) -> Self:
        """Of each number the median."""
        return cls(**{one.name: median([getattr(turn, one.name) for turn in turns]) for one in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Since the brokers started."""

    brokers_cpu_s: float
    client_cpu_s: float
    disk_bytes: int
    written_bytes: int
    replicated_bytes: int

    @classmethod
    def now(cls, cluster: BenchCluster, replicated_bytes: int) -> Self:
        files = [process.io_counters() for process in cluster.processes()]
        return cls(
            brokers_cpu_s=cluster.cpu_s(),
            client_cpu_s=time.process_time(),
            disk_bytes=sum(one.write_bytes for one in files),
            written_bytes=sum(one.write_chars for one in files),
            replicated_bytes=replicated_bytes,
        )


async def costs(cluster: BenchCluster, topic: str, shape: Shape, turn_s: float = TURN_S) -> Cost:
    """The medians of some turns on a topic of its own, all of whose partitions the first broker leads."""
    ids = [broker.id for broker in cluster.spec.brokers][: shape.copies]
    settings = {"replication": shape.copies, "min_insync_replicas": min(2, shape.copies)}
    topic_id = cluster.topic(topic, shape.partitions, assignments=[ids] * shape.partitions, **settings)
    address = cluster.client_address(ids[0])
    one = batch_of(1, 1)
    await until_writable(
        address, cluster.api_key, [(topic_id, partition, one) for partition in range(shape.partitions)]
    )
    batch = batch_of(shape.batch_messages, shape.message_bytes)
    async with AsyncExitStack() as stack:
        wires = [
            await stack.enter_async_context(ProduceWire(address, cluster.api_key))
            for _ in range(shape.producers)
        ]
        turns = [await _turn(cluster, topic_id, shape, wires, batch, turn_s) for _ in range(TURNS)]
    return Cost.middle(turns)


async def _turn(
    cluster: BenchCluster, topic: TopicId, shape: Shape, wires: list[ProduceWire], batch: bytes, turn_s: float
) -> Cost:
    sent = 0

    def frames(first: int, until: float) -> Iterator[list[Placed]]:
        """From one partition to the next, until it is time."""
        nonlocal sent
        partitions = cycle([(first + number) % shape.partitions for number in range(shape.partitions)])
        while time.perf_counter() < until:
            sent += shape.frame_batches
            yield [(topic, next(partitions), batch) for _ in range(shape.frame_batches)]

    before = _Counted.now(cluster, cluster.counted("penstock_replicated_bytes"))
    until = time.perf_counter() + turn_s
    firsts = [number * shape.frame_batches for number in range(len(wires))]
    seconds = await replay(wires, [frames(first, until) for first in firsts], shape.window)
    after = _Counted.now(cluster, 0)
    replicated = cluster.counted("penstock_replicated_bytes") - before.replicated_bytes
    messages = sent * shape.batch_messages
    written = after.written_bytes - before.written_bytes
    return Cost(
        messages_per_s=messages / seconds,
        brokers_cpu_us=1e6 * (after.brokers_cpu_s - before.brokers_cpu_s) / messages,
        client_cpu_us=1e6 * (after.client_cpu_s - before.client_cpu_s) / messages,
        disk_bytes=(after.disk_bytes - before.disk_bytes) / messages,
        between_brokers_bytes=replicated / messages,
        moved_bytes=(sent * len(batch) + 2 * replicated + written) / messages,
    )
