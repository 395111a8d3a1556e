"""Deciding a group of operations from one snapshot of the embedded metadata store, and the one statement that
commits it.

A group reads what it depends on without any lock, decides, and hands SQLite all its effects in one statement
that first checks that nothing has moved meanwhile; if something has, the group begins again. The write lock
is thus held for the time of one call that needs no interpreter, not for several round trips through it: a
process that is stopped while it holds the lock holds up the writers of all others.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from data_plane.metadata.port import Change, Compare, Delete, Put, SessionLost, TxnResult

CHANGES_PER_TXN_MAX = 2_000
"""With a group's other changes far below SQLite's 32,766 parameters, six a change."""


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


class _Effect(IntEnum):
    """Kinds of rows that the committing statement inserts into the view `effect`; `_TRIGGERS` says what each
    does."""

    CHECK_REVISION = 0
    CHECK_LIVE = 1
    CHECK_EXPIRED = 2
    PUT = 3
    DELETE = 4
    REVISION = 5
    OPEN_SESSION = 6
    KEEP_ALIVE = 7
    END_SESSION = 8
    TRIM = 9


_Row = tuple[int, str, bytes | None, int, int, int]
"""(kind, key, value, a, b, c)"""

_TRIGGERS = {
    _Effect.CHECK_REVISION: """
        SELECT RAISE(ABORT, 'moved') WHERE (SELECT revision FROM meta) != NEW.a;""",
    _Effect.CHECK_LIVE: """
        SELECT RAISE(ABORT, 'moved') WHERE NOT EXISTS
            (SELECT 1 FROM sessions WHERE session_id = NEW.a AND deadline_ms > NEW.b AND boot_id =
            NEW.key);""",
    _Effect.CHECK_EXPIRED: """
        SELECT RAISE(ABORT, 'moved') WHERE EXISTS
            (SELECT 1 FROM sessions WHERE session_id = NEW.a AND deadline_ms > NEW.b AND boot_id =
            NEW.key);""",
    _Effect.PUT: """
        INSERT OR REPLACE INTO kv VALUES (NEW.key, NEW.value, NEW.a, NEW.c);
        INSERT INTO events VALUES (NEW.a, NEW.b, NEW.key, NEW.value);""",
    _Effect.DELETE: """
        DELETE FROM kv WHERE key = NEW.key;
        INSERT INTO events VALUES (NEW.a, NEW.b, NEW.key, NULL);""",
    _Effect.REVISION: "UPDATE meta SET revision = NEW.a;",
    _Effect.OPEN_SESSION: "INSERT INTO sessions VALUES (NEW.a, NEW.b, NEW.c, NEW.key);",
    _Effect.KEEP_ALIVE: "UPDATE sessions SET deadline_ms = NEW.b + ttl_ms WHERE session_id = NEW.a;",
    _Effect.END_SESSION: "DELETE FROM sessions WHERE session_id = NEW.a;",
    _Effect.TRIM: """
        DELETE FROM events WHERE revision <= NEW.a;
        UPDATE meta SET compacted_revision = NEW.a;""",
}

_READ = """
    WITH expired(session_id) AS (
        SELECT session_id FROM sessions WHERE :expire AND (deadline_ms <= :now_ms OR boot_id != :boot_id))
    SELECT revision, compacted_revision,
        ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'sessions'), 0),
        (SELECT json_group_object(key, mod_revision) FROM kv WHERE key IN (SELECT value FROM
        json_each(:keys))), (SELECT json_group_array(session_id) FROM sessions WHERE session_id IN (SELECT
        value FROM json_each(:sessions))
            AND deadline_ms > :now_ms AND boot_id = :boot_id),
        (SELECT json_group_array(session_id) FROM expired),
        (SELECT json_group_object(key, session_id) FROM kv WHERE session_id != 0 AND session_id IN
            (SELECT value FROM json_each(:ending) UNION SELECT session_id FROM expired))
    FROM meta"""
"""All that a group depends on, in one row of one snapshot."""


def install_effects(connection: sqlite3.Connection) -> None:
    """Give this connection the view that carries out effects. Nothing of it is in the file."""
    connection.execute("CREATE TEMP VIEW effect (kind, key, value, a, b, c) AS SELECT 0, '', x'', 0, 0, 0")
    for kind, body in _TRIGGERS.items():
        connection.execute(
            f"CREATE TEMP TRIGGER effect_{kind.name.lower()} INSTEAD OF INSERT ON effect"
            f" WHEN NEW.kind = {kind:d} BEGIN {body} END"
        )


def has_moved(error: sqlite3.Error) -> bool:
    """Whether a commit failed because its snapshot was no longer the newest: read and decide again."""
    return getattr(error, "sqlite_errorcode", None) in (
        sqlite3.SQLITE_CONSTRAINT_TRIGGER,
        sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,  # another process has just given this session id
        sqlite3.SQLITE_CONSTRAINT_ROWID,
    )


@dataclass(slots=True, kw_only=True)
class Plan:
    """A group's decisions and effects. `decide` each operation in order, then `commit`."""

    start_revision: int
    compacted_revision: int
    last_session_id: int
    mod_revisions: dict[str, int]
    """Of the keys that are compared or deleted; 0 or missing = the key does not exist."""
    live_sessions: dict[int, None]
    expired_sessions: list[int]
    bound: dict[str, int]
    """Keys to their session: those of the sessions that this group ends, and those that it binds."""
    now_ms: int
    boot_id: str
    revision: int
    demands: list[_Row] = field(default_factory=list)
    effects: list[_Row] = field(default_factory=list)

    @classmethod
    def read(
        cls, connection: sqlite3.Connection, operations: Sequence[Operation], *, now_ms: int, boot_id: str
    ) -> "Plan":
        """Take the snapshot that these operations need. Raises `sqlite3.Error`."""
        keys: dict[str, None] = {}
        sessions: dict[int, None] = {}
        ending: list[int] = []
        expire = False
        for operation in operations:
            if isinstance(operation, Txn):
                keys.update((compare.key, None) for compare in operation.compares)
                keys.update((change.key, None) for change in operation.changes if isinstance(change, Delete))
                sessions.update((c.session_id, None) for c in operation.changes if isinstance(c, Put))
            elif isinstance(operation, KeepAlive):
                sessions[operation.session_id] = None
            elif isinstance(operation, EndSession):
                ending.append(operation.session_id)
            elif isinstance(operation, ExpireSessions):
                expire = True
        asked = {
            "keys": json.dumps(list(keys)), "sessions": json.dumps(list(sessions)), "ending": json.dumps(ending),
            "expire": expire, "now_ms": now_ms, "boot_id": boot_id,
        }  # fmt: skip
        revision, compacted, last_session, revisions, live, expired, bound = connection.execute(
            _READ, asked
        ).fetchone()
        return cls(
            start_revision=revision,
            compacted_revision=compacted,
            last_session_id=last_session,
            mod_revisions=json.loads(revisions),
            live_sessions=dict.fromkeys(json.loads(live)),
            expired_sessions=sorted(json.loads(expired)),
            bound=json.loads(bound),
            now_ms=now_ms,
            boot_id=boot_id,
            revision=revision,
        )

    def decide(self, operation: Operation) -> Outcome:
        """The outcome that this operation has once the plan is committed."""
        if isinstance(operation, Txn):
            return self._transact(operation)
        if isinstance(operation, OpenSession):
            self.last_session_id += 1
            deadline_ms = self.now_ms + operation.ttl_ms
            self._effect(
                _Effect.OPEN_SESSION, self.boot_id, a=self.last_session_id, b=operation.ttl_ms, c=deadline_ms
            )
            return self.last_session_id
        if isinstance(operation, KeepAlive):
            if operation.session_id not in self.live_sessions:
                return SessionLost(f"session {operation.session_id} has expired")
            self._check_live(operation.session_id)
            self._effect(_Effect.KEEP_ALIVE, a=operation.session_id, b=self.now_ms)
        elif isinstance(operation, EndSession):
            self._end(operation.session_id)
        else:
            for session_id in self.expired_sessions:
                self._check(_Effect.CHECK_EXPIRED, self.boot_id, session_id, self.now_ms)
                self._end(session_id)
        return None

    def trim(self, retained_revisions: int) -> None:
        """Compact away what is older than that many revisions, now and then."""
        upto = self.revision - retained_revisions
        if upto - self.compacted_revision > retained_revisions // 10:
            self._effect(_Effect.TRIM, a=upto)

    @property
    def changes_keys(self) -> bool:
        return self.revision > self.start_revision

    def commit(self, connection: sqlite3.Connection) -> bool:
        """Carry out all effects at once, durably; False when there are none. Raises `sqlite3.Error`, see
        `has_moved`."""
        if not self.effects:
            return False
        if self.changes_keys:
            self._effect(_Effect.REVISION, a=self.revision)
        rows = [*self.demands, *self.effects]
        places = ",".join(["(?,?,?,?,?,?)"] * len(rows))
        connection.execute(f"INSERT INTO effect VALUES {places}", [value for row in rows for value in row])
        return True

    def _transact(self, txn: Txn) -> TxnResult | SessionLost:
        if any(self.mod_revisions.get(compare.key, 0) != compare.mod_revision for compare in txn.compares):
            return TxnResult(False, self.revision)
        for change in txn.changes:
            if isinstance(change, Put) and change.session_id and change.session_id not in self.live_sessions:
                return SessionLost(f"session {change.session_id} has ended")
        effective = [c for c in txn.changes if isinstance(c, Put) or self.mod_revisions.get(c.key, 0)]
        if not effective:
            return TxnResult(True, self.revision)
        self._next_revision()
        for position, change in enumerate(effective):
            if isinstance(change, Delete):
                self._delete(position, change.key)
                continue
            if change.session_id:
                self._check_live(change.session_id)
            self.mod_revisions[change.key] = self.revision
            self.bound[change.key] = change.session_id
            self._effect(
                _Effect.PUT, change.key, change.value, a=self.revision, b=position, c=change.session_id
            )
        return TxnResult(True, self.revision)

    def _end(self, session_id: int) -> None:
        """Delete a session, and its keys in one revision."""
        self.live_sessions.pop(session_id, None)
        self._effect(_Effect.END_SESSION, a=session_id)
        keys = sorted(key for key, bound_to in self.bound.items() if bound_to == session_id)
        if keys:
            self._next_revision()
            for position, key in enumerate(keys):
                self._delete(position, key)
        else:
            self._check_revision()  # that it has no keys was true at this revision

    def _delete(self, position: int, key: str) -> None:
        self.mod_revisions[key] = 0
        self.bound.pop(key, None)
        self._effect(_Effect.DELETE, key, a=self.revision, b=position)

    def _next_revision(self) -> None:
        self._check_revision()
        self.revision += 1

    def _check_revision(self) -> None:
        self._check(_Effect.CHECK_REVISION, "", self.start_revision, 0)

    def _check_live(self, session_id: int) -> None:
        self._check(_Effect.CHECK_LIVE, self.boot_id, session_id, self.now_ms)

    def _check(self, kind: _Effect, key: str, a: int, b: int) -> None:
        row: _Row = (kind, key, None, a, b, 0)
        if row not in self.demands:
            self.demands.append(row)

    def _effect(
        self, kind: _Effect, key: str = "", value: bytes | None = None, *, a: int = 0, b: int = 0, c: int = 0
    ) -> None:
        self.effects.append((kind, key, value, a, b, c))
