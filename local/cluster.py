"""Starting and stopping the brokers of one dev cluster. Every operation may be repeated."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import etcd_process, processes
from local.broker_config import write_broker_config
from local.free_ports import require_free
from local.layout import ETCD_NAME, BrokerSpec, ClusterSpec, DataDirectory, broker_name
from local.provisioning import admin_of, provision
from local.status import BrokerState, BrokerStatus, look, state_of
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, TimedOut

START_S = 60.0
"""A broker that is not ready after this is not going to be; recovery of a dev log takes seconds."""
DRAIN_S = 30.0
"""A broker's own limit for draining is 20 s; then comes its last flush."""
_EXIT_STATE_S = 2.0
_POLL_S = 0.05
_OUTPUT_LINES = 15

Report = Callable[[int, int, str], None]
"""(steps done, steps in all, what is going on)."""


class BrokerFailed(BrokerUnavailable):
    """A broker ended while it was starting."""

    remedy = "Read the end of its output above; its whole output is in output.log beside its configuration."


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What `up` found and did."""

    spec: ClusterSpec
    started: tuple[int, ...]
    """Ids of the brokers that were not running before."""


class DevCluster:
    """The cluster of one data directory."""

    def __init__(self, directory: DataDirectory, settings: Mapping[str, Any] | None = None) -> None:
        """`settings` of every broker, over those of a dev cluster."""
        self.directory = directory
        self._settings = settings
        self._children: list[subprocess.Popen[bytes]] = []
        self._written_before: dict[int, int] = {}
        """Size of a broker's output file when it was started here."""

    def up(
        self,
        brokers: int | None,
        report: Report,
        *,
        provisioned: bool = True,
        metadata: str | None = None,
    ) -> UpResult:
        """Make the cluster exist, run and be ready for the tenant in the profile. `provisioned` False leaves
        tenants, keys and internal topics to a control plane; `metadata` as in `DataDirectory.load_or_create`.
        Raises `BrokerFailed`, `TimedOut`, `EtcdMissing`.
        """
        with self.directory.changing():
            spec = self.directory.load_or_create(brokers, metadata)
            started = self._start(spec.brokers, spec, report)
            if provisioned:
                with admin_of(self.directory) as admin:
                    provision(self.directory, spec, admin)
        return UpResult(spec=spec, started=started)

    def down(self, timeout_s: float = DRAIN_S) -> tuple[int, ...]:
        """Stop all brokers, and kill those that are still there after `timeout_s`; returns the ids that had
        to be killed.
        """
        spec = self.directory.load()
        self.directory.unwant(ETCD_NAME, *(broker_name(broker.id) for broker in spec.brokers))
        with self.directory.changing():
            found = {
                broker.id: processes.find(self.directory.config_file(broker.id)) for broker in spec.brokers
            }
            running = {number: process for number, process in found.items() if process is not None}
            for process in running.values():
                processes.ask_to_stop(process)
            remaining = processes.wait_gone(list(running.values()), timeout_s)
            for process in remaining:
                processes.kill(process)
            self._stop_etcd(timeout_s)
            self._await_children()
        return tuple(number for number, process in running.items() if process in remaining)

    def kill_broker(self, number: int) -> int | None:
        """SIGKILL one broker; returns the process id it had, None when it did not run. It stays down until it is
        started by a command."""
        process = self.process_of(number)
        self.directory.unwant(broker_name(number))
        if process is not None:
            processes.kill(process)
        return None if process is None else process.pid

    def stop_broker(self, number: int, timeout_s: float = DRAIN_S) -> int | None:
        """Drain and end one broker; returns the process id it had, None when it did not run. Raises `TimedOut`."""
        process = self.process_of(number)
        self.directory.unwant(broker_name(number))
        if process is None:
            return None
        processes.ask_to_stop(process)
        if processes.wait_gone([process], timeout_s):
            raise _StillDraining(f"broker {number}: process {process.pid} still drains after {timeout_s:g} s")
        return process.pid

    def start_broker(self, number: int, report: Report) -> BrokerStatus:
        """Start one broker unless it runs, and wait until it is ready. Raises `BrokerFailed`, `TimedOut`."""
        spec = self.directory.load()
        with self.directory.changing():
            self._start([spec.broker(number)], spec, report)
        return next(broker for broker in look(self.directory).brokers if broker.spec.id == number)

    def add_broker(self, report: Report) -> BrokerStatus:
        """One broker more, with an empty log directory; it holds nothing until something is placed or moved there.
        Raises `BrokerFailed`, `TimedOut`.
        """
        with self.directory.changing():
            spec = self.directory.load_or_create(len(self.directory.load().brokers) + 1)
            added = spec.brokers[-1]
            self._start([added], spec, report)
        return next(broker for broker in look(self.directory).brokers if broker.spec.id == added.id)

    def remove_broker(self, number: int) -> Path:
        """Take a broker that the others have forgotten out of the cluster, so that `up` does not start it again.

        Returns where its files are from now on. Raises `InvalidRequest` while it runs or is known.
        """
        with self.directory.changing():
            if self.process_of(number) is not None:
                raise InvalidRequest(
                    f"broker {number}: it still runs; `penstock dev broker stop {number}` first"
                )
            with admin_of(self.directory) as admin:
                if any(broker.id == number for broker in admin.describe_cluster().brokers):
                    raise InvalidRequest(
                        f"broker {number}: the others know it still; `penstock cluster drain {number}` and "
                        f"`penstock cluster forget {number}` first"
                    )
            self.directory.unwant(broker_name(number))
            return self.directory.remove_broker(number)

    def reap(self) -> None:
        """Collect the exit states of brokers that this object started and that have ended."""
        self._children = [child for child in self._children if child.poll() is None]

    def _await_children(self) -> None:
        """All brokers are gone; the kernel may take a moment more to hand over their exit states."""
        for child in self._children:
            try:
                child.wait(_EXIT_STATE_S)
            except subprocess.TimeoutExpired:
                pass  # another process has started it again meanwhile: not ours to end
        self.reap()

    def process_of(self, number: int) -> processes.RunningProcess | None:
        """The process of one broker, from wherever it was started; None when it does not run. Raises `NotFound`."""
        self.directory.load().broker(number)
        return processes.find(self.directory.config_file(number))

    def _start(self, brokers: Sequence[BrokerSpec], spec: ClusterSpec, report: Report) -> tuple[int, ...]:
        """Start those that do not run and wait until all are ready; returns the ids started."""
        self._start_etcd(spec, report)
        launched: dict[int, subprocess.Popen[bytes]] = {}
        for broker in brokers:
            self.directory.want(broker_name(broker.id))
            if processes.find(self.directory.config_file(broker.id)) is None:
                launched[broker.id] = self._launch(spec, broker)
        self._wait_ready(brokers, launched, report)
        return tuple(launched)

    def restart(self, name: str) -> None:
        """Start the broker or the etcd of that name unless it runs, or a command has just stopped it; returns at once.
        Raises `Busy`.
        """
        spec = self.directory.load()
        with self.directory.changing():
            if name not in self.directory.wanted():
                return
            if name == ETCD_NAME:
                if spec.etcd is not None and etcd_process.find(self.directory) is None:
                    self._children.append(etcd_process.start(self.directory, spec.etcd))
                return
            broker = next((broker for broker in spec.brokers if broker_name(broker.id) == name), None)
            if broker is not None and processes.find(self.directory.config_file(broker.id)) is None:
                self._launch(spec, broker)

    def _launch(self, spec: ClusterSpec, broker: BrokerSpec) -> subprocess.Popen[bytes]:
        write_broker_config(self.directory, spec, broker, self._settings)
        for port in (broker.client_port, broker.internal_port, broker.http_port, broker.peer_port):
            require_free(broker_name(broker.id), port)
        output = self.directory.output_file(broker.id)
        self._written_before[broker.id] = output.stat().st_size if output.exists() else 0
        child = processes.start(self.directory.config_file(broker.id), output)
        self._children.append(child)
        return child

    def _start_etcd(self, spec: ClusterSpec, report: Report) -> None:
        if spec.etcd is None:
            return
        child: subprocess.Popen[bytes] | None = None
        self.directory.want(ETCD_NAME)
        if etcd_process.find(self.directory) is None:
            child = etcd_process.start(self.directory, spec.etcd)
            self._children.append(child)
        deadline = time.monotonic() + START_S
        while (seen := etcd_process.look(self.directory, spec)) is not None and seen.state != "ready":
            report(0, len(spec.brokers), "waiting for etcd")
            if child is None and seen.pid is None:  # it was just ending
                child = etcd_process.start(self.directory, spec.etcd)
                self._children.append(child)
            if child is not None and child.poll() is not None:
                raise BrokerFailed(
                    f"etcd: ended with status {child.returncode} while starting\n{_end_of(seen.output)}"
                )
            if time.monotonic() > deadline:
                raise TimedOut(f"etcd: {seen.state}, not ready after {START_S:g} s\n{_end_of(seen.output)}")
            time.sleep(_POLL_S)

    def _stop_etcd(self, timeout_s: float) -> None:
        """After the brokers, which write to it until their end."""
        process = etcd_process.find(self.directory)
        if process is not None:
            processes.ask_to_stop(process)
            if processes.wait_gone([process], timeout_s):
                processes.kill(process)

    def _wait_ready(
        self, brokers: Sequence[BrokerSpec], launched: dict[int, subprocess.Popen[bytes]], report: Report
    ) -> None:
        deadline = time.monotonic() + START_S
        waiting = list(brokers)
        while True:
            if self._launch_what_was_ending(waiting, launched):
                deadline = time.monotonic() + START_S
            waiting = [broker for broker in waiting if not self._has_started(broker, launched)]
            names = ", ".join(str(broker.id) for broker in waiting)
            note = f"waiting for broker {names}" if waiting else "ready"
            report(len(brokers) - len(waiting), len(brokers), note)
            if not waiting:
                return
            if time.monotonic() > deadline:
                output = self._output_of(waiting[0].id)
                raise TimedOut(f"broker {names}: not ready after {START_S:g} s\n{output}")
            time.sleep(_POLL_S)

    def _launch_what_was_ending(
        self, waiting: Sequence[BrokerSpec], launched: dict[int, subprocess.Popen[bytes]]
    ) -> bool:
        """Start what ran when this command began, and has ended since: it had been asked to end before."""
        ended = [
            broker
            for broker in waiting
            if broker.id not in launched and processes.find(self.directory.config_file(broker.id)) is None
        ]
        for broker in ended:
            launched[broker.id] = self._launch(self.directory.load(), broker)
        return bool(ended)

    def _has_started(self, broker: BrokerSpec, launched: dict[int, subprocess.Popen[bytes]]) -> bool:
        process = launched.get(broker.id)
        if process is not None and process.poll() is not None:
            raise BrokerFailed(
                f"broker {broker.id}: ended with status {process.returncode} while starting\n"
                f"{self._output_of(broker.id)}"
            )
        state, _ = state_of(self.directory, broker)
        if state is BrokerState.PAUSED:
            raise BrokerFailed(f"broker {broker.id}: its process is paused; continue it or kill it")
        return state is BrokerState.READY

    def _output_of(self, number: int) -> str:
        """The last lines that a broker wrote since this object started it."""
        try:
            content = self.directory.output_file(number).read_bytes()[self._written_before.get(number, 0) :]
        except FileNotFoundError:
            return ""
        return _last_lines(content)


def _end_of(output: Path) -> str:
    return _last_lines(output.read_bytes()[-10_000:])


def _last_lines(content: bytes) -> str:
    text = content.decode(errors="backslashreplace")
    return "\n".join(f"  | {line}" for line in text.splitlines()[-_OUTPUT_LINES:])


class _StillDraining(TimedOut):
    remedy = "Wait and repeat, or use `penstock dev broker kill`."
