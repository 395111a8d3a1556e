"""MetaStore over one SQLite file that all broker processes of a machine open: the embedded metadata store.

Commits are made by `sqlite_writer` and seen by `sqlite_reader`, a thread each; this module is their face on
the event loop. Broker epochs and fencing compare revisions, exactly as with any other store; the clock only
starts an expiry.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from data_plane.broker import sqlite_schema
from data_plane.broker.sqlite_group import (
    CHANGES_PER_TXN_MAX,
    EndSession,
    ExpireSessions,
    KeepAlive,
    OpenSession,
    Operation,
    Outcome,
    Txn,
)
from data_plane.broker.sqlite_notices import CommitNotices
from data_plane.broker.sqlite_reader import Reader, ReaderConfig, WatchState
from data_plane.broker.sqlite_schema import StoreFault
from data_plane.broker.sqlite_writer import Answer, Writer, WriterConfig
from data_plane.metadata.port import (
    Change,
    Compare,
    RangeResult,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)
from data_plane.metadata.watch_queue import WatchQueue
from penstock.contract.invariant import invariant

BUSY_MS = 2_000
"""How long an operation waits for another process's commit (0.2 ms, unless that process is stopped in it)."""
POLL_MS = 5.0
"""Between two looks of a process that hears nothing of the others' commits."""
RETAINED_REVISIONS = 10_000
"""A broker that was away for longer lists everything again."""
SESSION_TTL_MS_MIN = 100

__all__ = ["SqliteStore", "StoreFault"]


def machine_monotonic_ms() -> int:
    """One clock for all processes of the machine, until its next boot."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


class SqliteStore:
    """See `data_plane.metadata.port.MetaStore`. Belongs to the loop on which it was opened."""

    def __init__(
        self,
        path: Path,
        *,
        poll_ms: float,
        busy_ms: int,
        retained_revisions: int,
        monotonic_ms: Callable[[], int],
        boot_id: str,
    ) -> None:
        """Use `open`."""
        self.path = path
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._fault: asyncio.Future[StoreFault] = self._loop.create_future()
        self._notices = CommitNotices(path)
        self._writer = Writer(
            WriterConfig(
                path=path,
                monotonic_ms=monotonic_ms,
                boot_id=boot_id,
                busy_ms=busy_ms,
                retained_revisions=retained_revisions,
            ),
            deliver=self._deliver,
            committed=self._notices.announce,
            failed=self._failed,
        )
        self._reader = Reader(
            ReaderConfig(
                path=path, monotonic_ms=monotonic_ms, boot_id=boot_id, busy_ms=busy_ms, poll_ms=poll_ms
            ),
            self._notices,
            expired=lambda: self._writer.submit(ExpireSessions(), _ignore),
            failed=self._failed,
        )
        self._writer.start()
        self._reader.start()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        poll_ms: float = POLL_MS,
        busy_ms: int = BUSY_MS,
        retained_revisions: int = RETAINED_REVISIONS,
        monotonic_ms: Callable[[], int] = machine_monotonic_ms,
        boot_id: str = "",
    ) -> "SqliteStore":
        """Create or check the file, then open it. Raises `StoreFault` when it cannot be used."""
        await asyncio.to_thread(sqlite_schema.prepare, path)
        return cls(
            path,
            poll_ms=poll_ms,
            busy_ms=busy_ms,
            retained_revisions=retained_revisions,
            monotonic_ms=monotonic_ms,
            boot_id=boot_id or sqlite_schema.boot_id(),
        )

    @property
    def commits(self) -> int:
        """Commits this process has made."""
        return self._writer.commits

    @property
    def watching(self) -> int:
        """Watches this process has open."""
        return self._reader.watching

    async def failed(self) -> StoreFault:
        """Wait until the file fails (a sync or a read that failed, damage). The process must then stop
        (RL126)."""
        return await asyncio.shield(self._fault)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        keys = {change.key for change in changes}
        invariant(len(keys) == len(changes), "a key stands in at most one change of a transaction")
        invariant(
            len(changes) <= CHANGES_PER_TXN_MAX, f"a transaction has at most {CHANGES_PER_TXN_MAX} changes"
        )
        outcome = await self._submit(Txn(tuple(compares), tuple(changes)))
        assert isinstance(outcome, TxnResult)
        return outcome

    async def range(self, prefix: str) -> RangeResult:
        self._check_open()
        future: asyncio.Future[RangeResult] = self._loop.create_future()

        def answer(found: RangeResult | Exception) -> None:
            self._on_loop(_complete, future, found)

        self._reader.list(prefix, answer)
        return await future

    def watch(self, prefix: str, after_revision: int) -> "_Watch":
        watch = _Watch(prefix, after_revision, self._on_loop)
        if self._closed:
            watch.deliver(StoreUnavailable("the store is closed"))
        else:
            self._reader.watch(watch)
        return watch

    async def session(self, ttl_ms: int) -> "_Session":
        invariant(
            ttl_ms >= SESSION_TTL_MS_MIN, f"a session lives at least {SESSION_TTL_MS_MIN} ms, not {ttl_ms}"
        )
        session_id = await self._submit(OpenSession(ttl_ms))
        assert isinstance(session_id, int)
        return _Session(self, session_id)

    async def close(self) -> None:
        """Refuse what has not begun, end both threads. Sessions are left to expire unless ended before."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        await asyncio.to_thread(self._writer.join)
        self._reader.close()
        await asyncio.to_thread(self._reader.join)
        self._notices.close()

    # -- between the threads and the loop --------------------------------------------------------------------

    async def _submit(self, operation: Operation) -> Outcome:
        self._check_open()
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._writer.submit(operation, lambda outcome: _complete(future, outcome))
        return await future

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _deliver(self, outcomes: list[tuple[Answer, Outcome]]) -> None:
        self._on_loop(_answer_all, outcomes)

    def _failed(self, fault: StoreFault) -> None:
        self._on_loop(lambda: None if self._fault.done() else self._fault.set_result(fault))

    def _on_loop(self, action: Callable[..., None], *values: object) -> None:
        """Run on the loop; when the loop is gone no caller is left."""
        try:
            self._loop.call_soon_threadsafe(action, *values)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


