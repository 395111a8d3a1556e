"""A service whose processes are killed, children too, in either of its forms: what is back after how long.

The processes are those that the machine's process table shows, so one that is new is killed too. One of each group
(a leader and what it started) is killed at once, which of them is drawn: `--randomly-seed` repeats it. `FULL=1` kills
every one, one at a time. Each kill prints after how long all was back, for the table of docs/guides/running-it.md.
"""

import contextlib
import json
import os
import random
import secrets
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from local.layout import DataDirectory
from local.service_layout import Backends, ServiceDirectory
from tests.integration.cli.test_dev_cluster import CommandLine
from tests.waiting import wait_until

_MARK = "PENSTOCKS_KILLED_PROCESSES"
"""Not a name that processes of the service are configured by: what a command starts inherits it."""
_PRODUCED = "produced to"


@dataclass(frozen=True, slots=True, kw_only=True)
class Killable:
    """A process of the service, and what it is called in the table."""

    process: psutil.Process
    group: str
    role: str


class Killed(CommandLine):
    """A service whose processes are found by a mark in their environment."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._token = secrets.token_hex(8)
        self.environment[_MARK] = self._token

    @property
    def service(self) -> ServiceDirectory:
        return ServiceDirectory(DataDirectory(self.data))

    def processes(self) -> list[Killable]:
        """All that run, without those that a moment ago a command of the test was."""
        killables = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self._token and process.status() != psutil.STATUS_ZOMBIE:
                    role = _role_of(process)
                    killables.append(Killable(process=process, group=_group_of(role), role=role))
        return killables

    def there(self) -> dict[str, int]:
        """How many of each role."""
        counted: dict[str, int] = {}
        for killable in self.processes():
            counted[killable.role] = counted.get(killable.role, 0) + 1
        return counted

    def asked(self, port: int, path: str) -> tuple[int, str]:
        """0: no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError as error:
            return 0, str(error)

    def not_ready(self) -> str:
        """The parts that do not say that they are ready, or nothing."""
        spec = self.service.load()
        ports = {name: spec.port_of(name) for name in ("web", "worker", "runner", "prober")}
        ports |= {f"broker-{b.id}": b.http_port for b in DataDirectory(self.data).load().brokers}
        for name, port in ports.items():
            status, text = self.asked(port, "/readyz")
            if status != 200:
                return f"{name}: {text}"
        return ""

    def swept_at(self) -> float:
        """When the schedule ran last."""
        _, text = self.asked(self.service.load().worker_port, "/metrics")
        lines = [line for line in text.splitlines() if line.startswith("penstock_worker_last_sweep_seconds ")]
        return float(lines[0].split()[1]) if lines else 0.0

    def rounds_went_well_at(self) -> float:
        try:
            heartbeat: dict[str, Any] = json.loads(self.service.heartbeat_file("runner").read_text())
        except (FileNotFoundError, ValueError):
            return 0.0
        return float(heartbeat.get("last_success_seconds", 0.0))

    def checks(
        self, whole: dict[str, int], since: float, killed: Sequence[str]
    ) -> dict[str, Callable[[], str]]:
        """All that has to hold again, each with what says why it does not yet. `since` is when these were killed.

        `whole`: how many of each role there have to be.
        """

        def away() -> str:
            there = self.there()
            return ", ".join(role for role, count in whole.items() if there.get(role, 0) < count)

        def not_produced() -> str:
            produced = self.try_to("produce", "orders", "x")
            return "" if produced.code == 0 else produced.err

        checks = {
            "there": away,
            "ready": self.not_ready,
            "scheduled": lambda: "" if self.swept_at() > since else "the schedule has not run since",
        }
        if any(role.startswith("runner") for role in killed):
            # Only then: with Spark a round takes many times as long as all else.
            checks["counted"] = lambda: (
                "" if self.rounds_went_well_at() > since else "no round ended well since"
            )
        checks[_PRODUCED] = not_produced
        return checks

    def until_back(self, killed: Sequence[str], whole: dict[str, int], since: float) -> dict[str, float]:
        """After how many seconds each check held for the first time, and all of them at once."""
        reasons: dict[str, str] = {}
        after_s: dict[str, float] = {}
        checks = self.checks(whole, since, killed)

        def is_back() -> bool:
            reasons.clear()
            for name, reason_of in checks.items():
                if name == _PRODUCED and name in after_s and reasons:
                    continue  # a command takes most of a second of the processor that all else waits for
                if reason := reason_of():
                    reasons[name] = reason
                else:
                    after_s.setdefault(name, round(time.time() - since, 1))
            return not reasons

        wait_until(
            f"the service is whole after {', '.join(killed) or 'its start'}",
            is_back,
            instead=lambda: f"{reasons}\n{self.there()}",
        )
        after_s["whole"] = round(time.time() - since, 1)
        return after_s


