"""Runs the runner as the service does, and feeds it new readings as soon as it has folded those before."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from benchmarks.soak import java
from benchmarks.soak.java import Histogram
from benchmarks.soak.samples import Folders, RunnerProcesses, sample
from benchmarks.soak.trend import WARM_UP
from benchmarks.usage_load import DAY_MS, FILE_MS, START_MS, Load
from benchmarks.usage_memory import usage_brokers, write
from daemon.data_set_store import FolderStore
from local import guardian
from local.service_processes import CONFIG_VARIABLE, RUNNER
from spark_usage.heartbeat import NAME as HEARTBEAT

EACH_S = 5.0
"""Between two samples."""
_SAY_S = 60.0
"""Between two lines about the progress."""
_POLL_S = 0.1
_ROUND_S_MAX = 600.0
_END_S = 120.0
_BEGINS_MS = START_MS + 27 * DAY_MS + 18 * 3_600_000
"""Readings begin on 31 October 2024 at 18:00, so that usage crosses the end of a day and a month in the 73rd round."""


class RunnerFailed(Exception):
    """The runner ended, or folded nothing for too long."""


@dataclass(slots=True, kw_only=True)
class Soaked:
    """A run."""

    seconds: float = 0.0
    rounds: int = 0
    failed_rounds: int = 0
    readings: int = 0
    samples: list[dict[str, float]] = field(default_factory=list)
    """Each with `seconds` and `rounds` since the first round ended."""
    warm: Histogram | None = None
    """Objects of Java in use after the warm-up."""
    warm_rounds: int = 0
    end: Histogram | None = None
    """Objects of Java in use at the end."""
    left: tuple[str, ...] = ()
    """Processes of the runner that were there after it ended."""


def soak(
    folder: Path, minutes: float, conf: Mapping[str, str] = MappingProxyType({}), java_options: str = ""
) -> Soaked:
    """Soak a runner for so many minutes after its first round. `conf`: settings of Spark beside ours. Raises
    `RunnerFailed`.
    """
    folder = folder.absolute()
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    folders = Folders(
        datasets=folder / "datasets",
        temporary=temporary,
        java_log=folder / "collections.log",
        output=folder / "runner.log",
    )
    options = f"-Xlog:gc:file={folders.java_log} -Djava.io.tmpdir={temporary} {java_options}".strip()
    settings = {**conf, "spark.driver.extraJavaOptions": options}
    with usage_brokers(folder, settings) as (file, client), client.producer() as producer:
        folders.datasets.mkdir(exist_ok=True)
        load = Load(start_ms=_BEGINS_MS)
        with _runner(file, folders) as runner:

            def feed(rounds: int) -> Mapping[str, int]:
                ends = write(producer, load, rounds * FILE_MS)
                FolderStore(folders.datasets).wake()
                return ends

            soaked = _rounds(runner, folder, folders, load, feed, minutes * 60)
            processes = psutil.Process(runner.pid).children(recursive=True)
        _, alive = psutil.wait_procs(processes, timeout=_END_S)
        soaked.left = tuple(process.name() for process in alive)
        return soaked


def _rounds(
    runner: "subprocess.Popen[bytes]",
    folder: Path,
    folders: Folders,
    load: Load,
    feed: Callable[[int], Mapping[str, int]],
    seconds: float,
) -> Soaked:
    """One round after the other, sampled on the way."""
    soaked = Soaked()
    processes: RunnerProcesses | None = None
    began = time.monotonic()
    due_s = said_s = 0.0
    round_s = 0.0
    ends = feed(1)
    fed_s = time.monotonic()
    while True:
        if runner.poll() is not None:
            raise RunnerFailed(
                f"the runner ended with {runner.returncode}; its output is in {folders.output}"
            )
        beat = _heartbeat(folder)
        soaked.failed_rounds = beat.get("failed_rounds", 0)
        if _has_folded(beat, ends):
            round_s = time.monotonic() - fed_s
            soaked.rounds += 1
            if processes is None:
                processes = RunnerProcesses(runner.pid)
                began = time.monotonic()
            if time.monotonic() - began >= seconds:
                break
            ends = feed(soaked.rounds + 1)
            fed_s = time.monotonic()
        elif time.monotonic() - fed_s > _ROUND_S_MAX:
            raise RunnerFailed(f"no round for {_ROUND_S_MAX:.0f} s: {beat.get('error') or beat.get('state')}")
        passed = time.monotonic() - began
        if processes is not None and passed >= due_s:
            due_s = passed + EACH_S
            values = sample(processes, folders)
            soaked.samples.append(values | {"seconds": passed, "rounds": soaked.rounds, "round_s": round_s})
            if passed >= said_s:
                said_s += _SAY_S
                _say(soaked.samples[-1])
            if soaked.warm is None and passed >= WARM_UP * seconds:
                soaked.warm = java.histogram(java.ask(processes.java_pid, "GC.class_histogram"))
                soaked.warm_rounds = soaked.rounds
        time.sleep(_POLL_S)
    soaked.seconds = time.monotonic() - began
    soaked.readings = load.readings
    soaked.end = java.histogram(java.ask(processes.java_pid, "GC.class_histogram"))
    return soaked


@contextmanager
def _runner(file: Path, folders: Folders) -> Iterator["subprocess.Popen[bytes]"]:
    """The runner as a process within the block, ended by SIGTERM at its end."""
    environment = {**os.environ, CONFIG_VARIABLE: str(file), "TMPDIR": str(folders.temporary)}
    with folders.output.open("wb") as output:
        process = subprocess.Popen(
            RUNNER.command_line(file),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment | guardian.mark(),
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_S)


def _has_folded(beat: Mapping[str, Any], ends: Mapping[str, int]) -> bool:
    """Tells a round that has read everything before these offsets."""
    offsets = beat.get("round", {}).get("offsets", {})
    return all(offsets.get(partition, 0) >= end for partition, end in ends.items())


def _heartbeat(folder: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads((folder / HEARTBEAT).read_bytes())
    except FileNotFoundError:
        return {}
    return values


def _say(values: Mapping[str, float]) -> None:
    print(
        f"  {values['seconds'] / 60:.0f} min: {values['rounds']:.0f} rounds, the last in {values['round_s']:.1f} s; "
        f"Python {values['python_rss']:.0f} MiB; Java {values['java_rss']:.0f} MiB, its heap in use "
        f"{values.get('java_heap_in_use', 0):.0f} of {values.get('java_heap_capacity', 0):.0f} MiB, "
        f"{values['java_threads']:.0f} threads",
        file=sys.stderr,
        flush=True,
    )
