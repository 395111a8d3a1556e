"""Asks the process of `sender` to produce. It is started when there is something to send, and again when it died."""

import errno
import itertools
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.client.settings import ConnectionSettings

WITHIN_S = 12.0
"""What the brokers may take for one batch."""
_ANSWER_S = 8.0
"""What the process may take beside; with it, less than a lease."""
WRITE_S = 4.0
"""For handing over one batch, with the wait for those before it. A process that does not read is given up."""
PROGRAM = (sys.executable, "-m", "control_plane.audit_topics.sender")
_ROOT = Path(__file__).parents[2]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry, as its topic has it."""

    key: str
    value: str
    headers: dict[str, str]


class NotSent(Exception):
    """It is not known that the topic has the messages. The text is for the tenant."""


class Sender:
    """One process, used by any number of threads."""

    def __init__(
        self, within_s: float = WITHIN_S, *, write_s: float = WRITE_S, program: Sequence[str] = PROGRAM
    ) -> None:
        self._within_s = within_s
        self._write_s = write_s
        self._program = program
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._waiting: dict[int, Future[str]] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def send(self, to: ConnectionSettings, topic: str, messages: Sequence[Message]) -> None:
        """Returns when every in-sync replica has all of them. Raises `NotSent`."""
        number, answer = next(self._numbers), Future[str]()
        asked = {
            "id": number,
            "bootstrap": to.bootstrap,
            "api_key": to.api_key,
            "ca_file": to.ca_file,
            "topic": topic,
            "within_s": self._within_s,
            "messages": [{"key": one.key, "value": one.value, "headers": one.headers} for one in messages],
        }
        process: subprocess.Popen[str] | None = None
        try:
            with self._lock:
                process = self._started()
                self._waiting[number] = answer
            self._hand_over(process, json.dumps(asked).encode() + b"\n")
            error = answer.result(self._within_s + _ANSWER_S)
        except TimeoutError:
            self._give_up(process)
            raise NotSent("the service's own process for it did not answer") from None
        except OSError as fault:
            self._give_up(process)
            raise NotSent(f"the service's own process for it failed: {fault.strerror}") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if error:
            raise NotSent(error)

    def close(self) -> None:
        """End the process. Whatever is under way is not known to be sent."""
        with self._lock:
            self._closed, process = True, self._process
        self._give_up(process)

    def _hand_over(self, process: subprocess.Popen[str], line: bytes) -> None:
        """Write it within `write_s`, past the text layer, which would wait without an end. Raises `TimeoutError`,
        `OSError`; then the process has half a line, and is of no use any more.
        """
        ends = time.monotonic() + self._write_s
        if not self._writing.acquire(timeout=self._write_s):
            raise TimeoutError("another batch is being written")
        try:
            assert process.stdin is not None
            if process.stdin.closed:
                raise BrokenPipeError(errno.EPIPE, "it ended")
            pipe = process.stdin.fileno()
            ready = select.poll()
            ready.register(pipe, select.POLLOUT)
            left = memoryview(line)
            while left:
                if not ready.poll(max(0, int((ends - time.monotonic()) * 1000))):
                    raise TimeoutError("the process does not read")
                try:
                    left = left[os.write(pipe, left) :]
                except BlockingIOError:
                    continue
        finally:
            self._writing.release()

    def _started(self) -> subprocess.Popen[str]:
        """Under the lock. Raises `NotSent`, `OSError`."""
        if self._closed:
            raise NotSent("the service's worker stops")
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
                # Ctrl-C is for the worker: this one ends with its standard input.
                start_new_session=True,
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
            threading.Thread(
                target=self._read, args=(self._process,), name="audit topics' answers", daemon=True
            ).start()
        return self._process

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Every answer of this process, until its end."""
        assert process.stdout is not None
        for line in process.stdout:
            answer: dict[str, Any] = json.loads(line)
            with self._lock:
                waiting = self._waiting.pop(answer["id"], None)
            if waiting is not None:
                waiting.set_result(str(answer["error"]))
        process.wait()
        with self._writing:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
        with self._lock:
            left, self._waiting = self._waiting, {}
            if self._process is process:
                self._process = None
        for waiting in left.values():
            waiting.set_result("the service's own process for it ended")

    def _give_up(self, process: subprocess.Popen[str] | None) -> None:
        if process is not None:
            process.kill()