def _group_of(role: str) -> str:
    """One of a group is killed at a time: who starts the others again, and brokers, of which two are needed."""
    if "supervisor" in role:
        return "supervisor"
    return "broker" if role.startswith("broker") else role.partition(":")[0]


def _role_of(process: psutil.Process) -> str:
    command, name = process.cmdline(), process.environ().get("PENSTOCK_PROCESS", "")
    text = " ".join(command)
    if "keeper.py" in text:
        return "keeper of the supervisor"
    if "local.supervisor" in command:
        return "supervisor"
    if "broker" in command and "run" in command:
        return f"broker {Path(command[-1]).parent.name}"
    if name and os.getsid(process.pid) == process.pid:
        return name
    if name == "runner":
        return "runner: Java" if process.name() == "java" else "runner: Python of Spark"
    if name == "worker":
        return f"worker: {process.name()}"
    return f"{name or command[0]}: {text[:60]}"


@contextlib.contextmanager
def running(home: Path, backends: Backends) -> Iterator[Killed]:
    """The service with one topic; no process of it is left at the end."""
    service = Killed(home)
    try:
        service.service.load_or_create(backends)
        service("dev", "up", "--detach", "--pipeline-interval", "1")
        service("topic", "create", "orders", "--partitions", "3")
        yield service
    finally:
        service.try_to("dev", "down", "--timeout", "5")
        assert service.there() == {}


# What Spark starts for a task comes and goes by itself.
_COME_AND_GO = ("runner: Python of Spark",)


def kill_every_process(service: Killed, full: bool) -> None:
    """Until all is back each time. `full`: one process at a time."""
    service("produce", "orders", "x")
    began = time.time()
    first: dict[str, int] = {}

    def has_java() -> bool:
        first.clear()
        first.update({role: count for role, count in service.there().items() if role not in _COME_AND_GO})
        return "runner: Java" in first and "keeper of the supervisor" in first

    wait_until("Spark runs", has_java, instead=lambda: service.there())
    service.until_back([], first, began)
    assert first["worker: scheduler"] == 1 and first["worker: pool"] == 2, first

    def kill(victims: Sequence[Killable]) -> None:
        killed = sorted(victim.role for victim in victims)
        service("produce", "orders", "something for the pipeline")
        since = time.time()
        for victim in victims:
            victim.process.send_signal(signal.SIGKILL)
        after_s = service.until_back(killed, first, since)
        print(f"killed {', '.join(killed)}: seconds until {after_s}", flush=True)

    if full:
        left = set(first) | set(_COME_AND_GO)
        while victim := next((each for each in service.processes() if each.role in left), None):
            left.remove(victim.role)
            kill([victim])
        assert left <= set(_COME_AND_GO), f"not there any more: {left}"
    else:
        roles = sorted({*first, *_COME_AND_GO})
        random.shuffle(roles)
        drawn: dict[str, Killable] = {}
        for killable in service.processes():
            before = drawn.get(killable.group)
            if killable.role in roles and (
                before is None or roles.index(killable.role) < roles.index(before.role)
            ):
                drawn[killable.group] = killable
        kill(list(drawn.values()))
