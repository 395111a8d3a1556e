"""How soon a message is acknowledged and delivered: 1,000 messages of 1 KB a second, open loop, synced everywhere."""

import asyncio
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import penstock.asyncio
from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Measured, median, percentile
from benchmarks.metrics import Durations
from penstock.contract.invariant import invariant

ROUNDS = 3
MESSAGES_PER_S = 1_000
SECONDS = 12
WARM_UP_S = 1
MESSAGE_BYTES = 1_000
MANY_PARTITIONS = 500
FEW_MESSAGES_PER_S = 200
"""What leaves these machines half idle: what is then slower over many partitions is the log, not the processor."""
_END_S = 30.0
_NUMBER_BYTES = 8


@dataclass(slots=True)
class _Times:
    """Milliseconds, one entry a message; those of the first `WARM_UP_S` are left out."""

    acknowledged: list[float] = field(default_factory=list)
    """From `send` to its receipt."""
    delivered: list[float] = field(default_factory=list)
    """From `send` until the consumer has it."""
    late: list[float] = field(default_factory=list)
    """How far behind the clock the sender was: what the client's own loop did not do in time."""
    brokers_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    """Processor time for 1,000 messages from the first one measured on: says more than the latencies do while others
    use the machine, though what is batched less costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """The same loads on one cluster, one after the other."""

    one: _Times
    many: _Times
    few_one: _Times
    few_many: _Times
    commits: Durations
    """Of the load on one partition: from handing what was written to the disk until the loop goes on."""
    syncs: Durations
    """Of these, the disk's own."""

    @property
    def times_one_partition(self) -> float:
        return percentile(self.many.acknowledged, 0.99) / percentile(self.one.acknowledged, 0.99)


def steady_load(folder: Path) -> list[Measured]:
    """The same load on one partition and over 500, through the SDK, from `send` to receipt and to the consumer: the
    median of three rounds in which they take turns."""
    rounds = [_round(folder / str(number)) for number in range(ROUNDS)]

    def middle(of: Callable[[_Round], float]) -> float:
        return median([of(one) for one in rounds])

    def cpu(of: Callable[[_Round], _Times]) -> dict[str, float]:
        return {
            "brokers_cpu_s_per_1000": middle(lambda one: of(one).brokers_cpu_s),
            "client_cpu_s_per_1000": middle(lambda one: of(one).client_cpu_s),
        }

    return [
        Measured(
            name="ack_p50_ms", value=middle(lambda one: percentile(one.one.acknowledged, 0.5)), unit="ms"
        ),
        Measured(
            name="ack_p99_ms",
            value=middle(lambda one: percentile(one.one.acknowledged, 0.99)),
            unit="ms",
            beside={
                "p999_ms": middle(lambda one: percentile(one.one.acknowledged, 0.999)),
                "sender_late_p99_ms": middle(lambda one: percentile(one.one.late, 0.99)),
                **cpu(lambda one: one.one),
            },
        ),
        Measured(
            name="e2e_p99_ms",
            value=middle(lambda one: percentile(one.one.delivered, 0.99)),
            unit="ms",
            beside={"p50_ms": middle(lambda one: percentile(one.one.delivered, 0.5))},
        ),
        Measured(
            name="ack_p99_500_partitions_ms",
            value=middle(lambda one: percentile(one.many.acknowledged, 0.99)),
            unit="ms",
            beside={
                "times_one_partition": middle(lambda one: one.times_one_partition),
                "p50_ms": middle(lambda one: percentile(one.many.acknowledged, 0.5)),
                "sender_late_p99_ms": middle(lambda one: percentile(one.many.late, 0.99)),
                **cpu(lambda one: one.many),
                "at_200_per_s_ms": middle(lambda one: percentile(one.few_many.acknowledged, 0.99)),
                "at_200_per_s_one_partition_ms": middle(
                    lambda one: percentile(one.few_one.acknowledged, 0.99)
                ),
            },
        ),
        Measured(
            name="brokers_cpu_s_per_1000",
            value=middle(lambda one: one.many.brokers_cpu_s),
            unit="s of three brokers, 500 partitions",
            beside={"one_partition_s": middle(lambda one: one.one.brokers_cpu_s)},
        ),
        Measured(
            name="commit_ms",
            value=middle(lambda one: one.commits.mean_ms),
            unit="ms, mean",
            beside={
                "p99_ms": middle(lambda one: one.commits.percentile_ms(0.99)),
                "fsync_p50_ms": middle(lambda one: one.syncs.percentile_ms(0.5)),
                "fsync_p99_ms": middle(lambda one: one.syncs.percentile_ms(0.99)),
            },
        ),
    ]


