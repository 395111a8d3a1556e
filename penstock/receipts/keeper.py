"""Takes each acknowledged batch from a producer and has it written by a thread of its own.

What is acknowledged is added to the spans in memory at once, which is all that a sender or an event loop waits for. The
thread gathers for WRITE_MS, appends once, and syncs every SYNC_MS. A disk that refuses keeps it in memory, where it
grows with gaps and not with batches, until it takes it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from penstock.contract.errors import ReceiptsNotWritten
from penstock.receipts.file import Disk, ReceiptsFile
from penstock.receipts.spans import SpanKey, Spans
from penstock.receipts.values import UNKNOWN_EPOCH
from penstock.rules.timestamps import DAY_MS
from penstock.transport.process import watch_process

WRITE_MS = 100
"""A receipt is handed to the operating system this long after its acknowledgement, and survives the process then."""
SYNC_MS = 1_000
"""The disk is asked to hold what was written at most this often."""
RETRY_MS = 1_000
"""After a refusal of the disk."""
WARN_MS = 60_000
CLOSE_S = 30.0
"""How long a close waits for the disk."""
_EXIT_S = 5.0
"""The same where the interpreter ends with producers that were never closed."""
_DAY_MAX = 2_932_896
"""9999-12-31: the format knows no later day, whatever a broker says."""
_log = logging.getLogger("penstock")


class ReceiptsKeeper:
    """Safe between threads. One producer, one file."""

    def __init__(self, path: str | os.PathLike[str], acks: int, disk: Disk | None = None) -> None:
        """`acks` as on the wire, -1 or 1. Raises `ConfigurationError` as `ReceiptsFile` does."""
        self.close_s = CLOSE_S
        self._file = ReceiptsFile(path, disk)
        self._acks = acks
        self._changed = threading.Condition(threading.Lock())
        self._pending = Spans()
        self._names: dict[bytes, str] = {}
        self._thread: threading.Thread | None = None
        self._closing = self._left_behind = False
        self._unsynced = False
        self._synced_at = self._warned_at = -1e9
        self._failure: str | None = None
        """Why the last attempt to write failed; None = it did not."""
        self._on_closed: list[Callable[[], None]] = []
        self._closed = False
        watch_process(self)

    @property
    def path(self) -> str:
        return self._file.path

    def acknowledged(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        *,
        first_offset: int,
        messages: int,
        size: int,
        accepted_ms: int,
        leader_epoch: int,
    ) -> None:
        """A broker holds this batch. An answer that names no offset gives no receipt."""
        end = first_offset + messages
        if first_offset < 0 or end >= 2**63 or messages <= 0:
            return
        day = min(max(accepted_ms, 0) // DAY_MS, _DAY_MAX)
        key = SpanKey(topic_id, partition, day, max(leader_epoch, UNKNOWN_EPOCH), self._acks)
        with self._changed:
            if self._closing:
                return
            idle = not self._pending
            self._pending.add(key, first_offset, end, size)
            self._names[topic_id] = topic
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="penstock-receipts", daemon=True)
                self._thread.start()
            elif idle:
                self._changed.notify()

    def begin_close(self, on_closed: Callable[[], None] | None = None) -> None:
        """Write what is left and give the file back; `on_closed` is called then, by another thread or at once."""
        closed = self._left_behind  # a thread of the parent may have held the lock: nothing gives it back
        if not closed:
            with self._changed:
                closed = self._closed
                if not closed and on_closed is not None:
                    self._on_closed.append(on_closed)
                alone = self._thread is None and not self._closing
                self._closing = True
                self._changed.notify()
            if alone:
                self._end()
        if closed and on_closed is not None:
            on_closed()

    def close(self) -> None:
        """`begin_close`, and wait for `close_s`. Raises `ReceiptsNotWritten`. Closing twice is harmless."""
        done = threading.Event()
        self.begin_close(done.set)
        done.wait(self.close_s)
        self.check_closed()

    def check_closed(self) -> None:
        """After a close that was waited for: raise `ReceiptsNotWritten`, once, if something was not written."""
        if self._left_behind:
            return
        if not self._closed:
            raise ReceiptsNotWritten(
                f"receipts: {self.path}: the disk did not take them within {self.close_s:g} s"
            )
        failure, self._failure = self._failure, None
        if failure is not None:
            raise ReceiptsNotWritten(f"receipts: {self.path}: {failure}")

    def after_fork(self) -> None:
        """In a child process: the parent goes on with the file, and its lock must not stay with us."""
        self._left_behind = True
        self._file.close()

    def at_exit(self) -> None:
        """The program ends with a producer that was never closed: wait for the disk, though not for long."""
        self.close_s = _EXIT_S
        try:
            self.close()
        except ReceiptsNotWritten as error:
            _log.warning("penstock: %s", error.message)

    # ---- the thread ---------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        try:
            while not self._closing:
                self._wait()
                self._write(closing=False)
            self._write(closing=True)
        except BaseException as error:
            self._failure = f"stopped after an internal error: {error!r}"
            _log.exception("penstock: receipts: %s: no more are written after an internal error", self.path)
            with self._changed:
                self._closing = True
            raise
        finally:
            self._end()

    def _wait(self) -> None:
        """Until there is something to do, and for so much longer that it is worth one write."""
        with self._changed:
            if self._failure is not None:
                self._sleep(RETRY_MS)
                return
            while not self._pending and not self._closing:
                if not self._unsynced:
                    self._changed.wait()
                elif (left := self._synced_at + SYNC_MS - _now_ms()) > 0:
                    self._changed.wait(left / 1000)
                else:
                    return
            self._sleep(WRITE_MS)

    def _sleep(self, wait_ms: float) -> None:
        """Under the lock: for so long, or until it closes."""
        until = _now_ms() + wait_ms
        while not self._closing and (left := until - _now_ms()) > 0:
            self._changed.wait(left / 1000)

    def _write(self, *, closing: bool) -> None:
        with self._changed:
            spans, self._pending = self._pending, Spans()
        try:
            if spans:
                self._unsynced = True
                self._file.append(spans, self._names)
                spans = Spans()
            if self._unsynced and (closing or _now_ms() - self._synced_at >= SYNC_MS):
                self._file.sync()
                self._unsynced = False
                self._synced_at = _now_ms()
        except OSError as error:
            self._refused(spans, error)
        else:
            if self._failure is not None and not self._unsynced:
                _log.warning("penstock: receipts: %s: written again", self.path)
                self._failure = None

    def _refused(self, spans: Spans, error: OSError) -> None:
        with self._changed:
            self._pending.merge(spans)
        self._failure = f"{error.strerror or error}; receipts of acknowledged messages are not on disk"
        now = _now_ms()
        if now - self._warned_at >= WARN_MS:
            self._warned_at = now
            _log.warning("penstock: receipts: %s: %s", self.path, self._failure)

    def _end(self) -> None:
        self._file.close()
        with self._changed:
            self._closed = True
            closing, self._on_closed = self._on_closed, []
        for on_closed in closing:
            on_closed()


def _now_ms() -> float:
    return time.monotonic() * 1000
