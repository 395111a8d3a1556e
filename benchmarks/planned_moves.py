"""How long writes stand still when a leader is moved on purpose, under load."""

import threading
import time
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured, percentile
from benchmarks.writer import Writer

MOVES = 60
TOPIC = "moved"
LOAD_TOPIC = "load"
LOAD_PARTITIONS = 12
LOAD_EVERY_S = 0.01
LOAD_MESSAGES = 20
"""Each time: 2,000 messages of 1 KB a second beside the one writer that is watched."""
QUIET_S = 0.25


class _Load(threading.Thread):
    """Writes to every partition of the load topic until it is ended."""

    def __init__(self, cluster: BenchCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.ended = threading.Event()
        self.sent = 0

    def run(self) -> None:
        client = penstock.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
        with client, client.producer() as producer:
            while not self.ended.wait(LOAD_EVERY_S):
                for _ in range(LOAD_MESSAGES):
                    producer.send(LOAD_TOPIC, b"x" * 1_000, partition=self.sent % LOAD_PARTITIONS)
                    self.sent += 1

    def end(self) -> None:
        self.ended.set()
        self.join(30)


def planned_moves(folder: Path) -> list[Measured]:
    """60 moves of the partition that is written to, from broker to broker; the longest time without an
    acknowledgement around each.
    """
    gaps: list[float] = []
    with BenchCluster(folder) as cluster:
        cluster.topic(LOAD_TOPIC, LOAD_PARTITIONS)
        brokers = [broker.id for broker in cluster.spec.brokers]
        topic_id = cluster.topic(TOPIC, 1, assignments=[brokers])
        load, writer = _Load(cluster), Writer(cluster.bootstrap, cluster.api_key)
        load.start()
        writer.write_to(TOPIC)
        for number in range(MOVES):
            writer.wait_steady(0.0)
            began = time.monotonic()
            cluster.admin.move_leader(topic_id, 0, brokers[(number + 1) % len(brokers)])
            time.sleep(QUIET_S)
            writer.wait_steady(began)
            gaps.append(writer.longest_gap_s(began) * 1000)
        duplicates = cluster.counted("penstock_duplicates")
        writer.end()
        load.end()
    return [
        Measured(
            name="planned_move_ms",
            value=percentile(gaps, 0.99),
            unit="ms",
            beside={
                "max_ms": max(gaps),
                "p50_ms": percentile(gaps, 0.5),
                "moves": len(gaps),
                "sent_again": duplicates,
                "messages_beside": load.sent,
            },
        )
    ]
