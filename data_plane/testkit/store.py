"""The simulated MetaStore: one truth in memory, a client for each node, and faults on the way between them.

Everything happens on the running loop's clock and by the injected random source, so one seed fixes it. What
the store does by itself (arrivals, expiries, pushes) runs in the context in which the store was made, never
in a node's: pausing or crashing a node leaves its requests on their way.

    request --latency--> arrival (applied, or lost) --latency--> answer (or lost)

An isolated node can neither ask nor hear: its requests are refused, its answers are lost, its watches
break.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from data_plane.metadata.port import (
    Change,
    Compacted,
    Compare,
    Event,
    KeyValue,
    OutcomeUnknown,
    Put,
    RangeResult,
    SessionLost,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)
from data_plane.metadata.watch_queue import WatchQueue
from data_plane.testkit.store_faults import StoreFaultKind, StoreFaults
from penstock.contract.invariant import invariant


@dataclass(slots=True, eq=False)
class _SessionState:
    session_id: int
    ttl_ms: int
    timer: asyncio.TimerHandle


@dataclass(slots=True)
class _Request:
    """One request on its way. `apply` runs at the store; `unknown` is raised when the answer is lost."""

    node: str
    apply: Callable[[], object]
    unknown: type[Exception]
    answer: "asyncio.Future[object]" = field(repr=False)


class SimulatedStore:
    """The truth, and every client's way to it. Needs a running loop."""

    def __init__(self, rng: random.Random, faults: StoreFaults | None = None) -> None:
        self.faults = faults if faults is not None else StoreFaults()
        self.revision = 0
        self.compacted_revision = 0
        self.history: list[WatchBatch] = []
        self._set_aside: tuple[dict[str, KeyValue], list[WatchBatch], int] | None = None
        """Values, history and revision of what was true before the store went back."""
        """Every revision since the beginning, also those compacted away: what really happened, for
        checkers."""
        self.reached: dict[StoreFaultKind, int] = dict.fromkeys(StoreFaultKind, 0)
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._values: dict[str, KeyValue] = {}
        self._sessions: dict[int, _SessionState] = {}
        self._last_session_id = 0
        self._watches: list[SimulatedWatch] = []
        self._cut: dict[str, None] = {}

    # -- what the simulation does -----------------------------------------------------------------------

    def client(self, node: str) -> "SimulatedMetaStore":
        """The store as `node` reaches it. A restarted node gets a new one."""
        return SimulatedMetaStore(self, node)

    def cut(self, node: str) -> None:
        """From now on `node` cannot reach the store; its watches break when that is noticed."""
        self._cut[node] = None
        for watch in [w for w in self._watches if w.node == node]:
            watch.broken = True
            self._end_watch(watch, StoreUnavailable(f"{node} does not reach the store"), self._timeout_ms())

    def is_cut(self, node: str) -> bool:
        return node in self._cut

    def heal(self, node: str) -> None:
        self._cut.pop(node, None)

    def crashed(self, node: str) -> None:
        """This node's watches have no reader any more. Its requests still arrive, its sessions live out their
        time."""
        self._watches = [w for w in self._watches if w.node != node]

    def compact(self, upto_revision: int) -> None:
        """Forget events up to and with that revision. Watches that are open have seen them or will."""
        self.compacted_revision = max(self.compacted_revision, min(upto_revision, self.revision))

    def expire(self, session_id: int) -> None:
        """End a session now, whatever its deadline says; an unknown one is no error."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        session.timer.cancel()
        bound = sorted(key for key, item in self._values.items() if item.session_id == session_id)
        if bound:
            self._commit([(key, None) for key in bound])

    def sessions_of(self, key: str) -> tuple[int, ...]:
        """The session that a key ends with, if there are both."""
        item = self._values.get(key)
        return () if item is None or item.session_id not in self._sessions else (item.session_id,)

    @property
    def session_ids(self) -> tuple[int, ...]:
        return tuple(self._sessions)

    def snapshot(self, prefix: str = "") -> RangeResult:
        """What is true now."""
        items = sorted((i for k, i in self._values.items() if k.startswith(prefix)), key=lambda i: i.key)
        return RangeResult(self.revision, tuple(items))

    # -- a backup ---------------------------------------------------------------------------------------

    def go_back(self, revision: int) -> None:
        """Be what was true at `revision`, as if restored from a backup, until `come_forward`. Sessions are lost."""
        self._set_aside = (self._values, self.history, self.revision)
        self.history = self.history[:revision]
        self.revision = revision
        self._values = {}
        for batch in self.history:
            for event in batch.events:
                if event.value is None:
                    self._values.pop(event.key, None)
                else:
                    self._values[event.key] = KeyValue(event.key, event.value, event.mod_revision)
        self._began_again()

    def come_forward(self) -> None:
        """Be again what was true before `go_back`; what was asked for since is forgotten."""
        invariant(self._set_aside is not None, "the store has gone back")
        if self._set_aside is not None:
            self._values, self.history, self.revision = self._set_aside
            self._set_aside = None
        self._began_again()
        bound = sorted(key for key, item in self._values.items() if item.session_id)
        if bound:
            self._commit([(key, None) for key in bound])

    def _began_again(self) -> None:
        """The store is another process now: it knows no session and no watch."""
        for session in self._sessions.values():
            session.timer.cancel()
        self._sessions.clear()
        for watch in list(self._watches):
            self._end_watch(watch, StoreUnavailable("the store was started again"), self._way_ms())

    # -- the way of a request ---------------------------------------------------------------------------

    def ask(
        self, node: str, apply: Callable[[], object], unknown: type[Exception]
    ) -> "asyncio.Future[object]":
        """Carry `apply` to the store and its result back; fails with what `apply` raised, or with the way."""
        request = _Request(node, apply, unknown, self._loop.create_future())
        if node in self._cut:
            self._reach(StoreFaultKind.ASKED_WHILE_CUT)
            self._answer_later(
                request, StoreUnavailable(f"{node} does not reach the store"), self._timeout_ms()
            )
        elif self._chance(self.faults.refused_chance, StoreFaultKind.REFUSED):
            self._answer_later(request, StoreUnavailable("the store refused the request"), self._way_ms())
        else:
            self._later(self._way_ms(), lambda: self._arrive(request))
        return request.answer

    def _arrive(self, request: _Request) -> None:
        lost = request.unknown("no answer from the store")
        if request.node in self._cut or self._chance(
            self.faults.request_lost_chance, StoreFaultKind.REQUEST_LOST
        ):
            self._answer_later(request, lost, self._timeout_ms())
            return
        try:
            result = request.apply()
        except Exception as error:
            result = error
        if self._chance(self.faults.answer_lost_chance, StoreFaultKind.ANSWER_LOST):
            self._answer_later(request, lost, self._timeout_ms())
        else:
            self._later(self._way_ms(), lambda: self._answer(request, result))

    def _answer(self, request: _Request, result: object) -> None:
        if request.node in self._cut:
            self._answer_later(request, request.unknown("no answer from the store"), self._timeout_ms())
        else:
            _complete(request.answer, result)

    def _answer_later(self, request: _Request, result: object, delay_ms: float) -> None:
        self._later(delay_ms, lambda: _complete(request.answer, result))

    # -- at the store -----------------------------------------------------------------------------------

    def apply_txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        for compare in compares:
            found = self._values.get(compare.key)
            if (0 if found is None else found.mod_revision) != compare.mod_revision:
                return TxnResult(False, self.revision)
        for change in changes:
            if isinstance(change, Put) and change.session_id and change.session_id not in self._sessions:
                raise SessionLost(f"session {change.session_id} has ended")
        effective = [change for change in changes if isinstance(change, Put) or change.key in self._values]
        if effective:
            self._commit([(c.key, c if isinstance(c, Put) else None) for c in effective])
        return TxnResult(True, self.revision)

    def open_session(self, ttl_ms: int) -> int:
        self._last_session_id += 1
        session_id = self._last_session_id
        self._sessions[session_id] = _SessionState(session_id, ttl_ms, self._expiry(session_id, ttl_ms))
        return session_id

    def keep_alive(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionLost(f"session {session_id} has expired")
        session.timer.cancel()
        session.timer = self._expiry(session_id, session.ttl_ms)
        if self._rng.random() < self.faults.session_early_chance:
            self._later(self._rng.uniform(0, session.ttl_ms), lambda: self._expire_early(session_id))

    def open_watch(self, watch: "SimulatedWatch") -> None:
        behind = watch.after_revision < self.revision
        if behind and self._rng.random() < self.faults.compacted_chance:
            self.compact(self.revision)
        if watch.after_revision < self.compacted_revision:
            self._reach(StoreFaultKind.COMPACTED)
            wanted = (
                f"events after revision {watch.after_revision} are compacted to {self.compacted_revision}"
            )
            self._end_watch(watch, Compacted(wanted), self._way_ms())
            return
        self._watches.append(watch)
        for batch in self.history[watch.after_revision :]:
            self._push(watch, batch)

    def _expire_early(self, session_id: int) -> None:
        if session_id in self._sessions:
            self._reach(StoreFaultKind.SESSION_EARLY)
            self.expire(session_id)

    def _expiry(self, session_id: int, ttl_ms: int) -> asyncio.TimerHandle:
        late_ms = self._rng.uniform(0, self.faults.session_late_ms)

        def expire() -> None:
            if late_ms:
                self._reach(StoreFaultKind.SESSION_LATE)
            self.expire(session_id)

        return self._later(ttl_ms + late_ms, expire)

    def _commit(self, changes: Sequence[tuple[str, Put | None]]) -> None:
        """One revision. Revision `n` is `history[n - 1]`."""
        self.revision += 1
        events = []
        for key, put in changes:
            if put is None:
                del self._values[key]
            else:
                self._values[key] = KeyValue(key, put.value, self.revision, put.session_id)
            events.append(Event(key, None if put is None else put.value, self.revision))
        batch = WatchBatch(self.revision, tuple(events))
        self.history.append(batch)
        self._watches = [watch for watch in self._watches if not watch.ended]
        for watch in list(self._watches):
            self._push(watch, batch)

    # -- pushing to watches -----------------------------------------------------------------------------

    def _push(self, watch: "SimulatedWatch", batch: WatchBatch) -> None:
        events = tuple(event for event in batch.events if event.key.startswith(watch.prefix))
        if not events or watch.ended:
            return
        if self._chance(self.faults.watch_cut_chance, StoreFaultKind.WATCH_CUT):
            self._end_watch(watch, StoreUnavailable("the watch was lost"), self._way_ms())
            return
        delay_ms = self._way_ms()
        if self._chance(self.faults.watch_delayed_chance, StoreFaultKind.WATCH_DELAYED):
            delay_ms += self._rng.uniform(0, self.faults.watch_delay_ms)
        self._deliver(watch, WatchBatch(batch.revision, events), delay_ms)

    def _end_watch(self, watch: "SimulatedWatch", error: Exception, delay_ms: float) -> None:
        """The last thing the watch gets, after what is on its way; nothing later is pushed to it."""
        watch.ended = True
        self._watches = [w for w in self._watches if w is not watch]
        self._deliver(watch, error, delay_ms)

    def _deliver(self, watch: "SimulatedWatch", news: WatchBatch | Exception, delay_ms: float) -> None:
        """In order: never before what was sent earlier. What a cut finds on its way is lost, and all after
        it."""
        watch.due = max(watch.due, self._loop.time() + delay_ms / 1000)

        def arrive() -> None:
            if isinstance(news, Exception) or not watch.broken:
                watch.take(news)

        watch.on_its_way.append(arrive)
        self._loop.call_at(watch.due, watch.next_arrives, context=self._context)

    # -- chance and time --------------------------------------------------------------------------------

    def _later(self, delay_ms: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, action, context=self._context)

    def _way_ms(self) -> float:
        way_ms = self._rng.uniform(*self.faults.latency_ms)
        if self._chance(self.faults.slow_chance, StoreFaultKind.SLOW):
            way_ms += self._rng.uniform(0, self.faults.slow_ms)
        return way_ms

    def _timeout_ms(self) -> float:
        return self._rng.uniform(self.faults.latency_ms[1], self.faults.timeout_ms)

    def _chance(self, chance: float, kind: StoreFaultKind) -> bool:
        """One draw, whatever the chance, so that turning a fault on does not move the others' draws."""
        happens = self._rng.random() < chance
        if happens:
            self._reach(kind)
        return happens

    def _reach(self, kind: StoreFaultKind) -> None:
        self.reached[kind] += 1


class SimulatedMetaStore:
    """One node's MetaStore (`data_plane.metadata.port`)."""

    def __init__(self, store: SimulatedStore, node: str) -> None:
        self._store = store
        self._node = node
        self._closed = False
        self._watches: list[SimulatedWatch] = []

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        keys = {change.key for change in changes}
        invariant(len(keys) == len(changes), "a key stands in at most one change of a transaction")
        result = await self._ask(lambda: self._store.apply_txn(compares, changes), OutcomeUnknown)
        assert isinstance(result, TxnResult)
        return result

    async def range(self, prefix: str) -> RangeResult:
        result = await self._ask(lambda: self._store.snapshot(prefix), StoreUnavailable)
        assert isinstance(result, RangeResult)
        return result

    def watch(self, prefix: str, after_revision: int) -> "SimulatedWatch":
        watch = SimulatedWatch(self._node, prefix, after_revision)
        self._watches = [w for w in self._watches if not w.ended]
        self._watches.append(watch)
        if self._closed:
            watch.fail(StoreUnavailable("the store is closed"))
        else:
            opened = self._store.ask(self._node, lambda: self._store.open_watch(watch), StoreUnavailable)
            opened.add_done_callback(watch.opened)
        return watch

    async def session(self, ttl_ms: int) -> "SimulatedSession":
        session_id = await self._ask(lambda: self._store.open_session(ttl_ms), StoreUnavailable)
        assert isinstance(session_id, int)
        return SimulatedSession(self, session_id)

    async def keep_alive(self, session_id: int) -> None:
        await self._ask(lambda: self._store.keep_alive(session_id), StoreUnavailable)

    async def end(self, session_id: int) -> None:
        await self._ask(lambda: self._store.expire(session_id), StoreUnavailable)

    async def close(self) -> None:
        self._closed = True
        for watch in self._watches:
            watch.fail(StoreUnavailable("the store is closed"))

    async def _ask(self, apply: Callable[[], object], unknown: type[Exception]) -> object:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await self._store.ask(self._node, apply, unknown)


class SimulatedSession:
    def __init__(self, client: SimulatedMetaStore, session_id: int) -> None:
        self._client = client
        self._session_id = session_id

    @property
    def session_id(self) -> int:
        return self._session_id

    async def keep_alive(self) -> None:
        await self._client.keep_alive(self._session_id)

    async def end(self) -> None:
        await self._client.end(self._session_id)


class SimulatedWatch:
    """An endless async iterator; after it has raised it is over."""

    def __init__(self, node: str, prefix: str, after_revision: int) -> None:
        self.node = node
        self.prefix = prefix
        self.after_revision = after_revision
        self.ended = False
        """The store sends nothing more."""
        self.broken = False
        """A cut took what was on its way, so that nothing after it may arrive either."""
        self.due = 0.0
        """Loop time at which the last of `on_its_way` arrives."""
        self.on_its_way: deque[Callable[[], None]] = deque()
        self._failed = False
        self._read = WatchQueue()

    def next_arrives(self) -> None:
        """Timers of equal times may fire in any order; what they bring may not."""
        self.on_its_way.popleft()()

    def opened(self, answer: "asyncio.Future[object]") -> None:
        error = answer.exception()
        if isinstance(error, Exception):
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.ended = True
        self.take(error)

    def take(self, news: WatchBatch | Exception) -> None:
        if isinstance(news, Exception):
            self._failed = True
            self._read.fail(news)
        elif not self._failed:
            self._read.put(news)

    def __aiter__(self) -> "SimulatedWatch":
        return self

    async def __anext__(self) -> WatchBatch:
        return await self._read.next()


def _complete(answer: "asyncio.Future[object]", result: object) -> None:
    if answer.done():
        return  # the asker was cancelled; what it asked for stands (RL19)
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
