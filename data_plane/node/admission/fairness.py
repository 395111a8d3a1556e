"""The turns of tenants on the event loop: what each one's calls and streams cost is measured and charged to it, and who
used more than its share waits, one piece of work after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.gate import Gate
from data_plane.node.admission.processor_time import ProcessorTime, Work
from data_plane.node.ports import Caller, CallHandler, Clock, Connection, WorkClock
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace
from data_plane.throttling.refusals import Refusals
from data_plane.throttling.shares import WAIT_MS_MAX, Shares
from data_plane.throttling.spare import LOOK_MS, Spare
from data_plane.throttling.use import Use
from penstock.contract.ids import TenantId

T = TypeVar("T")

_LOOKS_MAX = 10
"""After so many waits a piece of work goes on whatever was used: others of the tenant may have worked all the time."""


@dataclass(slots=True)
class _Queue:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class _Line:
    """Who waits begins one after the other, each tenant's in the order they came."""

    def __init__(self, clock: Clock, stats: NodeStats, wait_ms: Callable[[TenantId], float]) -> None:
        """`wait_ms`: how long the tenant has still to wait, 0 = it may begin."""
        self._clock = clock
        self._stats = stats
        self._wait_ms = wait_ms
        self.queues: dict[TenantId, _Queue] = {}
        """Only of tenants that have a waiting call."""

    async def turn(self, tenant: TenantId) -> None:
        if tenant not in self.queues and not self._wait_ms(tenant):
            return
        queue = self.queues.setdefault(tenant, _Queue())
        queue.waiting += 1
        began_ms = self._clock.monotonic_ms()
        try:
            async with queue.lock:
                await self._until_due(tenant)
        finally:
            self._stats.fairness_waits += 1
            self._stats.fairness_wait_ms += int(self._clock.monotonic_ms() - began_ms)
            queue.waiting -= 1
            if not queue.waiting:
                del self.queues[tenant]

    async def _until_due(self, tenant: TenantId) -> None:
        wait_ms = self._wait_ms(tenant)
        for _ in range(_LOOKS_MAX):
            if not wait_ms:
                return
            await asyncio.sleep(min(wait_ms, WAIT_MS_MAX) / 1000)
            wait_ms = self._wait_ms(tenant)


class Fairness:
    """All tenants' turns on one broker."""

    def __init__(
        self, clock: WorkClock, stats: NodeStats, quotas: Callable[[TenantId], TenantQuotas]
    ) -> None:
        self._clock = clock
        self._processor = ProcessorTime(clock, stats, quotas)
        self._use = Use()
        self._shares = Shares(self._use)
        self._spare = Spare(self._use)
        self._refusals = Refusals()
        self._somebody_asked = asyncio.Event()
        self._work = _Line(clock, stats, lambda tenant: self._shares.wait_ms(tenant, clock.monotonic_ms()))
        self._questions = _Line(clock, stats, self._question_waits_ms)
        self._paused = _Line(clock, stats, self._question_waits_ms)
        """Questions that have begun wait here, so that one that has not does not wait for all of them."""
        self._beats = _Line(clock, stats, self._beat_waits_ms)
        self._refused = _Line(
            clock, stats, lambda tenant: self._refusals.wait_ms(tenant, clock.monotonic_ms())
        )

    def of(self, tenant: TenantId) -> "TenantTurns":
        return TenantTurns(self, tenant)

    async def turn(
        self, tenant: TenantId, connection: Connection | None = None, sign: Callable[[], None] | None = None
    ) -> int:
        """Wait until the tenant may begin another piece of work, and answer for how many ms its limit of processor time
        made it wait, see `ProcessorTime.frame`. What waits begins in the order it came. The limit is asked last: what
        it lets go on works, and is charged, before it is asked for the next piece."""
        await self._work.turn(tenant)
        return await self._processor.frame(tenant, connection, sign)

    def processor_pace(self, tenant: TenantId) -> Pace | None:
        """The pace of the tenant's limit of processor time now; None = it has none."""
        return self._processor.pace(tenant)

    async def turn_of_refused(self, tenant: TenantId) -> None:
        """The same for a stream whose last frame was refused, as `refused` tells: beside the tenant's other work."""
        await self._refused.turn(tenant)

    def refused(self, tenant: TenantId, batches: int) -> None:
        """So many batches of a frame were refused for a reason that no retry repairs."""
        self._refusals.refused(tenant, batches, self._clock.monotonic_ms())

    async def charged(self, tenant: TenantId, work: Callable[[], Awaitable[T]]) -> T:
        """The work, each step of it charged to the tenant; what it waits for is not."""
        return await _Charged(work(), self._clock, partial(self._spent, tenant, Work.STREAM), _no_pause)

    async def turn_of_call(self, tenant: TenantId, wait_ms_max: float, *, beat: bool = False) -> int:
        """`turn` for a call, which is then `answered` in the same step. A `beat` is a heartbeat of a group's member:
        it does not wait behind its tenant's questions, nor at its limit of processor time while there are not too many.
        Raises `CallFailed` when that limit makes it wait longer than `wait_ms_max`.
        """
        await (self._beats if beat else self._questions).turn(tenant)
        return await (self._processor.beat if beat else self._processor.call)(tenant, wait_ms_max)

    async def turn_of_push(self, tenant: TenantId) -> None:
        """`turn` for a push of a watch, which is then `answered` in the same step."""
        await self._questions.turn(tenant)
        await self._processor.frame(tenant, None, None)

    async def answered(self, tenant: TenantId, work: Callable[[], Awaitable[T]], kind: Work = Work.CALL) -> T:
        """Unmetered work, charged to the processor share, and done in pieces as capacity allows."""
        is_beat = kind is Work.BEAT
        use, pauses = (self._spare.beats, self._beats) if is_beat else (self._spare.asked, self._paused)

        def charge(spent_ms: float, now_ms: float, took_ms: float) -> None:
            self._spent(tenant, kind, spent_ms, now_ms, took_ms)
            use.charge(tenant, spent_ms, now_ms)
            self._somebody_asked.set()

        return await _Charged(work(), self._clock, charge, partial(pauses.turn, tenant))

    def _spent(self, tenant: TenantId, work: Work, spent_ms: float, now_ms: float, took_ms: float) -> None:
        self._use.charge(tenant, spent_ms, now_ms, took_ms)
        self._processor.charge(tenant, spent_ms, now_ms, work)

    def _question_waits_ms(self, tenant: TenantId) -> float:
        now_ms = self._clock.monotonic_ms()
        return max(self._shares.wait_ms(tenant, now_ms), self._spare.wait_ms(tenant, now_ms))

    def _beat_waits_ms(self, tenant: TenantId) -> float:
        now_ms = self._clock.monotonic_ms()
        return max(self._shares.wait_ms(tenant, now_ms), self._spare.beat_wait_ms(tenant, now_ms))

    async def run(self) -> None:
        """See how late timers fire while there are questions. Runs without an end."""
        while True:
            await self._somebody_asked.wait()
            self._somebody_asked.clear()
            while self._spare.is_asked(self._clock.monotonic_ms()):
                began_ms = self._clock.monotonic_ms()
                await asyncio.sleep(LOOK_MS / 1000)
                self._spare.observe(self._clock.monotonic_ms() - began_ms - LOOK_MS)


@dataclass(frozen=True, slots=True)
class TenantTurns:
    """One tenant's."""

    fairness: Fairness
    tenant: TenantId

    async def turn(self, connection: Connection | None = None, sign: Callable[[], None] | None = None) -> int:
        return await self.fairness.turn(self.tenant, connection, sign)

    def processor_pace(self) -> Pace | None:
        return self.fairness.processor_pace(self.tenant)

    async def turn_of_refused(self) -> None:
        await self.fairness.turn_of_refused(self.tenant)

    def refused(self, batches: int) -> None:
        self.fairness.refused(self.tenant, batches)

    async def charged(self, work: Callable[[], Awaitable[T]]) -> T:
        """`work` is begun when this is, so that a caller that is cancelled before leaves nothing behind."""
        return await self.fairness.charged(self.tenant, work)

    async def asked(self, work: Callable[[], Awaitable[T]], wait_ms_max: float | None = None) -> T:
        """A question, begun in the turn of a call (`Fairness.turn_of_call`); None: in that of a push."""
        if wait_ms_max is None:
            await self.fairness.turn_of_push(self.tenant)
        else:
            await self.fairness.turn_of_call(self.tenant, wait_ms_max)
        kind = Work.STREAM if wait_ms_max is None else Work.CALL
        return await self.fairness.answered(self.tenant, work, kind)


def fairly(
    calls: Mapping[str, CallHandler], gate: Gate, fairness: Fairness, is_beat: Callable[[str, bytes], bool]
) -> dict[str, CallHandler]:
    """The same calls, each charged to its tenant, whose turn the caller has waited for."""

    def fair(method: str, handler: CallHandler) -> CallHandler:
        async def handle(caller: Caller, request: bytes) -> bytes:
            tenant = gate.admit(caller).tenant
            return await fairness.answered(
                tenant, lambda: handler(caller, request), Work.BEAT if is_beat(method, request) else Work.CALL
            )

        return handle

    return {method: fair(method, handler) for method, handler in calls.items()}


async def _no_pause() -> None:
    """Work that is paid for goes on at once."""


class _Charged(Generic[T]):
    """Awaits something step by step and tells what processor time each step used, when it ended, and what it took.

    Where the work lets others run before it goes on, it waits for `pause` too.
    """

    def __init__(
        self,
        work: Awaitable[T],
        clock: WorkClock,
        charge: Callable[[float, float, float], None],
        pause: Callable[[], Awaitable[None]],
    ) -> None:
        self._work = work
        self._clock = clock
        self._charge = charge
        self._pause = pause

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            began_ms, had_ms = self._clock.monotonic_ms(), self._clock.processor_ms()
            try:
                waits_for = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                spent_ms, now_ms = self._clock.processor_ms() - had_ms, self._clock.monotonic_ms()
                self._charge(spent_ms, now_ms, now_ms - began_ms)
            sent, thrown = None, None
            try:
                sent = yield waits_for
                if waits_for is None:
                    yield from self._pause().__await__()
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                thrown = error