def _round(folder: Path) -> _Round:
    folder.mkdir()
    with BenchCluster(folder) as cluster:
        commits_before = cluster.durations("penstock_sync")
        syncs_before = cluster.durations("penstock_fsync")
        one = run(_load(cluster, "one", 1))
        return _Round(
            one=one,
            commits=cluster.durations("penstock_sync").since(commits_before),
            syncs=cluster.durations("penstock_fsync").since(syncs_before),
            many=run(_load(cluster, "many", MANY_PARTITIONS)),
            few_one=run(_load(cluster, "few-one", 1, FEW_MESSAGES_PER_S)),
            few_many=run(_load(cluster, "few-many", MANY_PARTITIONS, FEW_MESSAGES_PER_S)),
        )


async def _load(cluster: BenchCluster, topic: str, partitions: int, per_s: int = MESSAGES_PER_S) -> _Times:
    cluster.topic(topic, partitions)
    total, warm_up = per_s * SECONDS, per_s * WARM_UP_S
    sent_at = [0.0] * total
    times = _Times()
    padding = os.urandom(MESSAGE_BYTES - _NUMBER_BYTES)
    client = penstock.asyncio.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key)

    def acknowledged(number: int, delivery: penstock.asyncio.Delivery) -> None:
        times.acknowledged.append((time.perf_counter() - sent_at[number]) * 1e3)

    async def receive(consumer: penstock.asyncio.Consumer) -> None:
        while len(times.delivered) < total:
            for message in await consumer.poll(max_messages=1_000, timeout=_END_S):
                value = message.value or b""
                if len(value) == MESSAGE_BYTES:
                    number = int.from_bytes(value[:_NUMBER_BYTES])
                    times.delivered.append((time.perf_counter() - sent_at[number]) * 1e3)

    async with client, client.producer(linger_ms=0, compression="none") as producer:
        for partition in range(partitions):
            # Shorter than what is measured: every partition has a leader and is written to.
            await (await producer.send(topic, padding, partition=partition))
        async with client.consumer([topic]) as consumer:
            receiver = asyncio.create_task(receive(consumer))
            used = (0.0, 0.0)
            # What earlier benchmarks have left is nothing that this load should look through again and again.
            gc.collect()
            gc.freeze()
            began = time.perf_counter() + 1.0
            for number in range(total):
                due = began + number / per_s
                ahead = due - time.perf_counter()
                if ahead > 0:
                    await asyncio.sleep(ahead)
                if number == warm_up:
                    used = cluster.cpu_s(), time.process_time()
                value = number.to_bytes(_NUMBER_BYTES) + padding
                sent_at[number] = time.perf_counter()
                times.late.append((sent_at[number] - due) * 1e3)
                delivery = await producer.send(topic, value, partition=number % partitions)
                delivery.add_done_callback(partial(acknowledged, number))
            await producer.flush(_END_S)
            await asyncio.wait_for(receiver, _END_S)
            invariant(len(times.acknowledged) == total, f"{topic}: every message was acknowledged")
            thousands = (total - warm_up) / 1_000
            brokers_cpu_s = (cluster.cpu_s() - used[0]) / thousands
            client_cpu_s = (time.process_time() - used[1]) / thousands
    return _Times(
        times.acknowledged[warm_up:],
        times.delivered[warm_up:],
        times.late[warm_up:],
        brokers_cpu_s,
        client_cpu_s,
    )
