"""Runs modules as processes of their own that do not import again what another process has imported: forked from it.

A broker takes most of a second of processor time to import, and the tests start hundreds. `start` asks one process, the
source, that has imported the broker and done nothing else. It forks itself, and the fork runs the module as
`python -m` would, to the interpreter's end. Every other start, by `local` or by a person, is a new interpreter.

    tests   -> source   {"start": module, "arguments", "folder", "output", "environment"} or {"collect": pid}
    source  -> tests    {"pid"} at each start, in their order; {"ended": pid, "status"}
"""

import json
import os
import runpy
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

PRELOADED = "data_plane.broker.process"


class ForkedProcess:
    """A process, used as a `subprocess.Popen` is: nothing else gets its id before its status was asked for."""

    def __init__(self, source: "_Source", pid: int, module: str) -> None:
        self._source = source
        self.pid = pid
        self._module = module
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, minus the signal that killed it; None while it runs."""
        if self._status is None:
            self._status = self._source.status(self.pid, 0.0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Raises `subprocess.TimeoutExpired`."""
        if self._status is None:
            self._status = self._source.status(self.pid, timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired(self._module, timeout or 0.0)
        return self._status

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As `send_signal`."""
        self.send_signal(9)


def start(module: str, arguments: Sequence[str], *, folder: Path, output: Path) -> ForkedProcess:
    """Run a module with this process's environment in a session of its own, its output appended to a file."""
    global _source
    with _making:
        if _source is None:
            _source = _Source()
        return _source.start(module, arguments, folder, output)


class _Source:
    """The source as the tests see it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for pytest, which ends what it has started
        )
        self._changed = threading.Condition()
        self._pids: list[int] = []
        self._ended: dict[int, int] = {}
        threading.Thread(target=self._listen, name="forked", daemon=True).start()

    def start(self, module: str, arguments: Sequence[str], folder: Path, output: Path) -> ForkedProcess:
        wanted = {
            "start": module,
            "arguments": list(arguments),
            "folder": str(folder),
            "output": str(output),
            "environment": dict(os.environ),
        }
        with self._changed:
            self._ask(wanted)
            made = self._changed.wait_for(lambda: self._pids, PATIENCE_S)
            assert made, f"{module} was not started; the source's status: {self._process.poll()}"
            return ForkedProcess(self, self._pids.pop(0), module)

    def status(self, pid: int, timeout_s: float | None) -> int | None:
        """The status of an ended process, once; None when it has not ended in that time."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._ended, timeout_s)
            status = self._ended.pop(pid, None)
            if status is not None:
                self._ask({"collect": pid})
            return status

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                if "pid" in told:
                    self._pids.append(told["pid"])
                else:
                    self._ended[told["ended"]] = told["status"]
                self._changed.notify_all()


_making = threading.Lock()
_source: _Source | None = None


def _serve() -> dict[str, Any] | None:
    """Fork at each request until nobody asks any more: None. In a fork: the request that it is for."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    asked = b""
    running: dict[int, int] = {}  # pidfd -> process id
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in running:
                poll.unregister(descriptor)
                os.close(descriptor)
                _tell_end(running.pop(descriptor))
                continue
            read = os.read(0, 1 << 16)
            if not read:
                return None
            *lines, asked = (asked + read).split(b"\n")
            for line in lines:
                request: dict[str, Any] = json.loads(line)
                if "collect" in request:
                    os.waitpid(request["collect"], 0)
                    continue
                pid = os.fork()
                if pid == 0:
                    for other in running:
                        os.close(other)
                    return request
                running[watched := os.pidfd_open(pid)] = pid
                poll.register(watched, select.POLLIN)
                _tell({"pid": pid})


def _tell_end(pid: int) -> None:
    """It stays a zombie, and its id its own, until it is collected."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    exited = ended.si_code == os.CLD_EXITED
    _tell({"ended": pid, "status": ended.si_status if exited else -ended.si_status})


def _tell(told: dict[str, int]) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


def _become(request: dict[str, Any]) -> None:
    """Run the module as a new process would, in this one."""
    os.setsid()
    output = os.open(request["output"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, descriptor)
    os.close(nothing)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if sys.flags.safe_path:
        sys.path.append(request["folder"])  # compiled cores come before it
    else:
        sys.path[0] = request["folder"]
    sys.argv = [request["start"], *request["arguments"]]
    runpy.run_module(request["start"], run_name="__main__", alter_sys=True)


def _main() -> None:
    __import__(PRELOADED)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{PRELOADED} starts {threads - 1} threads, which no fork would have"
    request = _serve()
    if request is not None:
        _become(request)


if __name__ == "__main__":
    _main()
