"""How long writes stand still when a broker that leads is killed or stopped."""

import os
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured, percentile
from data_plane.dev import processes

FAULTS = 40
CONTROLLER_EVERY = 3
"""Each third fault hits the controller."""
SETTLE_S = 60.0
PAUSE_S = 4.0
"""How long a stopped broker stays stopped: well over the time a suspicion takes."""


class _Writer(threading.Thread):
    """Sends one message after the other to one partition and notes when each is acknowledged."""

    def __init__(self, cluster: BenchCluster, topic: str) -> None:
        super().__init__(daemon=True)
        self._cluster, self._topic = cluster, topic
        self.acknowledged_at = [time.monotonic()]
        self.failure: Exception | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            client = penstock.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
            with client, client.producer(linger_ms=0) as producer:
                while not self.ended.is_set():
                    producer.send(self._topic, b"x" * 100).result(timeout=60)
                    self.acknowledged_at.append(time.monotonic())
        except Exception as error:
            self.failure = error

    def longest_gap_s(self, since: float) -> float:
        """Longest time without an acknowledgement from `since` to now."""
        times = [since, *(at for at in list(self.acknowledged_at) if at >= since), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))


def leader_kill(folder: Path) -> list[Measured]:
    """40 faults, SIGKILL and SIGSTOP in turn, each of a broker that leads the partition written to."""
    gaps: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
    of_controllers = 0
    with BenchCluster(folder) as cluster:
        cluster.topic("failover", 1)
        writer = _Writer(cluster, "failover")
        writer.start()
        for number in range(FAULTS):
            wanted_controller = number % CONTROLLER_EVERY == 0
            leader, controller = _whole(cluster)
            if wanted_controller and leader != controller:
                leader, controller = _fault_until_controller_leads(cluster)
            of_controllers += leader == controller
            kind = "SIGKILL" if number % 2 == 0 else "SIGSTOP"
            gaps[kind].append(_fault(cluster, writer, leader, kind))
            if writer.failure is not None:
                raise writer.failure
        writer.ended.set()
        writer.join(30)
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
                "stop_p50_s": percentile(gaps["SIGSTOP"], 0.5),
                "faults": len(every),
                "of_controllers": of_controllers,
            },
        )
    ]


def _whole(cluster: BenchCluster) -> tuple[int, int]:
    """(leader, controller) once all replicas are in sync again."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        described = cluster.admin.describe_cluster(partitions=True)
        (partition,) = described.partitions
        if len(partition.in_sync) == 3 and partition.leader > 0 and described.controller > 0:
            return partition.leader, described.controller
        time.sleep(0.1)
    raise TimeoutError("the partition did not become whole again")


def _fault_until_controller_leads(cluster: BenchCluster) -> tuple[int, int]:
    """Restart leaders that are not controller until the controller leads, or for as many times as there are brokers."""
    leader, controller = _whole(cluster)
    for _ in cluster.spec.brokers:
        if leader == controller:
            break
        cluster.dev.stop_broker(leader)
        cluster.dev.start_broker(leader, lambda done, of, note: None)
        leader, controller = _whole(cluster)
    return leader, controller


def _fault(cluster: BenchCluster, writer: _Writer, broker: int, kind: str) -> float:
    config = cluster.directory.config_file(broker)
    process = processes.find(config)
    if process is None:
        raise RuntimeError(f"broker {broker} does not run")
    began = time.monotonic()
    os.kill(process.pid, signal.Signals[kind])
    time.sleep(PAUSE_S)
    gap = writer.longest_gap_s(began)
    if kind == "SIGSTOP":
        os.kill(process.pid, signal.SIGCONT)
    else:
        cluster.dev.start_broker(broker, lambda done, of, note: None)
    return gap
