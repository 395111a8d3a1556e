"""Processes of a service are known by what they were started with, and end with all that they forked."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import guardian, processes, service_processes
from local.layout import DataDirectory
from local.service_layout import Backends, ServiceDirectory
from local.service_processes import ServiceProcess, ServiceState, find, look, start, stop
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

_FORKS = "import os, sys, time; os.fork() and (sys.stdout.write('up\\n'), sys.stdout.flush()); time.sleep(60)"
_STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "sys.stdout.write('up\\n'); sys.stdout.flush(); time.sleep(60)"
)


def sleeper(name: str, code: str) -> ServiceProcess:
    return ServiceProcess(name=name, what="a test", arguments=("-c", code))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceDirectory]:
    directory = ServiceDirectory(DataDirectory(tmp_path / "data"))
    directory.load_or_create(Backends())
    yield directory
    stop(directory, [sleeper("forks", ""), sleeper("stubborn", "")], 0.0)


def started(service: ServiceDirectory, process: ServiceProcess) -> subprocess.Popen[bytes]:
    """Start it and wait until it says so."""
    child = start(service, process)
    deadline = time.monotonic() + PATIENCE_S
    while b"up" not in service.output_file(process.name).read_bytes():
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.01)
    return child


def members(session: int) -> list[int]:
    return service_processes._members(session)


def test_what_configures_the_caller_does_not_configure_the_processes(
    service: ServiceDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PENSTOCK_BROKER_BROKER_ID", "PENSTOCK_API_KEY", "DJANGO_SETTINGS_MODULE", "ETCD_NAME"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("PENSTOCK_CONFIG", "/of/somebody/else.json")
    monkeypatch.setenv("PENSTOCK_CLOCK_OFFSET_MS", "5000")
    seen = service_processes.environment_for(service, "web")
    ours = {name: value for name, value in seen.items() if name.startswith(("PENSTOCK_", "DJANGO_", "ETCD_"))}
    assert ours == {
        "PENSTOCK_CONFIG": str(service.config_file),
        "PENSTOCK_PROCESS": "web",
        "PENSTOCK_CLOCK_OFFSET_MS": "5000",
        **guardian.mark(),
    }
    log = tmp_path / "log"
    show = "import os; print(sorted(name for name in os.environ if name.startswith(('PENSTOCK_', 'ETCD_'))))"
    assert processes.start_command([sys.executable, "-c", show], log).wait(PATIENCE_S) == 0
    assert log.read_text() == f"{sorted(['PENSTOCK_CLOCK_OFFSET_MS', *guardian.mark()])}\n"
    assert guardian.mark(), "whatever a test starts ends with it"


def test_what_processes_write_is_their_owners_alone(service: ServiceDirectory, tmp_path: Path) -> None:
    output = service.output_file("writes")
    output.touch()
    output.chmod(0o644)
    made = tmp_path / "made"
    writes = sleeper("writes", f"open({str(made)!r}, 'w')")
    assert start(service, writes).wait(PATIENCE_S) == 0
    assert stat.S_IMODE(output.stat().st_mode) == stat.S_IMODE(made.stat().st_mode) == 0o600
    made.unlink()
    log = tmp_path / "broker.log"
    assert processes.start_command(writes.command_line(service.config_file), log).wait(PATIENCE_S) == 0
    assert stat.S_IMODE(log.stat().st_mode) == stat.S_IMODE(made.stat().st_mode) == 0o600


def test_a_process_is_found_by_its_service_and_name(service: ServiceDirectory, tmp_path: Path) -> None:
    process = sleeper("forks", _FORKS)
    child = started(service, process)
    found = find(service, process)
    assert found is not None and found.pid == child.pid
    assert find(service, sleeper("stubborn", _FORKS)) is None
    other = ServiceDirectory(DataDirectory(tmp_path / "other"))
    assert find(other, process) is None
    assert stop(service, [process], PATIENCE_S) == ()
    child.wait(PATIENCE_S)
    assert members(child.pid) == []
    assert find(service, process) is None


def test_one_that_will_not_end_is_killed_and_named(service: ServiceDirectory) -> None:
    process = sleeper("stubborn", _STUBBORN)
    child = started(service, process)
    assert stop(service, [process], 0.2) == ("stubborn",)
    assert child.wait(PATIENCE_S) == -signal.SIGKILL


def test_what_a_killed_process_left_behind_ends_before_the_next_one_starts(service: ServiceDirectory) -> None:
    process = sleeper("forks", _FORKS)
    child = started(service, process)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(PATIENCE_S)
    assert find(service, process) is None
    assert len(members(child.pid)) == 1
    again = start(service, process)
    assert members(child.pid) == []
    deadline = time.monotonic() + PATIENCE_S
    while find(service, process) is None:  # the system shows its environment a moment after it has begun
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stop(service, [process], PATIENCE_S)
    again.wait(PATIENCE_S)


def test_states_are_told_from_outside(service: ServiceDirectory) -> None:
    spec = service.load()
    process = sleeper("forks", _FORKS)
    assert look(service, spec, process).state is ServiceState.DOWN
    child = started(service, process)
    assert look(service, spec, process).state is ServiceState.STARTING
    service.heartbeat_file("forks").write_text(f'{{"pid": {child.pid}, "state": "ready", "at": 0}}')
    assert look(service, spec, process).state is ServiceState.READY
    failing = f'{{"pid": {child.pid}, "state": "failing", "error": "no Java", "at": 0}}'
    service.heartbeat_file("forks").write_text(failing)
    assert look(service, spec, process).state is ServiceState.FAILING
    assert look(service, spec, process).detail == "no Java"
    service.heartbeat_file("forks").write_text('{"pid": 1, "state": "ready", "at": 0}')
    assert look(service, spec, process).state is ServiceState.STARTING
    os.kill(child.pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE_S
    while look(service, spec, process).state is not ServiceState.PAUSED:
        assert time.monotonic() < deadline, "a stopped process is told as paused"
        time.sleep(0.01)
    stop(service, [process], PATIENCE_S)
    assert child.wait(PATIENCE_S) == -signal.SIGTERM
    assert sys.executable in process.command_line(service.config_file)
