"""Starting and stopping a whole service: brokers, control plane, worker and pipeline. Every operation may be
repeated.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from local import etcd_process, processes, service_processes, supervision
from local.account import Account, provision_account
from local.cluster import DRAIN_S, DevCluster, Report, UpResult
from local.free_ports import require_free
from local.layout import ETCD_NAME, DataDirectory, broker_name
from local.processes import RunningProcess
from local.service_layout import Backends, ServiceDirectory, ServiceSpec
from local.service_processes import PROCESSES, RUNNER, ServiceProcess, ServiceState, ServiceStatus
from local.status import health_at
from local.supervision import Health
from penstock.contract.errors import BrokerUnavailable, TimedOut

COMMAND_S = 120.0
"""Migrations and bootstrap, on a machine that is busy with starting everything else."""
START_S = 120.0
"""Spark alone takes 10 to 20 s."""
_POLL_S = 0.1
_OUTPUT_LINES = 20


class ProcessFailed(BrokerUnavailable):
    """A process or command of the service ended while it was starting."""

    remedy: ClassVar[str] = "Read the end of its output above; its whole output is in the file named."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUp:
    """What `up` found and did."""

    cluster: UpResult
    spec: ServiceSpec
    account: Account
    started: tuple[str, ...]
    """Names of the processes that did not run before."""


class DevService:
    """The service of one data directory. Its brokers are `cluster`."""

    def __init__(self, directory: DataDirectory) -> None:
        self.directory = directory
        self.cluster = DevCluster(directory)
        self.service = ServiceDirectory(directory)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._written_before: dict[str, int] = {}

    def up(
        self,
        brokers: int | None,
        report: Report,
        *,
        backends: Backends | None = None,
        price_book: Path | None = None,
        metadata: str | None = None,
        pipeline_interval_s: int | None = None,
    ) -> ServiceUp:
        """Make the service exist, run and be ready, with an account and a key in the profile. `metadata` as in
        `DataDirectory.load_or_create`; `pipeline_interval_s` holds for a runner that does not run yet, and stays.

        Raises `ProcessFailed`, `TimedOut`, `HasNoService`, and what starting brokers raises.
        """
        spec = self.service.load_or_create(backends or Backends(), price_book, pipeline_interval_s)
        steps = len(PROCESSES) + 3
        cluster = self.cluster.up(brokers, _part(report, 1, steps), provisioned=False, metadata=metadata)
        with self.directory.changing():
            self.service.write_config(spec, cluster.spec)
            started = [process for process in PROCESSES if self._find(process) is None]
            if started:
                report(1, steps, "preparing the database, the system's tenant and topics")
                self._run("bootstrap", "--migrate")
            self.directory.want(*(process.name for process in PROCESSES))
            for process in started:
                self._start(process)
            # The pipeline starts slowest and the account does not need it.
            first = [process for process in PROCESSES if process is not RUNNER]
            self._wait_ready(spec, first, lambda done, note: report(2 + done, steps, note))
            report(2 + len(first), steps, "signing up")
            account = provision_account(self.directory, self.service, cluster.spec, spec)
            self._wait_ready(spec, PROCESSES, lambda done, note: report(3 + done, steps, note))
        report(steps, steps, "ready")
        names = tuple(process.name for process in started)
        return ServiceUp(cluster=cluster, spec=spec, account=account, started=names)

    def down(self, timeout_s: float = DRAIN_S) -> tuple[str, ...]:
        """Stop everything, the brokers last; returns what had to be killed."""
        late: tuple[str, ...] = ()
        self.directory.unwant(*self.directory.wanted())
        supervision.stop(self.directory)
        if self.service.exists:
            with self.directory.changing():
                late = service_processes.stop(self.service, PROCESSES, timeout_s)
        brokers = self.cluster.down(timeout_s)
        self.reap()
        return (*late, *(f"broker {number}" for number in brokers))

    def look(self) -> tuple[ServiceStatus, ...]:
        """The processes as they are now; none where there are only brokers."""
        if not self.service.exists:
            return ()
        spec = self.service.load()
        return tuple(service_processes.look(self.service, spec, process) for process in PROCESSES)

    def reap(self) -> None:
        """Collect the exit states of processes that this object started and that have ended."""
        self.cluster.reap()
        self._children = {name: child for name, child in self._children.items() if child.poll() is None}

    def running(self) -> set[str]:
        """Names of the brokers and processes that are there."""
        directory, spec = self.directory, self.directory.load()
        found = {
            broker_name(broker.id)
            for broker in spec.brokers
            if processes.find(directory.config_file(broker.id)) is not None
        }
        if etcd_process.find(directory) is not None:
            found.add(ETCD_NAME)
        if self.service.exists:
            found |= {process.name for process in PROCESSES if self._find(process) is not None}
        return found

    def restart(self, name: str) -> None:
        """Start what has that name unless it runs, or a command has just stopped it; returns at once. Raises `Busy`."""
        for process in PROCESSES:
            if process.name == name:
                with self.directory.changing():
                    if name in self.directory.wanted() and self._find(process) is None:
                        self._start(process)
                return
        self.cluster.restart(name)

    def health(self, name: str) -> Health | None:
        """What it answers; None where it cannot be asked, or is paused."""
        process, port = self._process_and_port(name)
        return None if process is None or process.paused or not port else health_at(port)

    def end(self, name: str) -> None:
        """Kill it with what it started. A supervisor starts it again."""
        process, _ = self._process_and_port(name)
        if process is not None:
            service_processes.end_session(process.pid)

    def _process_and_port(self, name: str) -> tuple[RunningProcess | None, int]:
        """Port 0: it is not asked over HTTP."""
        if self.service.exists:
            for process in PROCESSES:
                if process.name == name:
                    return self._find(process), self.service.load().port_of(name)
        for broker in self.directory.load().brokers:
            if broker_name(broker.id) == name:
                return processes.find(self.directory.config_file(broker.id)), broker.http_port
        return None, 0

    def outputs(self) -> list[Path]:
        """The files that brokers and processes print into."""
        directory = self.directory
        files = [directory.output_file(broker.id) for broker in directory.load().brokers]
        files += [directory.etcd_output_file, directory.supervisor_output_file]
        return files + [self.service.output_file(process.name) for process in PROCESSES]

    def _find(self, process: ServiceProcess) -> RunningProcess | None:
        return service_processes.find(self.service, process)

    def _start(self, process: ServiceProcess) -> None:
        output = self.service.output_file(process.name)
        self._written_before[process.name] = output.stat().st_size if output.exists() else 0
        service_processes.end_orphans(self.service, process)
        if port := self.service.load().port_of(process.name):
            require_free(process.name, port)
        self._children[process.name] = service_processes.start(self.service, process)

    def _run(self, command: str, *options: str) -> None:
        """Run one of the control plane's commands to its end."""
        name = "control_plane"
        output = self.service.output_file(name)
        self._written_before[name] = output.stat().st_size if output.exists() else 0
        with processes.open_output(output) as out:
            try:
                ended = subprocess.run(
                    [sys.executable, "-m", "control_plane", command, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=self.service.path,
                    env=service_processes.environment_for(self.service, name),
                    umask=processes.PRIVATE,
                    timeout=COMMAND_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise TimedOut(f"control plane: {command} has not ended after {COMMAND_S:g} s") from None
        if ended.returncode != 0:
            raise ProcessFailed(
                f"control plane: {command} ended with status {ended.returncode}\n{self._output_of(name)}"
            )

    def _wait_ready(
        self, spec: ServiceSpec, processes: Sequence[ServiceProcess], report: Callable[[int, str], None]
    ) -> None:
        deadline = time.monotonic() + START_S
        while True:
            if self._start_what_was_ending(processes):
                deadline = time.monotonic() + START_S
            waiting = [process for process in processes if not self._is_ready(spec, process)]
            report(
                len(processes) - len(waiting),
                f"waiting for {', '.join(process.name for process in waiting)}" if waiting else "ready",
            )
            if not waiting:
                return
            if time.monotonic() > deadline:
                name = waiting[0].name
                raise TimedOut(f"{name}: not ready after {START_S:g} s\n{self._output_of(name)}")
            time.sleep(_POLL_S)

    def _is_ready(self, spec: ServiceSpec, process: ServiceProcess) -> bool:
        child = self._children.get(process.name)
        if child is not None and child.poll() is not None:
            raise ProcessFailed(
                f"{process.name}: ended with status {child.returncode} while starting\n"
                f"{self._output_of(process.name)}"
            )
        state = service_processes.look(self.service, spec, process).state
        if state is ServiceState.PAUSED:
            raise ProcessFailed(f"{process.name}: its process is paused; continue it or kill it")
        return state is ServiceState.READY

    def _start_what_was_ending(self, processes: Sequence[ServiceProcess]) -> bool:
        """Start what ran when this command began, and has ended since: it had been asked to end before."""
        ended = [
            process
            for process in processes
            if process.name not in self._children and self._find(process) is None
        ]
        for process in ended:
            self._start(process)
        return bool(ended)

    def _output_of(self, name: str) -> str:
        """The last lines that a process wrote since this object started it, and where all of them are."""
        file = self.service.output_file(name)
        try:
            content = file.read_bytes()[self._written_before.get(name, 0) :]
        except FileNotFoundError:
            content = b""
        text = content.decode(errors="backslashreplace")
        lines = [f"  | {line}" for line in text.splitlines()[-_OUTPUT_LINES:]]
        return "\n".join([*lines, f"  {file}"])


def _part(report: Report, share: int, steps: int) -> Report:
    """A report of a part that makes up `share` of `steps`."""
    return lambda done, of, note: report(min(share, share * done // max(of, 1)), steps, note)
