"""How much the brokers take, beside the floor: pre-encoded batches replayed on raw produce streams."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Measured, median, percentile
from benchmarks.floor import Floor
from benchmarks.wire import Placed, ProduceWire, replay, until_writable
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId
from penstock.records.batch import Compression
from penstock.records.build import BatchBuilder

ROUNDS = 3
FLOOR_BATCH_BYTES = 100_000
FLOOR_BATCHES = 2_000
WINDOW = 64
"""Unanswered frames on a stream: within its credit, and enough to keep group commit full."""
LATENCY_ROUNDS = 2_000
LATENCY_BYTES = 10_000
PAUSE_S = 0.0005
RECORDS_PER_BATCH = 10_000
SMALL_PARTITIONS = 1_000
SMALL_BATCHES = 60_000
SMALL_PER_FRAME = 64
_TRIES = 3


def batch_of(records: int, value_bytes: int, size: int = 0) -> bytes:
    """One batch of random values; with `size` the last value is made to fill it to about that many bytes."""
    builder = BatchBuilder(compression=Compression.NONE, bytes_max=64 << 20)
    for _ in range(records):
        builder.append(int(time.time() * 1000), None, os.urandom(size or value_bytes), ())
    return builder.build()


def floor_ratios(folder: Path) -> list[Measured]:
    """The same 100,000-byte batches through floor and product in turn, and one 10 KB batch in flight."""
    batch = batch_of(1, 0, FLOOR_BATCH_BYTES - 80)
    throughput: list[tuple[float, float]] = []
    latency: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        with Floor(folder) as floor:
            floor_latency = floor.latency_p99_ms()
            floor_rate = floor.mb_per_s([batch] * FLOOR_BATCHES)
        round_folder = folder / f"round-{number}"
        round_folder.mkdir()
        with BenchCluster(round_folder) as cluster:
            topic = cluster.topic("floor", 1)
            latency.append((run(latency_p99_ms(cluster, topic)), floor_latency))
            throughput.append((run(_mb_per_s(cluster, topic, batch)), floor_rate))
    return [
        Measured(
            name="broker_fsync_floor_ratio",
            value=median([mine / floors for mine, floors in throughput]),
            unit="of the floor's MB/s",
            beside={
                "mb_per_s": median([mine for mine, _ in throughput]),
                "floor_mb_per_s": median([floors for _, floors in throughput]),
            },
        ),
        Measured(
            name="ack_p99_floor_ratio",
            value=median([mine / floors for mine, floors in latency]),
            unit="times the floor's p99",
            beside={
                "p99_ms": median([mine for mine, _ in latency]),
                "floor_p99_ms": median([floors for _, floors in latency]),
            },
        ),
    ]


async def latency_p99_ms(cluster: BenchCluster, topic: TopicId) -> float:
    """Of one batch of 10 KB in flight, in ms."""
    batch = batch_of(1, 0, LATENCY_BYTES - 80)
    address = leader_address(cluster, topic, 0)
    await until_writable(address, cluster.api_key, [(topic, 0, batch)])
    took = []
    async with ProduceWire(address, cluster.api_key) as wire:
        for _ in range(LATENCY_ROUNDS):
            began = time.perf_counter()
            (future,) = await wire.send([(topic, 0, batch)])
            took.append(await future - began)
            await asyncio.sleep(PAUSE_S)
    return percentile(took, 0.99) * 1e3


async def _mb_per_s(cluster: BenchCluster, topic: TopicId, batch: bytes) -> float:
    address = leader_address(cluster, topic, 0)
    async with ProduceWire(address, cluster.api_key) as wire:
        frames = [[(topic, 0, batch)]] * FLOOR_BATCHES
        seconds = await replay([wire], [frames], WINDOW)
    return FLOOR_BATCHES * len(batch) / seconds / 1e6


def leader_address(cluster: BenchCluster, topic: TopicId, partition: int) -> str:
    """Client address of the partition's leader."""
    for described in cluster.admin.describe_cluster(partitions=True).partitions:
        if described.topic_id == topic and described.partition == partition:
            return cluster.client_address(described.leader)
    raise LookupError(f"partition {partition} is not described")


