"""The one thread of a process that writes the embedded metadata store: group commit, failure, checkpoints.

States: running -> failed (the file failed; every later operation is refused) or closed. A full disk refuses
operations one by one, and is no failure. Operations wait in
one queue; what has queued while a commit was on its way goes into the next one, and one sync makes all of it
durable.
"""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data_plane.broker.sqlite_group import Operation, Outcome, Plan, Txn, has_moved, install_effects
from data_plane.broker.sqlite_schema import (
    BUSY_SLEEP_S,
    StoreFault,
    checkpoint,
    connect,
    describe,
    is_transient,
    lacks_space,
    may_be_applied,
    reserve,
)
from data_plane.metadata.port import OutcomeUnknown, StoreUnavailable

GROUP_MAX = 256
"""Operations in one commit."""
CHANGES_PER_GROUP = 1_000
"""A group that has that many changes takes no further operation: bounds how long the write lock is held."""
CHECKPOINT_COMMITS = 256
"""A commit appends about four pages; the log stays at a few MiB for each process."""

Answer = Callable[[Outcome], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterConfig:
    path: Path
    monotonic_ms: Callable[[], int]
    boot_id: str
    busy_ms: int
    retained_revisions: int


class Writer:
    """Owns the writing connection; `submit` is safe from any thread and never blocks."""

    def __init__(
        self,
        config: WriterConfig,
        *,
        deliver: Callable[[list[tuple[Answer, Outcome]]], None],
        committed: Callable[[], None],
        failed: Callable[[StoreFault], None],
    ) -> None:
        """`deliver`, `committed` (a key changed) and `failed` are called on the writer's thread."""
        self.commits = 0
        """So far; written by the thread alone."""
        self._config = config
        self._deliver = deliver
        self._committed = committed
        self._failed = failed
        self._queue: queue.SimpleQueue[tuple[Operation, Answer] | None] = queue.SimpleQueue()
        self._fault: StoreFault | None = None
        self._closing = False
        self._no_space = False
        self._checkpointed_at = 0
        self._connection: sqlite3.Connection | None = None
        self._checkpointer: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="metadata-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, operation: Operation, answer: Answer) -> None:
        self._queue.put((operation, answer))

    def close(self) -> None:
        """Refuse what has not begun and end the thread; returns at once."""
        self._closing = True
        self._queue.put(None)

    def join(self) -> None:
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            # Our own bug: no caller may go on waiting for a thread that is gone.
            self._fail(error)
            raise

    def _serve(self) -> None:
        try:
            self._connection = connect(self._config.path)
            self._checkpointer = connect(self._config.path)
            install_effects(self._connection)
        except sqlite3.Error as error:
            self._fail(error)
        while True:
            group = self._next_group()
            if group:
                self._deliver(self._perform(group))
            if self._closing and self._queue.empty():
                break
            if self.commits - self._checkpointed_at >= CHECKPOINT_COMMITS and self._fault is None:
                self._checkpoint()
        self._close_connections()

    def _next_group(self) -> list[tuple[Operation, Answer]]:
        """Wait for an operation; take with it what else has queued. Empty when woken to close."""
        group: list[tuple[Operation, Answer]] = []
        changes = 0
        item = self._queue.get()
        while item is not None:
            group.append(item)
            changes += len(item[0].changes) if isinstance(item[0], Txn) else 1
            if len(group) == GROUP_MAX or changes >= CHANGES_PER_GROUP or self._queue.empty():
                break
            item = self._queue.get()
        return group

    def _perform(self, group: list[tuple[Operation, Answer]]) -> list[tuple[Answer, Outcome]]:
        """The outcome of each, in order."""
        operations = [operation for operation, _ in group]
        if self._closing or self._fault is not None:
            reason = "the store is closed" if self._fault is None else str(self._fault)
            outcomes: list[Outcome] = [StoreUnavailable(reason) for _ in operations]
        else:
            outcomes = self._commit(operations)
        return [(answer, outcome) for (_, answer), outcome in zip(group, outcomes, strict=True)]

    def _commit(self, operations: list[Operation]) -> list[Outcome]:
        """Decide and commit, again and again while others are in the way, within `busy_ms`."""
        assert self._connection is not None
        config = self._config
        deadline = time.monotonic() + config.busy_ms / 1000
        attempt = 0
        unknown = False
        """Whether an attempt that failed may come back after a crash, whatever became of the next ones."""
        while True:
            committing = False
            try:
                plan = Plan.read(
                    self._connection, operations, now_ms=config.monotonic_ms(), boot_id=config.boot_id
                )
                outcomes = [plan.decide(operation) for operation in operations]
                plan.trim(config.retained_revisions)
                committing = True
                if plan.commit(self._connection):
                    self.commits += 1
                    self._log_space()
                if plan.changes_keys:
                    self._committed()
                return outcomes
            except sqlite3.Error as error:
                unknown = unknown or may_be_applied(error)
                if lacks_space(error):
                    logged = self._checkpoint()
                    if self._fault is not None:
                        return self._open_outcomes(operations, unknown)
                    # An empty log had begun again and was still too short. Any other begins again with the next try,
                    # in the space that it has, unless a reader is in it: for a moment, or stopped there.
                    if not logged or time.monotonic() >= deadline:
                        return self._without_space(operations, error, unknown)
                elif not has_moved(error) and not is_transient(error):
                    self._fail(error)
                    return self._open_outcomes(operations, committing or unknown)
                elif time.monotonic() >= deadline:
                    reason = f"metadata store {config.path} is held by another process: {describe(error)}"
                    return _failures(operations, reason, unknown)
                if not has_moved(error):
                    time.sleep(BUSY_SLEEP_S[min(attempt, len(BUSY_SLEEP_S) - 1)])
                    attempt += 1
            except Exception as error:
                # Our own bug: what was read may not be what is stored. Nothing more may be written.
                self._fail(error)
                return self._open_outcomes(operations, committing or unknown)

    def _without_space(
        self, operations: list[Operation], error: sqlite3.Error, unknown: bool
    ) -> list[Outcome]:
        """Nothing of this group is in the file."""
        if not self._no_space:
            self._no_space = True
            _log.error(
                "metadata store has no disk space",
                extra={"path": str(self._config.path), "error": describe(error)},
            )
        reason = f"metadata store {self._config.path} has no disk space: {describe(error)}; free some"
        return _failures(operations, reason, unknown)

    def _log_space(self) -> None:
        if self._no_space:
            self._no_space = False
            _log.warning("metadata store has disk space again", extra={"path": str(self._config.path)})

    def _open_outcomes(self, operations: list[Operation], committing: bool) -> list[Outcome]:
        """After a failure: a transaction whose commit had begun may have been applied."""
        return _failures(operations, str(self._fault), committing)

    def _fail(self, error: Exception) -> None:
        """The file's durable state is unknown from here on: ask it nothing more (RL126)."""
        detail = describe(error) if isinstance(error, sqlite3.Error) else repr(error)
        self._fault = StoreFault(
            f"metadata store {self._config.path} failed: {detail}; free its disk or restore it, and restart"
        )
        self._fault.__cause__ = error
        _log.error("metadata store failed", extra={"path": str(self._config.path), "error": detail})
        self._close_connections()  # gives the write lock back
        self._failed(self._fault)

    def _close_connections(self) -> None:
        for connection in (self._connection, self._checkpointer):
            if connection is not None:
                connection.close()
        self._connection = self._checkpointer = None

    def _checkpoint(self) -> int:
        """Keep the write-ahead log short; the pages that were in it, 0 too when it could not be copied. Without disk
        space the log keeps what it has, and there is nothing to reserve."""
        assert self._connection is not None and self._checkpointer is not None
        self._checkpointed_at = self.commits
        logged = 0
        try:
            logged = checkpoint(self._connection, self._checkpointer, self._config.busy_ms)
            if not self._no_space:
                reserve(self._connection, self._checkpointer, self._config.busy_ms)
        except sqlite3.Error as error:
            if not is_transient(error) and not lacks_space(error):
                self._fail(error)
        return logged


def _failures(operations: list[Operation], reason: str, unknown: bool) -> list[Outcome]:
    """`unknown`: what was to be committed may be applied."""
    return [
        OutcomeUnknown(reason) if unknown and isinstance(operation, Txn) else StoreUnavailable(reason)
        for operation in operations
    ]
