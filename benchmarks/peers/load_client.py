"""One client process of the comparison and the lines that it writes.

Every client is called with the name of a load and the arguments of `LoadArguments`. It writes JSON objects, one a line:

    {"messages": n, "seconds": s}      a window: so many messages were acknowledged or read in it
    {"measuring": true}                of a steady load: what is sent from now on is measured
    {"measured": true}                 of a steady load: everything is acknowledged
    {"done": n}                        so many messages are through
    {"acknowledged_ms": [...], "late_ms": [...]}   one entry a message of a steady load
    {"times_ms": [...]}                when single messages were acknowledged, on any clock that only grows

A load without an end of its own ends when standard input does, so it also ends with this process.
"""

import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.peers.system import ClientProgram

Line = dict[str, Any]
_END_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadArguments:
    """What a load does."""

    load: str
    topic: str
    partitions: int
    values: Path
    """A file of values, `bytes` each."""
    bytes: int
    codec: str = "none"
    per_s: int = 1
    seconds: int = 1
    messages: int = 1
    window_s: float = 3.0

    def command(self, program: Sequence[str], bootstrap: str) -> list[str]:
        named = {
            "bootstrap": bootstrap,
            "topic": self.topic,
            "partitions": self.partitions,
            "values": self.values,
            "bytes": self.bytes,
            "codec": self.codec,
            "per-s": self.per_s,
            "seconds": self.seconds,
            "messages": self.messages,
            "window-s": self.window_s,
        }
        return [
            *program,
            self.load,
            *(part for name, value in named.items() for part in (f"--{name}", str(value))),
        ]


class LoadClient:
    """Runs within the block; it is killed at its end if it does not end by itself."""

    def __init__(self, program: ClientProgram, bootstrap: str, arguments: LoadArguments, log: Path) -> None:
        self._command = arguments.command(program.command, bootstrap)
        self._environment: Mapping[str, str] = {**os.environ, **program.environment}
        self._log = log
        self._lines: queue.Queue[Line | None] = queue.Queue()

    def __enter__(self) -> Self:
        with self._log.open("wb") as errors:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment,
                start_new_session=True,
            )
        self.process = psutil.Process(self._child.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._reader.join()
        self._child.__exit__(kind, error, trace)

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def line(self, timeout_s: float = _END_S) -> Line:
        """The next line. Raises `RuntimeError` with what it said when it has ended, `TimeoutError`."""
        try:
            found = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"the client said nothing for {timeout_s:g} s{self._said()}") from None
        if found is None:
            raise RuntimeError(f"the client ended{self._said()}")
        return found

    def line_with(self, name: str, timeout_s: float = _END_S) -> Line:
        """The next line that has `name`; those before it are passed over."""
        while name not in (found := self.line(timeout_s)):
            pass
        return found

    def stop(self) -> None:
        """Its load ends, and it says what came of it."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def wait(self) -> None:
        """Raises `RuntimeError` when it failed."""
        if self._child.wait(_END_S) != 0:
            raise RuntimeError(f"the client ended with status {self._child.returncode}{self._said()}")

    def _said(self) -> str:
        said = self._log.read_text(errors="replace").strip()[-1_500:]
        return f"\n{said}" if said else ""
