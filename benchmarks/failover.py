"""How long writes stand still when a broker that leads is killed or stopped."""

import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured, percentile
from data_plane.dev import processes

FAULTS = 40
CONTROLLER_EVERY = 3
"""Each third fault hits the controller: 14 of 40."""
SETTLE_S = 60.0
FAULT_S = 3.5
"""How long a broker stays away at least: well over the time a suspicion takes."""
_STEADY = 20
"""Acknowledgements that show that writes go on."""
_POLL_S = 0.05
_RESULT_S = 60.0


class Writer(threading.Thread):
    """Sends one message after the other to `topic` and notes when each is acknowledged."""

    def __init__(self, cluster: BenchCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.topic = topic
        self.acknowledged: list[tuple[float, str]] = []
        """(monotonic time, topic) of each acknowledgement."""
        self.failure: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            client = penstock.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
            with client, client.producer(linger_ms=0) as producer:
                while not self.ended.is_set():
                    topic = self.topic
                    producer.send(topic, b"x" * 100).result(timeout=_RESULT_S)
                    self.acknowledged.append((time.monotonic(), topic))
        except Exception as error:
            self.failure = error

    def wait_steady(self, topic: str, since: float) -> None:
        """Until messages to `topic` are acknowledged one after the other."""

        def steady() -> bool:
            if self.failure is not None:
                raise self.failure
            return all(at > since and on == topic for at, on in self.acknowledged[-_STEADY:]) and (
                len(self.acknowledged) >= _STEADY
            )

        _wait(steady, f"no steady acknowledgements of {topic}")

    def longest_gap_s(self, since: float) -> float:
        """Longest time without an acknowledgement from `since` to now."""
        times = [since, *(at for at, _ in list(self.acknowledged) if at >= since), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))


def leader_kill(folder: Path) -> list[Measured]:
    """40 faults, SIGKILL and SIGSTOP in turn, each of the broker that leads the partition written to.

    The time of one fault runs until the broker is back and every replica in sync, so that what a return costs
    counts as well.
    """
    gaps: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
    of_controllers: list[float] = []
    with BenchCluster(folder) as cluster:
        writer = Writer(cluster, "")
        for number in range(FAULTS):
            leaders, controller = _whole(cluster)
            brokers = [broker.id for broker in cluster.spec.brokers]
            others = [broker for broker in brokers if broker != controller]
            target = others[number % 2] if number % CONTROLLER_EVERY else controller
            topic = next((topic for topic, leader in leaders.items() if leader == target), "")
            if not topic:
                topic = f"led-{number}"
                rest = [broker for broker in brokers if broker != target]
                cluster.topic(topic, 1, assignments=[[target, *rest]])
            writer.topic = topic
            if not writer.ident:
                writer.start()
            kind = "SIGKILL" if number % 2 == 0 else "SIGSTOP"
            gap = _fault(cluster, writer, target, kind)
            gaps[kind].append(gap)
            if target == controller:
                of_controllers.append(gap)
        writer.ended.set()
        writer.join(_RESULT_S)
    every = gaps["SIGKILL"] + gaps["SIGSTOP"]
    return [
        Measured(
            name="leader_kill_p99_s",
            value=percentile(every, 0.99),
            unit="s",
            beside={
                "max_s": max(every),
                "p50_s": percentile(every, 0.5),
                "kill_p50_s": percentile(gaps["SIGKILL"], 0.5),
                "kill_max_s": max(gaps["SIGKILL"]),
                "stop_p50_s": percentile(gaps["SIGSTOP"], 0.5),
                "stop_max_s": max(gaps["SIGSTOP"]),
                "controller_max_s": max(of_controllers),
                "faults": len(every),
                "of_controllers": len(of_controllers),
            },
        )
    ]


def _whole(cluster: BenchCluster) -> tuple[dict[str, int], int]:
    """(leader by topic, controller) once all brokers are there and all replicas in sync."""
    found: tuple[dict[str, int], int] = ({}, 0)

    def whole() -> bool:
        nonlocal found
        described = cluster.admin.describe_cluster(partitions=True)
        own = (p for p in described.partitions if p.tenant == cluster.spec.tenant)
        found = ({p.topic: p.leader for p in own}, described.controller)
        return (
            described.controller > 0
            and all(broker.state == "active" for broker in described.brokers)
            and all(p.leader > 0 and len(p.in_sync) == len(p.replicas) for p in described.partitions)
        )

    _wait(whole, "the cluster did not become whole again")
    return found


def _fault(cluster: BenchCluster, writer: Writer, broker: int, kind: str) -> float:
    """Longest time without an acknowledgement, in seconds."""
    writer.wait_steady(writer.topic, 0.0)
    process = processes.find(cluster.directory.config_file(broker))
    if process is None:
        raise RuntimeError(f"broker {broker} does not run")
    began = time.monotonic()
    os.kill(process.pid, signal.Signals[kind])
    time.sleep(FAULT_S)
    writer.wait_steady(writer.topic, began)
    if kind == "SIGSTOP":
        os.kill(process.pid, signal.SIGCONT)
    else:
        cluster.dev.start_broker(broker, lambda done, of, note: None)
    _whole(cluster)
    writer.wait_steady(writer.topic, time.monotonic())
    return writer.longest_gap_s(began)


def _wait(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{otherwise} within {SETTLE_S:g} s")
        time.sleep(_POLL_S)