class _Session:
    def __init__(self, store: SqliteStore, session_id: int) -> None:
        self._store = store
        self._session_id = session_id

    @property
    def session_id(self) -> int:
        return self._session_id

    async def keep_alive(self) -> None:
        await self._store._submit(KeepAlive(self._session_id))

    async def end(self) -> None:
        await self._store._submit(EndSession(self._session_id))


class _Watch(WatchState):
    """An endless async iterator; after it has raised it is over."""

    def __init__(self, prefix: str, after_revision: int, on_loop: Callable[..., None]) -> None:
        super().__init__(prefix, after_revision)
        self._on_loop = on_loop
        self._read = WatchQueue()

    def deliver(self, news: list[WatchBatch] | Exception) -> None:
        self._on_loop(self._take, news)

    def _take(self, news: list[WatchBatch] | Exception) -> None:
        if isinstance(news, Exception):
            self._read.fail(news)
            return
        for batch in news:
            self._read.put(batch)

    def __aiter__(self) -> "_Watch":
        return self

    async def __anext__(self) -> WatchBatch:
        batch = await self._read.next()
        self.consumed += 1
        return batch


def _complete(future: "asyncio.Future[RangeResult] | asyncio.Future[Outcome]", outcome: object) -> None:
    if future.done():
        return  # the caller was cancelled; what it asked for stands (RL19)
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)  # type: ignore[arg-type]


def _answer_all(outcomes: list[tuple[Answer, Outcome]]) -> None:
    for answer, outcome in outcomes:
        answer(outcome)


def _ignore(_outcome: Outcome) -> None:
    """The next look for expired sessions tries an expiry that failed again."""
