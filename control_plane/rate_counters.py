"""Counts for rate limits, shared by all web processes: in Redis where the service has one, else in a file.

Events are counted in windows, and what costs more or less as time that a limit needs to make up for it.

A count begins with its first event and is deleted when its time window ends. It has no value after that, so the file
is never synced and the service's database is not used. Each process remembers the names that are over their limit until
their windows end: however many requests are refused, a process writes a count at most `most` + 1 times. While the
shared store cannot be reached each process counts for itself: the limit then holds per process, and no caller is
refused because of the store.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import redis

from control_plane import config
from daemon import server_tls
from daemon.server_tls import ServerTls

FILE = "rate-counters.sqlite"
STORE_TIMEOUT_S = 0.5
APART_S = 5.0
"""How long a process counts for itself after the shared store failed."""
LATE_S = 10.0
"""Bound on the time between a process's look at the clock and its count, and on a clock that is set back."""
REMEMBERED_MAX = 10_000
"""Names that a process remembers itself; beyond it the ones that end first are removed."""
PRUNED_EVERY_S = 30.0
_POLL_S = 0.001
_PREFIX = "penstock-rate:"
_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

_REDIS_COUNT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {count, redis.call('PTTL', KEYS[1])}
"""
_REDIS_TAKE = """
local ahead = math.max(0, redis.call('PTTL', KEYS[1])) + tonumber(ARGV[1])
ahead = math.min(ahead, tonumber(ARGV[2]))
if ahead >= 1 then redis.call('SET', KEYS[1], 0, 'PX', math.floor(ahead)) end
return math.floor(ahead)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """`allowed`: whether this event is within the limit. `left_s`: seconds until a new count begins."""

    allowed: bool
    left_s: float


class Store(Protocol):
    """Counts one more event of `name`. Returns (events since its count began, seconds until the count ends)."""

    def count(self, name: str, window_s: float) -> tuple[int, float]: ...

    def counted(self, name: str) -> int:
        """Events of `name` in its present window; counts none."""
        ...

    def take(self, name: str, seconds: float, most_s: float) -> float:
        """`name` is ahead by `seconds` more, at most `most_s`, and by one less each second. Returns by how many now."""
        ...

    def forget_all(self) -> None: ...


class Unreachable(Exception):
    """The shared store did not answer."""


