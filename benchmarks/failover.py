"""How long writes stand still when a broker that leads is killed, stopped, or out of reach of all others."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.cluster import BenchCluster
from benchmarks.figures import Measured, percentile
from benchmarks.writer import FAULT_S, Writer, target_of, wait_whole
from local import processes

FAULTS = 40
CUTS = 21
_CUTS_S = 900.0


def leader_kill(folder: Path) -> list[Measured]:
    """40 faults, SIGKILL and SIGSTOP in turn, and 21 cuts, each of the broker that leads the partition written to.

    The time of one fault runs until the broker is back and every replica in sync, so that what a return costs
    counts as well. Cuts need the rights of root: without them `cuts` is 0 and standard error says why.
    """
    gaps, of_controllers = _kills_and_stops(folder / "killed")
    cuts = _cuts(folder / "cut")
    every = [*gaps["SIGKILL"], *gaps["SIGSTOP"], *cuts]
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
                **({"cut_p50_s": percentile(cuts, 0.5), "cut_max_s": max(cuts)} if cuts else {}),
                "controller_max_s": max(of_controllers),
                "faults": len(every),
                "cuts": len(cuts),
                "of_controllers": len(of_controllers),
            },
        )
    ]


def _kills_and_stops(folder: Path) -> tuple[dict[str, list[float]], list[float]]:
    """Longest times without an acknowledgement in seconds, by signal; and those of the controller's faults."""
    gaps: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
    of_controllers: list[float] = []
    folder.mkdir()
    with BenchCluster(folder) as cluster:
        writer = Writer(cluster.bootstrap, cluster.api_key)
        for number in range(FAULTS):
            leaders, controller = wait_whole(cluster.admin, cluster.spec.tenant)
            brokers = [broker.id for broker in cluster.spec.brokers]
            target = target_of(number, brokers, controller)
            topic = next((topic for topic, leader in leaders.items() if leader == target), "")
            if not topic:
                topic = f"led-{number}"
                rest = [broker for broker in brokers if broker != target]
                cluster.topic(topic, 1, assignments=[[target, *rest]])
            writer.write_to(topic)
            kind = "SIGKILL" if number % 2 == 0 else "SIGSTOP"
            gap = _fault(cluster, writer, target, kind)
            gaps[kind].append(gap)
            if target == controller:
                of_controllers.append(gap)
        writer.end()
    return gaps, of_controllers


def _fault(cluster: BenchCluster, writer: Writer, broker: int, kind: str) -> float:
    """Longest time without an acknowledgement, in seconds."""
    writer.wait_steady(0.0)
    process = processes.find(cluster.directory.config_file(broker))
    if process is None:
        raise RuntimeError(f"broker {broker} does not run")
    began = time.monotonic()
    os.kill(process.pid, signal.Signals[kind])
    time.sleep(FAULT_S)
    writer.wait_steady(began)
    if kind == "SIGSTOP":
        os.kill(process.pid, signal.SIGCONT)
    else:
        cluster.dev.start_broker(broker, lambda done, of, note: None)
    wait_whole(cluster.admin, cluster.spec.tenant)
    writer.wait_steady(time.monotonic())
    return writer.longest_gap_s(began)


def _cuts(folder: Path) -> list[float]:
    """Those of `benchmarks.unreachable_leader`, which measures in network namespaces of its own."""
    if os.geteuid() != 0:
        print("cuts: not measured, network namespaces need the rights of root", file=sys.stderr)
        return []
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.unreachable_leader",
            "--cuts",
            str(CUTS),
            "--folder",
            str(folder.absolute()),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_CUTS_S,
        check=True,
    )
    return [float(gap) for gap in json.loads(done.stdout.splitlines()[-1])]
