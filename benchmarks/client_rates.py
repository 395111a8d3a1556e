"""What one client process does through the SDK: `send`, `poll` and `poll_batches`."""

import time
from collections.abc import Callable
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured
from benchmarks.messages import message_values

MESSAGES = 2_000_000
MESSAGE_BYTES = 100
PARTITIONS = 3
_FLUSH_S = 120.0
_SILENCE_S = 30.0


def sdk_rates(folder: Path) -> list[Measured]:
    """Two million messages of 100 B, zstd, synced everywhere, then read back twice."""
    values = message_values(MESSAGE_BYTES)
    with BenchCluster(folder) as cluster:
        cluster.topic("rates", PARTITIONS)
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:
            sent = _send_all(client, values)
            with client.consumer(["rates"]) as consumer:
                polled = _rate(lambda: len(consumer.poll(max_messages=50_000, timeout=_SILENCE_S)))
            with client.consumer(["rates"]) as consumer:
                columns = _rate(lambda: sum(map(len, consumer.poll_batches(timeout=_SILENCE_S))))
    return [
        Measured(name="client_100b_zstd_fsync_msgs_per_s", value=sent, unit="messages/s"),
        Measured(name="consume_100b_msgs_per_s", value=polled, unit="messages/s"),
        Measured(name="consume_batches_100b_msgs_per_s", value=columns, unit="messages/s"),
    ]


def _send_all(client: penstock.Client, values: list[bytes]) -> float:
    """Messages per second, from the first `send` until all are acknowledged."""
    with client.producer(compression="zstd", linger_ms=5, batch_bytes=1_000_000) as producer:
        for partition in range(PARTITIONS):
            producer.send("rates", values[0], partition=partition).result(timeout=_SILENCE_S)
        began = time.perf_counter()
        for _ in range(MESSAGES // len(values)):
            for value in values:
                producer.send("rates", value)
        producer.flush(timeout=_FLUSH_S)
        seconds = time.perf_counter() - began
        if producer.failed_count:
            raise RuntimeError(f"{producer.failed_count} messages were not taken")
    return MESSAGES / seconds


def _rate(read: Callable[[], int]) -> float:
    """Messages per second until all were read; `read` waits for some and says how many."""
    began, count = time.perf_counter(), 0
    while count < MESSAGES:
        some = read()
        if not some:
            raise TimeoutError(f"nothing came for {_SILENCE_S:g} s after {count} of {MESSAGES} messages")
        count += some
    return count / (time.perf_counter() - began)