class OwnStore:
    """Counts of this process alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, float]] = {}

    def count(self, name: str, window_s: float) -> tuple[int, float]:
        now = self._clock()
        with self._lock:
            events, until = self._counts.get(name, (0, 0.0))
            if until <= now:
                self._counts.pop(name, None)
                events, until = 0, now + window_s
            self._counts[name] = (events + 1, until)
            if len(self._counts) > REMEMBERED_MAX:
                self._forget_early(now)
        return events + 1, until - now

    def counted(self, name: str) -> int:
        with self._lock:
            events, until = self._counts.get(name, (0, 0.0))
            return events if until > self._clock() else 0

    def take(self, name: str, seconds: float, most_s: float) -> float:
        now = self._clock()
        with self._lock:
            until = max(now, self._counts.get(name, (0, 0.0))[1])
            until = min(until + seconds, now + most_s)
            self._counts[name] = (0, until)
            if len(self._counts) > REMEMBERED_MAX:
                self._forget_early(now)
        return until - now

    def ends_in(self, name: str) -> float:
        """Seconds until the count of `name` ends; 0 or less when there is none."""
        with self._lock:
            return self._counts.get(name, (0, 0.0))[1] - self._clock()

    def note_over(self, name: str, left_s: float) -> None:
        """Remember that `name` is over its limit for `left_s`."""
        now = self._clock()
        with self._lock:
            self._counts[name] = (1, now + left_s)
            if len(self._counts) > REMEMBERED_MAX:
                self._forget_early(now)

    def forget_all(self) -> None:
        with self._lock:
            self._counts.clear()

    def _forget_early(self, now: float) -> None:
        """Remove what has ended, and at least the half that ends first."""
        ordered = sorted(self._counts.items(), key=lambda item: item[1][1])
        kept = [item for item in ordered if item[1][1] > now][-REMEMBERED_MAX // 2 :]
        self._counts = dict(kept)


class FileStore:
    """Counts of all processes of one machine, in their own SQLite file that is never synced.

    A process has one connection, for which its threads queue up: where each has its own, SQLite lets the second one
    sleep for up to 100 ms before it looks again, and among many threads some come too late every time. Processes look
    again each millisecond.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._clock = clock
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pruned_at = 0.0

    def count(self, name: str, window_s: float) -> tuple[int, float]:
        now = self._clock()
        # A count that ends later than one that begins now is of a clock that was set back: it starts again. Not so
        # by a little: another process may have begun it since this one looked at the clock.
        (row,) = self._execute(
            "INSERT INTO counts (name, events, until) VALUES (:name, 1, :end) "
            "ON CONFLICT (name) DO UPDATE SET "
            "events = CASE WHEN until <= :now OR until > :latest THEN 1 ELSE events + 1 END, "
            "until = CASE WHEN until <= :now OR until > :latest THEN :end ELSE until END "
            "RETURNING events, until",
            {"name": name, "now": now, "end": now + window_s, "latest": now + window_s + LATE_S},
        )
        if now - self._pruned_at > PRUNED_EVERY_S:
            self._pruned_at = now
            self._execute("DELETE FROM counts WHERE until <= :now", {"now": now})
        return int(row[0]), float(row[1]) - now

    def take(self, name: str, seconds: float, most_s: float) -> float:
        now = self._clock()
        # Nothing is ahead by more than the most, also after a clock was set back.
        (row,) = self._execute(
            "INSERT INTO counts (name, events, until) VALUES (:name, 0, min(:now + :more, :most)) "
            "ON CONFLICT (name) DO UPDATE SET events = 0, until = min(max(until, :now) + :more, :most) "
            "RETURNING until",
            {"name": name, "now": now, "more": seconds, "most": now + most_s},
        )
        return float(row[0]) - now

    def counted(self, name: str) -> int:
        rows = self._execute(
            "SELECT events FROM counts WHERE name = :name AND until > :now",
            {"name": name, "now": self._clock()},
        )
        return int(rows[0][0]) if rows else 0

    def forget_all(self) -> None:
        self._execute("DELETE FROM counts", {})

    def _execute(self, statement: str, values: dict[str, str | float]) -> list[Any]:
        """Its rows; the statement is a transaction of its own. Raises `Unreachable`, within twice `STORE_TIMEOUT_S`."""
        if not self._turn.acquire(timeout=STORE_TIMEOUT_S):
            raise Unreachable(f"{self._file}: the threads before this one took {STORE_TIMEOUT_S} s")
        try:
            return _once_free(lambda: self._opened().execute(statement, values).fetchall())
        except sqlite3.Error as error:
            self._close()
            raise Unreachable(f"{self._file}: {error}") from error
        finally:
            self._turn.release()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            opened = sqlite3.connect(self._file, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                opened.execute("PRAGMA journal_mode = WAL").fetchall()
                opened.execute("PRAGMA synchronous = OFF")
                opened.execute(
                    "CREATE TABLE IF NOT EXISTS counts "
                    "(name TEXT PRIMARY KEY, events INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID"
                )
            except sqlite3.Error:
                opened.close()
                raise
            self._connection = opened
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _once_free(act: Callable[[], Answer]) -> Answer:
    """What `act` gives, again and again while another process has the file locked, for `STORE_TIMEOUT_S`."""
    until = time.monotonic() + STORE_TIMEOUT_S
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            # The extended codes of "busy" have it in their lowest byte.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_POLL_S)


class RedisStore:
    """Counts of all processes that share a Redis."""

    def __init__(self, url: str, tls: ServerTls | None = None) -> None:
        self._redis = redis.Redis.from_url(
            url,
            socket_timeout=STORE_TIMEOUT_S,
            socket_connect_timeout=STORE_TIMEOUT_S,
            **({} if tls is None else server_tls.of_redis(tls)),
        )
        self._count = self._redis.register_script(_REDIS_COUNT)
        self._take = self._redis.register_script(_REDIS_TAKE)

    def count(self, name: str, window_s: float) -> tuple[int, float]:
        try:
            events, left_ms = self._count(keys=[_PREFIX + name], args=[int(window_s * 1000)])
        except redis.RedisError as error:
            raise Unreachable(f"Redis: {error}") from error
        return int(events), max(0, int(left_ms)) / 1000

    def take(self, name: str, seconds: float, most_s: float) -> float:
        try:
            return int(self._take(keys=[_PREFIX + name], args=[seconds * 1000, int(most_s * 1000)])) / 1000
        except redis.RedisError as error:
            raise Unreachable(f"Redis: {error}") from error

    def counted(self, name: str) -> int:
        try:
            return int(self._redis.get(_PREFIX + name) or 0)
        except redis.RedisError as error:
            raise Unreachable(f"Redis: {error}") from error

    def forget_all(self) -> None:
        for name in self._redis.scan_iter(match=f"{_PREFIX}*", count=500):
            self._redis.delete(name)


class Counters:
    """Limits over a shared store, and over this process's own counts while the store cannot be reached."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._alone = OwnStore(clock)
        self._over = OwnStore(clock)
        self._apart_until = float("-inf")

    def spend(self, name: str, *, most: int, window_s: float) -> Spent:
        """Count one event of `name`; at most `most` are allowed within `window_s`."""
        left_s = self._over.ends_in(name)
        if left_s > 0:
            return Spent(allowed=False, left_s=left_s)
        events, left_s = self._ask(lambda store: store.count(name, window_s))
        if events <= most:
            return Spent(allowed=True, left_s=left_s)
        self._over.note_over(name, left_s)
        return Spent(allowed=False, left_s=left_s)

    def take(self, name: str, seconds: float, *, most_s: float) -> float:
        """`name` is ahead of its limit by `seconds` more, at most `most_s`, and by one less each second. Returns by how
        many it is ahead now: at least by what this process took itself, also when the shared store goes or comes back.
        """
        own_s = self._alone.take(name, seconds, most_s)
        return max(
            own_s,
            self._ask(lambda store: own_s if store is self._alone else store.take(name, seconds, most_s)),
        )

    def counted(self, name: str) -> int | None:
        """Events of `name` in its present window; None while the shared store cannot be reached."""
        if self._clock() < self._apart_until:
            return None
        try:
            return self._store.counted(name)
        except Unreachable:
            return None

    def forget_all(self) -> None:
        """Delete every count, in the shared store too."""
        self._over.forget_all()
        self._alone.forget_all()
        self._store.forget_all()

    def _ask(self, question: Callable[[Store], Answer]) -> Answer:
        """The shared store; this process's own counts while it cannot be reached."""
        if self._clock() >= self._apart_until:
            try:
                return question(self._store)
            except Unreachable as error:
                self._apart_until = self._clock() + APART_S
                _log.warning("each process counts rate limits for itself", extra={"error": str(error)})
        return question(self._alone)


@cache
def counters() -> Counters:
    """The counters of this process's service."""
    settings = config.current()
    if urlsplit(settings.celery_broker_url).scheme in (server_tls.REDIS, server_tls.REDIS_OVER_TLS):
        return Counters(RedisStore(settings.celery_broker_url, settings.redis_tls))
    return Counters(FileStore(settings.state_directory / FILE))
