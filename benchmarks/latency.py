"""How soon a message is acknowledged and delivered: 1,000 messages of 1 KB a second, open loop, synced everywhere."""

import asyncio
import os
import time
from pathlib import Path

import penstock.asyncio
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured, percentile

MESSAGES_PER_S = 1_000
SECONDS = 20
WARM_UP = 1_000
MESSAGE_BYTES = 1_000
MANY_PARTITIONS = 500


def steady_load(folder: Path) -> list[Measured]:
    """The same load on one partition and over 500, through the SDK, from `send` to receipt and to the consumer."""
    with BenchCluster(folder) as cluster:
        one_ack, one_end = asyncio.run(_load(cluster, "one", 1))
        many_ack, _ = asyncio.run(_load(cluster, "many", MANY_PARTITIONS))
        sync_ms = cluster.mean_ms("penstock_sync")
    one_p99 = percentile(one_ack, 0.99)
    return [
        Measured(name="ack_p50_ms", value=percentile(one_ack, 0.5), unit="ms"),
        Measured(name="ack_p99_ms", value=one_p99, unit="ms"),
        Measured(
            name="e2e_p99_ms",
            value=percentile(one_end, 0.99),
            unit="ms",
            beside={"p50_ms": percentile(one_end, 0.5)},
        ),
        Measured(
            name="ack_p99_500_partitions_ms",
            value=percentile(many_ack, 0.99),
            unit="ms",
            beside={"times_one_partition": percentile(many_ack, 0.99) / one_p99},
        ),
        Measured(name="fsync_return_ms", value=sync_ms, unit="ms, mean of all brokers' syncs"),
    ]


async def _load(cluster: BenchCluster, topic: str, partitions: int) -> tuple[list[float], list[float]]:
    """(ms from send to receipt, ms from send to the consumer) of each message after the warm-up."""
    cluster.topic(topic, partitions)
    total = MESSAGES_PER_S * SECONDS
    sent_at = [0.0] * total
    acknowledged: list[float] = []
    delivered: list[float] = []
    padding = os.urandom(MESSAGE_BYTES - 8)
    client = penstock.asyncio.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key)
    async with client, client.producer(linger_ms=0, compression="none") as producer:
        for partition in range(partitions):
            await producer.send(topic, padding, partition=partition)
        consumer = client.consumer([topic], auto_offset_reset="latest")
        await consumer.poll(timeout=1.0)

        async def receive() -> None:
            while len(delivered) < total:
                for message in await consumer.poll(max_messages=1_000, timeout=5.0):
                    number = int.from_bytes(message.value[:8])
                    delivered.append((time.perf_counter() - sent_at[number]) * 1e3)

        async def note(number: int, delivery: penstock.asyncio.Delivery) -> None:
            await delivery
            acknowledged.append((time.perf_counter() - sent_at[number]) * 1e3)

        receiver = asyncio.create_task(receive())
        notes = []
        began = time.perf_counter()
        for number in range(total):
            ahead = began + number / MESSAGES_PER_S - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            sent_at[number] = time.perf_counter()
            value = number.to_bytes(8) + padding
            delivery = producer.send(topic, value, partition=number % partitions)
            notes.append(asyncio.create_task(note(number, delivery)))
        await asyncio.gather(*notes)
        await asyncio.wait_for(receiver, 30)
        await consumer.close()
    return acknowledged[WARM_UP:], delivered[WARM_UP:]
