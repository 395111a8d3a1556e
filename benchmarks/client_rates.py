"""What one client process does through the SDK: `send`, `poll` and `poll_batches`."""

import time
from collections.abc import Callable
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured
from benchmarks.messages import message_values

PARTITIONS = 3
_FLUSH_S = 120.0
_SILENCE_S = 30.0


def sdk_rates(folder: Path) -> list[Measured]:
    """Two million messages of 100 B, zstd, synced everywhere, then read back twice."""
    count = 2_000_000
    values = message_values(100)
    with BenchCluster(folder) as cluster:
        cluster.topic("rates", PARTITIONS)
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:
            sent = _send_all(cluster, client, values, count, "zstd", "client_100b_zstd_fsync_msgs_per_s")
            with client.consumer(["rates"]) as consumer:
                polled = _rate(cluster, count, "consume_100b_msgs_per_s", lambda: len(_polled(consumer)))
            with client.consumer(["rates"]) as consumer:
                columns = _rate(
                    cluster,
                    count,
                    "consume_batches_100b_msgs_per_s",
                    lambda: sum(map(len, consumer.poll_batches(timeout=_SILENCE_S))),
                )
    return [sent, polled, columns]


def kilobyte_rates(folder: Path) -> list[Measured]:
    """Three hundred thousand messages of 1 KB that are not compressed, synced everywhere, then read back."""
    count = 300_000
    values = message_values(1_000)
    with BenchCluster(folder) as cluster:
        cluster.topic("rates", PARTITIONS)
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:
            sent = _send_all(cluster, client, values, count, "none", "produce_1kb_none_msgs_per_s")
            with client.consumer(["rates"]) as consumer:
                polled = _rate(cluster, count, "consume_1kb_msgs_per_s", lambda: len(_polled(consumer)))
    return [sent, polled]


def _send_all(
    cluster: BenchCluster,
    client: penstock.Client,
    values: list[bytes],
    count: int,
    compression: str,
    name: str,
) -> Measured:
    """Messages per second, from the first `send` until all are acknowledged."""
    with client.producer(compression=compression, linger_ms=5, batch_bytes=1_000_000) as producer:
        for partition in range(PARTITIONS):
            producer.send("rates", values[0], partition=partition).result(timeout=_SILENCE_S)

        def send() -> int:
            for _ in range(count // len(values)):
                for value in values:
                    producer.send("rates", value)
            producer.flush(timeout=_FLUSH_S)
            return count

        measured = _rate(cluster, count, name, send)
        if producer.failed_count:
            raise RuntimeError(f"{producer.failed_count} messages were not taken")
    return measured


def _polled(consumer: penstock.Consumer) -> list[penstock.Message]:
    return consumer.poll(max_messages=50_000, timeout=_SILENCE_S)


def _rate(cluster: BenchCluster, count: int, name: str, act: Callable[[], int]) -> Measured:
    """Messages per second until all are done, and processor time; `act` does some and says how many."""
    began, done = time.perf_counter(), 0
    mine, theirs = time.process_time(), cluster.cpu_s()
    while done < count:
        some = act()
        if not some:
            raise TimeoutError(f"nothing came for {_SILENCE_S:g} s after {done} of {count} messages")
        done += some
    seconds = time.perf_counter() - began
    return Measured(
        name=name,
        value=done / seconds,
        unit="messages/s",
        beside={
            "client_cpu_us": 1e6 * (time.process_time() - mine) / done,
            "brokers_cpu_us": 1e6 * (cluster.cpu_s() - theirs) / done,
        },
    )
