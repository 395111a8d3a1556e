"""What one client process does through the SDK: `send`, `poll` and `poll_batches`."""

import os
import time
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured

MESSAGES = 2_000_000
MESSAGE_BYTES = 100
WORDS = [os.urandom(12).hex().encode() for _ in range(256)]


def sdk_rates(folder: Path) -> list[Measured]:
    """Two million messages of 100 B, zstd, synced everywhere, then read back twice."""
    values = [
        (b"%08d " % i + WORDS[i % 256] + b" " + WORDS[i * 7 % 256] * 3)[:MESSAGE_BYTES] for i in range(10_000)
    ]
    with BenchCluster(folder) as cluster:
        cluster.topic("rates", 3)
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:
            with client.producer(compression="zstd", linger_ms=5, batch_bytes=1_000_000) as producer:
                producer.send("rates", values[0]).result(timeout=30)
                began = time.perf_counter()
                for _ in range(MESSAGES // len(values)):
                    for value in values:
                        producer.send("rates", value)
                producer.flush(timeout=120)
                sent = MESSAGES / (time.perf_counter() - began)
            began, count = time.perf_counter(), 0
            with client.consumer(["rates"]) as consumer:
                while count < MESSAGES:
                    count += len(consumer.poll(max_messages=50_000, timeout=10))
            polled = count / (time.perf_counter() - began)
            began, count = time.perf_counter(), 0
            with client.consumer(["rates"]) as consumer:
                while count < MESSAGES:
                    count += sum(len(batch) for batch in consumer.poll_batches(timeout=10))
            columns = count / (time.perf_counter() - began)
    return [
        Measured(name="client_100b_zstd_fsync_msgs_per_s", value=sent, unit="messages/s"),
        Measured(name="consume_100b_msgs_per_s", value=polled, unit="messages/s"),
        Measured(name="consume_batches_100b_msgs_per_s", value=columns, unit="messages/s"),
    ]
