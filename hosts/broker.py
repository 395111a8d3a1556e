"""One broker on a host of its own: its namespace, its disk, its clock and its process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.disks import Disk
from chaos.stepping_broker import FILE_VARIABLE, step
from chaos.switch import Wire
from penstock.private_file import write_private

CLIENT_PORT, INTERNAL_PORT, HTTP_PORT, PEER_PORT = 7000, 7001, 7002, 7003
EXIT_FAULT = 70
"""A broker that no longer trusts its disk ends with this, and is to be started again."""
_GONE_S = 20.0
_POLL_S = 0.02
_ATTACHED_S = 20.0
_AGAIN_S = 0.5
"""An init system starts a broker that ended by itself after so long."""


class BrokerHost:
    """Starts, hurts and repairs one broker. It starts again by itself, unless `kept_down` by a fault."""

    def __init__(
        self,
        number: int,
        folder: Path,
        wire: Wire,
        disk: Disk,
        settings: Mapping[str, Any],
        *,
        stepping: bool,
    ) -> None:
        """`stepping`: its wall clock can be stepped."""
        self.number, self.folder, self.wire, self.disk = number, folder, wire, disk
        self.kept_down = False
        self.ended_by_itself: list[int] = []
        """Exit statuses of lives that no fault ended."""
        self.config = folder / "config.json"
        self.output = folder / "output.log"
        self.client_address = f"{wire.address}:{CLIENT_PORT}"
        self.internal_address = f"{wire.address}:{INTERNAL_PORT}"
        self._process: subprocess.Popen[bytes] | None = None
        self._known_end: subprocess.Popen[bytes] | None = None
        self._tracer: subprocess.Popen[bytes] | None = None
        self._clock_file = folder / "clock"
        self._module = "chaos.stepping_broker" if stepping else "data_plane.broker"
        self.step_clock(0)
        self._configure(settings)
        wire.publish(INTERNAL_PORT, PEER_PORT)

    def _configure(self, settings: Mapping[str, Any]) -> None:
        values = {
            "broker_id": self.number,
            "zone": f"host-{self.number}",
            "data": str(self.log_directory),
            "client_listen": self.client_address,
            # Other brokers and Admin calls come in by way of the host's address, which leads here.
            "internal_listen": f"127.0.0.1:{INTERNAL_PORT}",
            "internal_advertised": self.internal_address,
            "peer_listen": f"127.0.0.1:{PEER_PORT}",
            "peer_advertised": f"{self.wire.address}:{PEER_PORT}",
            "http_listen": f"{self.wire.address}:{HTTP_PORT}",
            **settings,
        }
        write_private(self.config, json.dumps(values, indent=2) + "\n")

    @property
    def log_directory(self) -> Path:
        return self.disk.point / "log"

    # -- the process -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker unless it runs."""
        if self.runs:
            return
        self.log_directory.mkdir(exist_ok=True)
        environment = dict(os.environ) | {FILE_VARIABLE: str(self._clock_file)}
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self.wire.command(sys.executable, "-m", self._module, "--config", str(self.config)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

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

    def kill(self) -> None:
        """SIGKILL; the process is gone on return, and its files are closed."""
        self.signal(signal.SIGKILL)
        self.wait_gone()

    def wait_gone(self) -> None:
        if self._process is not None:
            self._process.wait(_GONE_S)
            self._known_end = self._process

    def end(self) -> bool:
        """Let it drain and end; False when it had to be killed."""
        self.detach()
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if self._process is None:
            return True
        try:
            return self._process.wait(_GONE_S) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def step_clock(self, milliseconds: int) -> None:
        """From soon on its wall clock is so far from the machine's."""
        step(self._clock_file, milliseconds)

    # -- its disk calls ----------------------------------------------------------------------------------------

    def trace(self, *inject: str) -> None:
        """Change every sync of the running broker: `strace -e inject=fsync,fdatasync:...`; returns once it does."""
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
