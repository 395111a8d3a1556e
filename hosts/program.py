"""A process on a host, as its init system sees it: started, signalled, ended, and started again after its own end."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hosts.accounts import Account
from hosts.host import Host
from local.processes import PRIVATE, open_output

_GONE_S = 20.0
_END_S = 40.0
"""A runner finishes the round that has begun, 30 s at most."""
_POLL_S = 0.02
_ATTACHED_S = 20.0
_AGAIN_S = 0.5
"""An init system starts what ended by itself after so long."""


class Program:
    """Starts, hurts and repairs one process. `kept_down`: a fault wants it gone, so it is not started again."""

    def __init__(
        self,
        name: str,
        host: Host,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        account: Account | None = None,
        stop: signal.Signals = signal.SIGTERM,
    ) -> None:
        """`folder` holds its output, and is made; `environment` adds to the host's; `stop` asks it to end."""
        self.name = name
        self.host = host
        self.folder = folder or host.folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.output = self.folder / "output.log"
        self.kept_down = False
        self.ended_by_itself: list[int] = []
        """Exit statuses of lives that no fault ended."""
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._account = account
        self._stop = stop
        self._process: subprocess.Popen[bytes] | None = None
        self._known_end: subprocess.Popen[bytes] | None = None
        self._tracer: subprocess.Popen[bytes] | None = None
        host.programs.append(self)

    # -- the process -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it unless it runs."""
        if self.runs:
            return
        with open_output(self.output) as output:
            self._process = subprocess.Popen(
                self.host.wire.command(*self._command, account=self._account),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**self.host.environment, **self._environment},
                umask=PRIVATE,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.runs else None

    @property
    def status(self) -> int | None:
        """With which it has ended; None while it runs and before its first start."""
        return None if self._process is None else self._process.poll()

    async def keep_running(self) -> None:
        """As an init system: what ends by itself is started again."""
        while True:
            await asyncio.sleep(_AGAIN_S)
            process = self._process
            if self.kept_down or process is None or process.poll() is None:
                continue
            if process is not self._known_end:
                self._known_end = process
                self.ended_by_itself.append(process.returncode)
            self.start()

    def signal(self, what: signal.Signals) -> None:
        if self._process is not None and self.runs:
            os.kill(self._process.pid, what)

    def kill_soon(self) -> None:
        """SIGKILL to it and to what it forked."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # nothing of it is left

    def kill(self) -> None:
        """SIGKILL; the process is gone on return, and its files are closed."""
        self.kill_soon()
        self.wait_gone()

    def wait_gone(self) -> None:
        if self._process is not None:
            self._process.wait(_GONE_S)
            self._known_end = self._process

    def end(self, timeout_s: float = _END_S) -> bool:
        """Let it drain and end, and end what it left behind; False when it had to be killed. `status` says how."""
        self.kept_down = True
        self.detach()
        self.signal(self._stop)
        self.signal(signal.SIGCONT)
        if self._process is None:
            return True
        try:
            self._process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False
        finally:
            self.kill()

    # -- its disk calls ----------------------------------------------------------------------------------------

    def trace(self, *inject: str) -> None:
        """Change every sync of the running process: `strace -e inject=fsync,fdatasync:...`; returns once it does."""
        if self._process is None or not self.runs:
            return
        said = self.folder / "strace.err"
        with said.open("wb") as output:
            self._tracer = subprocess.Popen(
                [
                    *("strace", "-f", "-p", str(self._process.pid), "-o", "/dev/null"),
                    *("-e", "trace=fsync,fdatasync", "-e", ":".join(("inject=fsync,fdatasync", *inject))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _ATTACHED_S
        while b"attached" not in said.read_bytes() and time.monotonic() < deadline:
            if self._tracer.poll() is not None:
                return
            time.sleep(_POLL_S)

    def detach(self) -> None:
        """Its syncs are what they were."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        tracer.send_signal(signal.SIGINT)
        try:
            tracer.wait(_GONE_S)
        except subprocess.TimeoutExpired:
            tracer.kill()
            tracer.wait()

    # -- what it wrote -------------------------------------------------------------------------------------------

    def critical(self) -> list[str]:
        """What it logged as its own bug: exceptions that nothing handled (I18)."""
        found = []
        for line in self._lines():
            if '"level": "critical"' in line and '"exception"' in line:
                found.append(line[:2_000])
            elif line.startswith("Traceback"):
                found.append(line)
        return found

    def last_words(self, count: int = 12) -> str:
        return "\n".join(line[:400] for line in self._lines()[-count:])

    def _lines(self) -> list[str]:
        return self.output.read_text(errors="backslashreplace").splitlines() if self.output.exists() else []