def full_batches(folder: Path) -> list[Measured]:
    """Batches of 10,000 messages of 100 B and of 1,000 of 1 KB, three partitions led by three brokers."""
    with BenchCluster(folder) as cluster:
        small = [batch_of(RECORDS_PER_BATCH, 100)]
        large = [batch_of(1_000, 1_000)]
        fsync = batches_per_s(cluster, "fsync-100b", small, 300, durability="fsync")
        replicated = batches_per_s(cluster, "replicated-100b", small, 300, durability="replicated")
        kilobyte = batches_per_s(cluster, "fsync-1kb", large, 300, durability="fsync")
    return [
        Measured(name="broker_100b_fsync_msgs_per_s", value=fsync * RECORDS_PER_BATCH, unit="messages/s"),
        Measured(
            name="broker_100b_replicated_msgs_per_s", value=replicated * RECORDS_PER_BATCH, unit="messages/s"
        ),
        Measured(name="broker_1kb_fsync_mb_per_s", value=kilobyte * len(large[0]) / 1e6, unit="MB/s"),
    ]


def batches_per_s(
    cluster: BenchCluster,
    name: str,
    batches: Sequence[bytes],
    count: int,
    *,
    durability: str,
    partitions: int = 3,
) -> float:
    """Batches per second, acknowledged by the in-sync set."""
    topic = cluster.topic(name, partitions, durability=durability)

    async def measure() -> float:
        wires: list[ProduceWire] = []
        frames: list[list[list[Placed]]] = []
        for partition in range(partitions):
            address = leader_address(cluster, topic, partition)
            await until_writable(address, cluster.api_key, [(topic, partition, batches[0])])
            wires.append(await ProduceWire(address, cluster.api_key).__aenter__())
            frames.append(
                [[(topic, partition, batches[i % len(batches)])] for i in range(count // partitions)]
            )
        seconds = await replay(wires, frames, 16)
        for wire in wires:
            await wire.__aexit__()
        return count / seconds

    return run(measure())


def small_batches(folder: Path) -> list[Measured]:
    """One message of 100 B a batch over 1,000 partitions led by one broker, one connection, 64 batches a frame."""
    with BenchCluster(folder) as cluster:
        for number in range(_TRIES):
            try:
                rate = run(small_batches_per_s(cluster, f"small-{number}"))
                break
            except PenstockError as moved:
                # On a machine that others keep busy a broker may lose its leaderships to a suspicion.
                print(f"small_batches_per_s: tried again after: {moved}", file=sys.stderr)
        else:
            raise RuntimeError(f"leaders moved in each of {_TRIES} tries")
    return [Measured(name="small_batches_per_s", value=rate, unit="batches/s")]


async def small_batches_per_s(cluster: BenchCluster, name: str, count: int = SMALL_BATCHES) -> float:
    """Batches of one message acknowledged in a second. Raises `PenstockError` when leaders move."""
    ids = [broker.id for broker in cluster.spec.brokers]
    topic = cluster.topic(name, SMALL_PARTITIONS, assignments=[ids] * SMALL_PARTITIONS)
    batch = batch_of(1, 100)
    address = cluster.client_address(ids[0])
    everywhere: list[Placed] = [(topic, partition, batch) for partition in range(SMALL_PARTITIONS)]
    await until_writable(address, cluster.api_key, everywhere)
    placed: list[Placed] = [(topic, i % SMALL_PARTITIONS, batch) for i in range(count)]
    frames = [placed[at : at + SMALL_PER_FRAME] for at in range(0, count, SMALL_PER_FRAME)]
    async with ProduceWire(address, cluster.api_key) as wire:
        return count / await replay([wire], [frames], 32)
