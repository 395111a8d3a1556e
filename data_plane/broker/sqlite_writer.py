"""The one thread of a process that writes the embedded metadata store: group commit, sessions, expiry,
trimming.

States: running -> failed (the file failed; every later operation is refused) or closed. Operations wait in
one queue; what has queued while a commit was on its way goes into the next one, and one sync makes all of it
durable.

The write lock is held for a fixed, small number of statements whatever the size of the group: a process that
is stopped inside holds up the writers of all others.
"""

import json
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_plane.broker.sqlite_schema import StoreFault, connect, describe, is_transient, patiently
from data_plane.metadata.port import (
    Change,
    Compare,
    Delete,
    OutcomeUnknown,
    Put,
    SessionLost,
    StoreUnavailable,
    TxnResult,
)

GROUP_MAX = 256
"""Operations in one commit: bounds how long the write lock is held."""
ROWS_PER_STATEMENT = 1_000
"""Four columns each, far below SQLite's 32,766 parameters."""
CHECKPOINT_COMMITS = 256
"""A commit appends about four pages; the log stays at a few MiB for each process."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Txn:
    compares: Sequence[Compare]
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True, eq=False)
class OpenSession:
    ttl_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class KeepAlive:
    session_id: int


@dataclass(frozen=True, slots=True, eq=False)
class EndSession:
    session_id: int


@dataclass(frozen=True, slots=True, eq=False)
class ExpireSessions:
    """End every session whose deadline has passed or whose boot is over: a compare-and-set that any process
    may try."""


Operation = Txn | OpenSession | KeepAlive | EndSession | ExpireSessions
Outcome = TxnResult | int | None | Exception
"""Of Txn, of OpenSession (its id), of the others; an exception is to be raised to the caller."""
Answer = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterConfig:
    path: Path
    monotonic_ms: Callable[[], int]
    boot_id: str
    busy_ms: int
    retained_revisions: int


@dataclass(slots=True)
class _Plan:
    """What one commit will write; decided from the state that was read under the write lock."""

    revision: int
    mod_revisions: dict[str, int]
    live_sessions: dict[int, bool]
    values: dict[str, tuple[bytes, int, int] | None] = field(default_factory=dict)
    """Key to (value, mod_revision, session id), None = deleted."""
    events: list[tuple[int, int, str, bytes | None]] = field(default_factory=list)

    def decide(self, txn: Txn) -> TxnResult | SessionLost:
        for compare in txn.compares:
            if self.mod_revisions.get(compare.key, 0) != compare.mod_revision:
                return TxnResult(False, self.revision)
        for change in txn.changes:
            if (
                isinstance(change, Put)
                and change.session_id
                and not self.live_sessions.get(change.session_id)
            ):
                return SessionLost(f"session {change.session_id} has ended")
        effective = [c for c in txn.changes if isinstance(c, Put) or self.mod_revisions.get(c.key, 0)]
        if not effective:
            return TxnResult(True, self.revision)
        self.revision += 1
        for position, change in enumerate(effective):
            if isinstance(change, Put):
                self.mod_revisions[change.key] = self.revision
                self.values[change.key] = (change.value, self.revision, change.session_id)
                self.events.append((self.revision, position, change.key, change.value))
            else:
                self.delete(position, change.key)
        return TxnResult(True, self.revision)

    def delete(self, position: int, key: str) -> None:
        self.mod_revisions[key] = 0
        self.values[key] = None
        self.events.append((self.revision, position, key, None))


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
        """`deliver`, `committed` (something changed) and `failed` are called on the writer's thread."""
        self._config = config
        self._deliver, self._committed, self._failed = deliver, committed, failed
        self._queue: queue.SimpleQueue[tuple[Operation, Answer] | None] = queue.SimpleQueue()
        self._fault: StoreFault | None = None
        self._closing = False
        self.commits = 0
        """So far; written by the thread alone."""
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
            self._connection = connect(self._config.path)
            self._checkpointer = connect(self._config.path)
        except sqlite3.Error as error:
            self._fail(error)
        group: list[tuple[Operation, Answer]] = []
        while True:
            item = self._queue.get()
            while item is not None:
                group.append(item)
                if len(group) == GROUP_MAX or self._queue.empty():
                    break
                item = self._queue.get()
            if group:
                self._deliver(self._perform(group))
                group = []
            if self._closing:
                break
            if self.commits - self._checkpointed_at >= CHECKPOINT_COMMITS and self._fault is None:
                self._checkpoint()
        self._close_connections()

    def _perform(self, group: list[tuple[Operation, Answer]]) -> list[tuple[Answer, Outcome]]:
        """The outcome of each, in order."""
        if self._closing or self._fault is not None:
            reason = "the store is closed" if self._fault is None else str(self._fault)
            return [(answer, StoreUnavailable(reason)) for _, answer in group]
        assert self._connection is not None
        operations = [operation for operation, _ in group]
        answers = [answer for _, answer in group]
        committing = False
        try:
            patiently(lambda: self._execute("BEGIN IMMEDIATE"), self._config.busy_ms)
            outcomes, changed = self._apply(operations)
            committing = True
            self._execute("COMMIT")
        except sqlite3.Error as error:
            return list(zip(answers, self._after_error(error, committing, operations), strict=True))
        except Exception as error:
            # Our own bug: nothing was committed, and nothing more may be.
            self._fail(error)
            return [(answer, StoreUnavailable(str(self._fault))) for answer in answers]
        self.commits += 1
        if changed:
            self._committed()
        return list(zip(answers, outcomes, strict=True))

    def _after_error(
        self, error: sqlite3.Error, committing: bool, operations: list[Operation]
    ) -> list[Outcome]:
        """A busy file leaves nothing applied. Any other error ends the store (RL126); in a commit the outcome
        is open."""
        if is_transient(error):
            try:
                if self._connection is not None and self._connection.in_transaction:
                    self._execute("ROLLBACK")
            except sqlite3.Error as second:
                self._fail(second)
            else:
                reason = f"metadata store {self._config.path} is held by another process: {describe(error)}"
                return [StoreUnavailable(reason) for _ in operations]
        else:
            self._fail(error)
        reason = str(self._fault)
        return [
            OutcomeUnknown(reason) if committing and isinstance(operation, Txn) else StoreUnavailable(reason)
            for operation in operations
        ]

    def _fail(self, error: Exception) -> None:
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

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        assert self._connection is not None
        return self._connection.execute(statement, values)

    # -- inside one transaction ------------------------------------------------------------------------------

    def _apply(self, operations: list[Operation]) -> tuple[list[Outcome], bool]:
        """Decide and write all of them; (outcomes, whether a key changed)."""
        plan, compacted = self._read(operations)
        start = plan.revision
        outcomes: list[Outcome] = []
        for operation in operations:
            if isinstance(operation, Txn):
                outcomes.append(plan.decide(operation))
            elif isinstance(operation, OpenSession):
                outcomes.append(self._open_session(operation, plan))
            elif isinstance(operation, KeepAlive):
                outcomes.append(self._keep_alive(operation, plan))
            elif isinstance(operation, EndSession):
                self._end([operation.session_id], plan)
                outcomes.append(None)
            else:
                self._expire(plan)
                outcomes.append(None)
        if plan.revision > start:
            self._write(plan)
            excess = plan.revision - self._config.retained_revisions - compacted
            if excess > self._config.retained_revisions // 10:
                self._trim(compacted + excess)
        return outcomes, plan.revision > start

    def _read(self, operations: list[Operation]) -> tuple[_Plan, int]:
        """The state that the operations depend on, in one statement."""
        keys: dict[str, None] = {}
        sessions: dict[int, None] = {}
        for operation in operations:
            if isinstance(operation, Txn):
                keys.update((compare.key, None) for compare in operation.compares)
                for change in operation.changes:
                    if isinstance(change, Delete):
                        keys[change.key] = None
                    elif change.session_id:
                        sessions[change.session_id] = None
            elif isinstance(operation, KeepAlive):
                sessions[operation.session_id] = None
        rows = self._execute(
            "SELECT 0, '', revision, compacted_revision FROM meta"
            " UNION ALL SELECT 1, key, mod_revision, 0 FROM kv WHERE key IN (SELECT value FROM json_each(?))"
            " UNION ALL SELECT 2, '', session_id, 0 FROM sessions"
            " WHERE session_id IN (SELECT value FROM json_each(?)) AND deadline_ms > ? AND boot_id = ?",
            (
                json.dumps(list(keys)),
                json.dumps(list(sessions)),
                self._config.monotonic_ms(),
                self._config.boot_id,
            ),
        ).fetchall()
        revision, compacted = next((row[2], row[3]) for row in rows if row[0] == 0)
        mod_revisions = {row[1]: row[2] for row in rows if row[0] == 1}
        return _Plan(revision, mod_revisions, {row[2]: True for row in rows if row[0] == 2}), compacted

    def _open_session(self, operation: OpenSession, plan: _Plan) -> int:
        deadline = self._config.monotonic_ms() + operation.ttl_ms
        cursor = self._execute(
            "INSERT INTO sessions (ttl_ms, deadline_ms, boot_id) VALUES (?, ?, ?)",
            (operation.ttl_ms, deadline, self._config.boot_id),
        )
        assert cursor.lastrowid is not None
        plan.live_sessions[cursor.lastrowid] = True
        return cursor.lastrowid

    def _keep_alive(self, operation: KeepAlive, plan: _Plan) -> SessionLost | None:
        if not plan.live_sessions.get(operation.session_id):
            return SessionLost(f"session {operation.session_id} has expired")
        self._execute(
            "UPDATE sessions SET deadline_ms = ? + ttl_ms WHERE session_id = ?",
            (self._config.monotonic_ms(), operation.session_id),
        )
        return None

    def _expire(self, plan: _Plan) -> None:
        rows = self._execute(
            "SELECT session_id FROM sessions WHERE deadline_ms <= ? OR boot_id != ? ORDER BY session_id",
            (self._config.monotonic_ms(), self._config.boot_id),
        ).fetchall()
        for (session_id,) in rows:
            self._end([session_id], plan)

    def _end(self, session_ids: list[int], plan: _Plan) -> None:
        """Delete the sessions and their keys, those keys in one revision."""
        for session_id in session_ids:
            plan.live_sessions[session_id] = False
        marks = ",".join("?" * len(session_ids))
        stored = self._execute(f"SELECT key FROM kv WHERE session_id IN ({marks})", session_ids).fetchall()
        self._execute(f"DELETE FROM sessions WHERE session_id IN ({marks})", session_ids)
        # What this group has put or deleted so far is not in the table yet.
        bound = {key: None for (key,) in stored if key not in plan.values}
        bound.update(
            (key, None) for key, row in plan.values.items() if row is not None and row[2] in session_ids
        )
        if not bound:
            return
        plan.revision += 1
        for position, key in enumerate(sorted(bound)):
            plan.delete(position, key)

    def _write(self, plan: _Plan) -> None:
        puts = [(key, *row) for key, row in plan.values.items() if row is not None]
        deletes = [key for key, row in plan.values.items() if row is None]
        if deletes:
            self._execute(
                "DELETE FROM kv WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(deletes),)
            )
        self._insert("INSERT OR REPLACE INTO kv VALUES", puts)
        self._insert("INSERT INTO events VALUES", plan.events)
        self._execute("UPDATE meta SET revision = ?", (plan.revision,))

    def _insert(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Rows of four columns, in as few statements as may be."""
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            chunk = rows[start : start + ROWS_PER_STATEMENT]
            places = ",".join(["(?,?,?,?)"] * len(chunk))
            self._execute(f"{statement} {places}", [value for row in chunk for value in row])

    def _trim(self, upto: int) -> None:
        """Compact: a watch that wants events up to `upto` must list anew."""
        self._execute("DELETE FROM events WHERE revision <= ?", (upto,))
        self._execute("UPDATE meta SET compacted_revision = ?", (upto,))

    def _checkpoint(self) -> None:
        """Copy the write-ahead log into the file while the write lock keeps every other writer out.

        SQLite before 3.51.3 can lose committed pages when a commit resets the log while another connection
        checkpoints (its "WAL-reset bug"); automatic checkpoints are therefore off, and no commit meets one.
        """
        assert self._checkpointer is not None
        self._checkpointed_at = self.commits
        try:
            patiently(lambda: self._execute("BEGIN IMMEDIATE"), self._config.busy_ms)
            try:
                self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                self._execute("ROLLBACK")
        except sqlite3.Error as error:
            if not is_transient(error):
                self._fail(error)
