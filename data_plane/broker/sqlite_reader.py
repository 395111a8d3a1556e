"""The one thread of a process that reads the embedded metadata store: listings, watches, expired deadlines.

It never needs the write lock, so a writer that is stopped in the middle holds up no reader. When a commit is
announced (`sqlite_notices`), and now and then besides, it asks `PRAGMA data_version`, which tells whether any
other connection has committed, and only then reads.
"""

import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data_plane.broker.sqlite_notices import CommitNotices
from data_plane.broker.sqlite_schema import (
    StoreFault,
    connect,
    describe,
    is_transient,
    lacks_space,
    patiently,
)
from data_plane.metadata.port import Compacted, Event, KeyValue, RangeResult, StoreUnavailable, WatchBatch

REVISIONS_PER_PULL = 500
"""Read for one watch at a time, so that a long history neither fills memory nor keeps others waiting."""
PENDING_REVISIONS_MAX = 2_000
"""A watch whose reader is slower gets no more until it has caught up; in the end it is `Compacted`."""
UNANNOUNCED_MS = 50.0
"""Between two looks while commits are announced. So soon a commit is seen whose process was killed right after it."""
_NEVER = 2**62


class WatchState:
    """One watch, shared by two threads: the reader moves `cursor` and `delivered`, the loop `consumed`."""

    def __init__(self, prefix: str, after_revision: int) -> None:
        self.prefix = prefix
        self.cursor = after_revision
        self.delivered = 0
        self.consumed = 0

    def deliver(self, news: list[WatchBatch] | Exception) -> None:
        """Called on the reader's thread; an exception is the last thing delivered."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    prefix: str
    answer: Callable[[RangeResult | Exception], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderConfig:
    path: Path
    monotonic_ms: Callable[[], int]
    boot_id: str
    busy_ms: int
    poll_ms: float
    """Between two looks while commits cannot be announced."""


class Reader:
    """Owns the reading connection; `list` and `watch` are safe from any thread and never block."""

    def __init__(
        self,
        config: ReaderConfig,
        notices: CommitNotices,
        *,
        expired: Callable[[], None],
        failed: Callable[[StoreFault], None],
    ) -> None:
        """`expired` (a session's deadline has passed) and `failed` are called on the reader's thread."""
        self._config = config
        self._notices = notices
        self._expired = expired
        self._failed = failed
        self._queue: queue.SimpleQueue[Listing | weakref.ref[WatchState] | None] = queue.SimpleQueue()
        self._watches: list[weakref.ref[WatchState]] = []
        self._revision = 0
        self._compacted = 0
        self._data_version = -1
        self._deadline_ms = _NEVER
        self._closing = False
        self._fault: StoreFault | None = None
        self._connection: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._run, name="metadata-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def watching(self) -> int:
        """Watches that are open, as of the last look."""
        return len(self._watches)

    def list(self, prefix: str, answer: Callable[[RangeResult | Exception], None]) -> None:
        self._ask(Listing(prefix, answer))

    def watch(self, state: WatchState) -> None:
        """A weak reference: a watch without a reader ends by itself."""
        self._ask(weakref.ref(state))

    def close(self) -> None:
        self._closing = True
        self._ask(None)

    def join(self) -> None:
        self._thread.join()

    def _ask(self, item: "Listing | weakref.ref[WatchState] | None") -> None:
        self._queue.put(item)
        self._notices.wake()

    # -- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._connection = connect(self._config.path)
            while not self._closing:
                self._tick()
        except Exception as error:
            detail = describe(error) if isinstance(error, sqlite3.Error) else repr(error)
            self._fault = StoreFault(f"metadata store {self._config.path} cannot be read: {detail}")
            self._failed(self._fault)
        self._refuse()
        if self._connection is not None:
            self._connection.close()

    def _refuse(self) -> None:
        """Answer every caller until the store closes: after a failure no caller may wait without an end."""
        reason = StoreUnavailable("the store is closed" if self._fault is None else str(self._fault))
        while True:
            for reference in self._watches:
                if (state := reference()) is not None:
                    state.deliver(reason)
            self._watches = []
            if self._closing and self._queue.empty():
                return
            item = self._queue.get()
            if isinstance(item, Listing):
                item.answer(reason)
            elif item is not None:
                self._watches.append(item)

    def _tick(self) -> None:
        """Wait for a request, a commit or the next look; serve it; look for news and for deadlines."""
        look_ms = UNANNOUNCED_MS if self._notices.hears else self._config.poll_ms
        self._notices.wait(min(look_ms, self._deadline_ms - self._config.monotonic_ms()))
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, Listing):
                self._list(item)
            elif item is not None:
                self._watches.append(item)
        try:
            patiently(self._look, self._config.busy_ms)
        except sqlite3.Error as error:
            if not is_transient(error) and not lacks_space(error):
                raise
        if self._config.monotonic_ms() >= self._deadline_ms:
            # Known again from the next change on; ask once more in a while should that change never come.
            self._deadline_ms = self._config.monotonic_ms() + 100
            self._expired()

    def _look(self) -> None:
        assert self._connection is not None
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._revision, self._compacted, self._deadline_ms = self._connection.execute(
                "SELECT revision, compacted_revision,"
                " (SELECT ifnull(min(iif(boot_id = ?, deadline_ms, 0)), ?) FROM sessions) FROM meta",
                (self._config.boot_id, _NEVER),
            ).fetchone()
            self._data_version = version
        alive = []
        for reference in self._watches:
            state = reference()
            if state is not None and self._pull(state):
                alive.append(reference)
        self._watches = alive

    def _pull(self, state: WatchState) -> bool:
        """Deliver what is new to a watch; False when it has ended.

        The revision was read before the events, so all events up to it are there unless they were compacted
        in between, which the second look at `compacted_revision`, in the statement that reads them, shows.
        """
        assert self._connection is not None
        while state.cursor < self._revision and state.delivered - state.consumed < PENDING_REVISIONS_MAX:
            upto = min(self._revision, state.cursor + REVISIONS_PER_PULL)
            rows = self._connection.execute(
                "SELECT 0, compacted_revision, 0, '', NULL FROM meta"
                " UNION ALL SELECT 1, revision, position, key, value FROM events"
                " WHERE revision > ? AND revision <= ? AND key >= ? AND key < ?",
                (state.cursor, upto, state.prefix, _after(state.prefix)),
            ).fetchall()
            self._compacted = next(row[1] for row in rows if row[0] == 0)
            if self._compacted > state.cursor:
                break
            batches = _batches([row for row in rows if row[0] == 1])
            state.delivered += len(batches)
            state.cursor = upto
            if batches:
                state.deliver(batches)
        if state.cursor < self._compacted:
            state.deliver(
                Compacted(f"events after revision {state.cursor} are compacted to {self._compacted}")
            )
            return False
        return True

    def _list(self, listing: Listing) -> None:
        try:
            listing.answer(patiently(lambda: self._range(listing.prefix), self._config.busy_ms))
        except sqlite3.Error as error:
            listing.answer(StoreUnavailable(f"metadata store {self._config.path}: {describe(error)}"))
            if not is_transient(error) and not lacks_space(error):
                raise

    def _range(self, prefix: str) -> RangeResult:
        """One statement is one snapshot."""
        assert self._connection is not None
        rows = self._connection.execute(
            "SELECT 0, '', NULL, revision, 0 FROM meta"
            " UNION ALL SELECT 1, key, value, mod_revision, session_id FROM kv WHERE key >= ? AND key < ?",
            (prefix, _after(prefix)),
        ).fetchall()
        revision = next(row[3] for row in rows if row[0] == 0)
        items = sorted((KeyValue(*row[1:]) for row in rows if row[0] == 1), key=lambda item: item.key)
        return RangeResult(revision, tuple(items))


def _after(prefix: str) -> str:
    """A string above every key with the prefix. Keys hold no U+10FFFF."""
    return prefix + "\U0010ffff"


def _batches(rows: list[tuple[int, int, int, str, bytes | None]]) -> list[WatchBatch]:
    """One batch a revision, in order."""
    found: dict[int, list[Event]] = {}
    for _, revision, _, key, value in sorted(rows, key=lambda row: row[1:3]):
        found.setdefault(revision, []).append(Event(key, value, revision))
    return [WatchBatch(revision, tuple(events)) for revision, events in found.items()]
