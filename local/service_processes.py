"""The processes of the control plane and the pipeline: how each is started, found again, seen and ended.

Each leads a session of its own and carries its name and its configuration's path in its environment, by which the
process table tells it from every other process, whatever command line it gives itself. What it forks belongs to
its session.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import psutil

from local import cores
from local.processes import PRIVATE, RunningProcess, all_running, find_where, open_output, own_environment
from local.service_layout import ServiceDirectory, ServiceSpec
from local.status import reason_at, says_ready

CONFIG_VARIABLE = "PENSTOCK_CONFIG"
_NAME_VARIABLE = "PENSTOCK_PROCESS"
_JAVA_HOMES = "/usr/lib/jvm"
_POLL_S = 0.05


class ServiceState(Enum):
    """What a process is doing."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"
    FAILING = "failing"
    """At work, but what it did last failed or had to wait; `detail` says why."""
    PAUSED = "paused"
    """Stopped by a signal: there, but not serving."""


_STATES = {"ready": ServiceState.READY, "failing": ServiceState.FAILING, "waiting": ServiceState.FAILING}
"""What the runner's heartbeat says; everything else is on the way there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProcess:
    """A process of the service: its name, and what it runs."""

    name: str
    what: str
    arguments: tuple[str, ...]
    """Behind the interpreter, before the configuration."""

    def command_line(self, config: Path) -> list[str]:
        return [sys.executable, *self.arguments, "--config", str(config)]


_SERVER = ("-m", "penstock.cli", "server")
WEB = ServiceProcess(name="web", what="control plane", arguments=(*_SERVER, "web"))
WORKER = ServiceProcess(name="worker", what="deliveries and schedule", arguments=(*_SERVER, "worker"))
RUNNER = ServiceProcess(name="runner", what="usage pipeline", arguments=(*_SERVER, "runner"))
PROBER = ServiceProcess(
    name="prober", what="probes from outside", arguments=(*_SERVER, "prober", "--name", "local")
)
PROCESSES = (WEB, WORKER, RUNNER, PROBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """One process as seen from outside. `state` is READY once it has said so itself."""

    process: ServiceProcess
    pid: int | None
    cores: str | None
    """Which it runs; None while it does not run."""
    state: ServiceState
    address: str | None
    output: Path
    detail: str | None

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.process.name,
            "what": self.process.what,
            "pid": self.pid,
            "cores": self.cores,
            "state": self.state.value,
            "address": self.address,
            "output": str(self.output),
            "detail": self.detail,
        }


def find(directory: ServiceDirectory, process: ServiceProcess) -> RunningProcess | None:
    """The process of this service, from wherever it was started."""
    return find_where(
        (directory.config_file, process.name),
        lambda found: _leads_its_session(found.pid) and _is_marked(found, directory, process),
    )


def _leads_its_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _is_marked(found: psutil.Process, directory: ServiceDirectory, process: ServiceProcess) -> bool:
    """Whether it was started as this process of this service, or forked by one that was."""
    try:
        environment = found.environ()
    except psutil.Error:
        return False  # it is gone, or not ours to look at
    marks = {CONFIG_VARIABLE: str(directory.config_file), _NAME_VARIABLE: process.name}
    return marks.items() <= environment.items()


def end_orphans(directory: ServiceDirectory, process: ServiceProcess) -> None:
    """End what a killed process left behind: it may hold ports and files that the new one needs."""
    own = os.getsid(0)
    for found in all_running():
        if found.session != own and _is_marked(found.process, directory, process):
            end_session(found.session)


def environment_for(directory: ServiceDirectory, name: str) -> dict[str, str]:
    """The environment of a process or command of the service."""
    environment = {
        **own_environment(),
        CONFIG_VARIABLE: str(directory.config_file),
        _NAME_VARIABLE: name,
        "PYTHONUNBUFFERED": "1",
    }
    if "JAVA_HOME" not in environment and (java := _java_home()) is not None:
        environment["JAVA_HOME"] = java
    return environment


def _java_home() -> str | None:
    """Debian's Java 17, which Spark runs on."""
    homes = sorted(Path(_JAVA_HOMES).glob("java-17-openjdk-*"))
    return next((str(home) for home in homes if os.access(home / "bin/java", os.X_OK)), None)


def start(directory: ServiceDirectory, process: ServiceProcess) -> subprocess.Popen[bytes]:
    """Start a process that does not run, in a session of its own, its output appended to its file; it survives the
    caller's terminal.
    """
    end_orphans(directory, process)
    directory.heartbeat_file(process.name).unlink(missing_ok=True)
    with open_output(directory.output_file(process.name)) as output:
        return subprocess.Popen(
            process.command_line(directory.config_file),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory.path,
            env=environment_for(directory, process.name),
            umask=PRIVATE,
            start_new_session=True,
        )


def look(directory: ServiceDirectory, spec: ServiceSpec, process: ServiceProcess) -> ServiceStatus:
    """The process as it is now."""
    found = find(directory, process)
    detail: str | None = None
    if found is None:
        state = ServiceState.DOWN
    elif found.paused:
        state = ServiceState.PAUSED
    elif process is WEB:
        state = ServiceState.READY if says_ready(spec.web_port) else ServiceState.STARTING
    elif process is WORKER:
        state = ServiceState.READY if says_ready(spec.worker_port) else ServiceState.STARTING
    elif process is PROBER:
        detail = reason_at(spec.prober_port)
        state = ServiceState.FAILING if detail else ServiceState.READY
    else:
        state, detail = _said(directory, process, found.pid)
    return ServiceStatus(
        process=process,
        pid=None if found is None else found.pid,
        cores=None if found is None else cores.cores_of(found.process),
        state=state,
        address=spec.web_address if process is WEB else None,
        output=directory.output_file(process.name),
        detail=detail,
    )


def _said(directory: ServiceDirectory, process: ServiceProcess, pid: int) -> tuple[ServiceState, str | None]:
    """What the process's heartbeat says, if it is its own, and why when it fails."""
    try:
        heartbeat = json.loads(directory.heartbeat_file(process.name).read_text())
        if heartbeat["pid"] != pid:
            return ServiceState.STARTING, None
        state = _STATES.get(heartbeat["state"], ServiceState.STARTING)
        return state, str(heartbeat["error"]) if state is ServiceState.FAILING else None
    except (OSError, ValueError, KeyError, TypeError):
        return ServiceState.STARTING, None


def stop(
    directory: ServiceDirectory, processes: Sequence[ServiceProcess], timeout_s: float
) -> tuple[str, ...]:
    """Ask all to end, and kill the sessions of those that are still there after `timeout_s`; returns their names."""
    running = {
        process.name: found for process in processes if (found := find(directory, process)) is not None
    }
    for found in running.values():
        _signal(found.pid, signal.SIGTERM)
        if found.paused:
            _signal(found.pid, signal.SIGCONT)
    deadline = time.monotonic() + timeout_s
    late: list[str] = []
    for name, found in running.items():
        while found.runs() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if found.runs():
            late.append(name)
        end_session(found.pid)
    return tuple(late)


def end_session(leader: int, timeout_s: float = 10.0) -> None:
    """SIGKILL whatever is left of a session, its leader included, and wait until all of it is gone."""
    deadline = time.monotonic() + timeout_s
    while left := _members(leader):
        for pid in left:
            _signal(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} are still there {timeout_s:g} s after SIGKILL")
        time.sleep(_POLL_S)


def _members(leader: int) -> list[int]:
    """Process ids of a session. No other session gets its number while one of them is there."""
    return [found.pid for found in all_running() if found.session == leader]


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself
