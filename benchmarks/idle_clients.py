"""What clients at rest cost brokers, and what an image of many partitions costs a process that follows the metadata."""

import asyncio
import gc
import time
from pathlib import Path

import psutil

from benchmarks.cluster import BenchCluster, cpu_s
from benchmarks.figures import Benchmark, Measured
from benchmarks.metadata_scale import blocks
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue, Put
from penstock.asyncio import Client

CLIENTS = 600
"""Their connections to three brokers stay below an eighth of the descriptors that a process usually has."""
IMAGE_PARTITIONS, IMAGE_PER_TOPIC, IMAGE_BROKERS = 100_000, 10, 10
_AT_ONCE = 20
_SETTLED_S = 5.0
_IDLE_S = 20.0


def idle_clients(folder: Path) -> list[Measured]:
    """Consumers of a topic without messages: memory and processor time of three brokers with them, less without."""
    with BenchCluster(folder) as cluster:
        cluster.topic("quiet", 3)
        time.sleep(_SETTLED_S)
        before = _memory_and_rate(cluster)
        connections, after = asyncio.run(_beside_clients(cluster))
    return [
        Measured(
            name="idle_client_kb",
            value=(after[0] - before[0]) / CLIENTS / 1_000,
            unit="KB",
            beside={
                "connections": connections / CLIENTS,
                "kb_a_connection": (after[0] - before[0]) / connections / 1e3,
            },
        ),
        Measured(
            name="idle_client_cpu_us_per_s",
            value=(after[1] - before[1]) / CLIENTS * 1e6,
            unit="us/s",
            beside={"without": before[1] * 1e6},
        ),
        image_of_partitions(),
    ]


def image_of_partitions() -> Measured:
    """Memory of the metadata of 100,000 partitions, ten a topic, as each broker holds it."""
    items = [
        KeyValue(key=change.key, value=change.value, mod_revision=1)
        for changes in blocks(IMAGE_PARTITIONS, IMAGE_PER_TOPIC, IMAGE_BROKERS)
        for change in changes
        if isinstance(change, Put)
    ]
    stored = sum(len(item.key) + len(item.value) for item in items)
    gc.collect()
    process = psutil.Process()
    before, began = process.memory_full_info().uss, time.process_time()
    image = ClusterImage()
    image.load(items, 1)
    took = time.process_time() - began
    gc.collect()
    grown = process.memory_full_info().uss - before
    assert len(image.topics) == IMAGE_PARTITIONS // IMAGE_PER_TOPIC
    return Measured(
        name="image_bytes_a_partition",
        value=grown / IMAGE_PARTITIONS,
        unit="B",
        beside={"stored_b": stored / IMAGE_PARTITIONS, "load_cpu_us": took / IMAGE_PARTITIONS * 1e6},
    )


def _memory_and_rate(cluster: BenchCluster) -> tuple[float, float]:
    """(bytes of all brokers that are no other process's, processor seconds a second)."""
    began, used = time.monotonic(), cluster.cpu_s()
    time.sleep(_IDLE_S)
    rate = (sum(map(cpu_s, cluster.processes())) - used) / (time.monotonic() - began)
    return float(sum(process.memory_full_info().uss for process in cluster.processes())), rate


async def _beside_clients(cluster: BenchCluster) -> tuple[int, tuple[float, float]]:
    """How many connections the clients have, and memory and rate beside them."""
    clients = [Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) for _ in range(CLIENTS)]
    gate = asyncio.Semaphore(_AT_ONCE)
    consumers = [client.consumer() for client in clients]
    polls = []
    for number, consumer in enumerate(consumers):
        async with gate:
            consumer.assign([("quiet", number % 3)])
            polls.append(asyncio.create_task(consumer.poll(timeout=600)))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0.5)
    await asyncio.sleep(_SETTLED_S)
    ports = {int(broker.client_address.rpartition(":")[2]) for broker in cluster.spec.brokers}
    connections = sum(
        one.status == psutil.CONN_ESTABLISHED and one.laddr.port in ports
        for process in cluster.processes()
        for one in process.net_connections("tcp")
    )
    found = await asyncio.to_thread(_memory_and_rate, cluster)
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    for client in clients:
        await client.close(0)
    return connections, found


BENCHMARK = Benchmark(
    figures=("idle_client_kb", "idle_client_cpu_us_per_s", "image_bytes_a_partition"),
    run=idle_clients,
    seconds=90,
    quick=False,
)
