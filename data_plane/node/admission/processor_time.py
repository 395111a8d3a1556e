"""The limit of processor time that a tenant's calls, frames and answers may take of one broker.

Work is charged when it is done, because what it takes is not known before. So a tenant may be ahead of its limit, by
what it may make up and one piece of work; while it is, its next pieces wait in one line.

    comes --the tenant is not ahead, and none of it waits--> goes on
    comes --else--> in the line --it is the first, and the time that was used has passed at the limit--> goes on
                                --its client is gone--> away
                                --a call, after `CALL_WAIT_MS_MAX` in all--> refused
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.pace_lines import Waiting, take_in_turn
from data_plane.node.ports import CallFailed, Clock, Connection
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import BURST_MS, Pace
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.contract.limits import CALL_WAIT_MS_MAX
from penstock.rules.limit_words import OPERATORS, limit_words

PROCESSOR_RATE = "broker_processor_ms_per_s"
OWED_MS_MAX = 10_000.0
"""A tenant waits no longer than this for what it has used, and one piece of work: its streams are not given up."""
AHEAD_MS_MAX = CALL_WAIT_MS_MAX / 2
"""Use of calls while no stream waited, or of streams while no call did, counts against them for so much of the limit:
half of what a call waits, so that one that comes after it is not refused."""
_UNITS = 1_000_000
"""A millisecond of processor time is so many units of a pace: steps of some microseconds count too."""
_FORGET_MS = 60_000.0
"""After so long without work a tenant is as one that did none."""


class Work(Enum):
    """Whose work it is, for the turns of calls and streams."""

    CALL = "call"
    STREAM = "stream"
    BEAT = "beat"
    """A heartbeat waits for no turn, so it takes none."""


@dataclass(slots=True)
class _Used:
    pace: Pace
    ms_per_s: int
    burst_ms: int
    at_ms: float
    """When something was charged last."""


class ProcessorTime:
    """All tenants' on one broker. A tenant without a limit is never looked at twice."""

    def __init__(self, clock: Clock, stats: NodeStats, quotas: Callable[[TenantId], TenantQuotas]) -> None:
        self._clock = clock
        self._stats = stats
        self._quotas = quotas
        self._used: dict[TenantId, _Used] = {}
        """Only of tenants that have a limit."""
        self._looked_ms = float("-inf")

    def __len__(self) -> int:
        """Tenants whose use is known."""
        return len(self._used)

    def charge(self, tenant: TenantId, spent_ms: float, now_ms: float, work: Work) -> None:
        """Work of the tenant has just used so much."""
        pace = self._pace(tenant, now_ms)
        if pace is not None:
            self._used[tenant].at_ms = now_ms
            units = int(spent_ms * _UNITS)
            if pace.clears_in_ms(now_ms) < OWED_MS_MAX:
                pace.correct(0, units)
            if work is not Work.BEAT:
                pace.line.used(units, pace.bytes_per_s * AHEAD_MS_MAX / 1000, is_call=work is Work.CALL)

    def pace(self, tenant: TenantId) -> Pace | None:
        """The tenant's, for streams that ask for their turn instead of awaiting it; None = no limit."""
        return self._pace(tenant, self._clock.monotonic_ms())

    async def frame(
        self, tenant: TenantId, connection: Connection | None, sign: Callable[[], None] | None
    ) -> int:
        """Wait until the tenant may work, however long that takes, and answer for how many ms. `sign` is called
        meanwhile as a stream has to give one. Raises `ConnectionLost` when the connection is gone before."""
        if self._passes(tenant):
            return 0
        began_ms = self._clock.monotonic_ms()
        waiting = Waiting(connection, sign, began_ms)
        if connection is not None:
            connection.when_gone(waiting.woken.set)
        try:
            await self._turn(tenant, waiting)
        finally:
            if connection is not None:
                connection.when_gone(None)
            waited_ms = self._waited(began_ms)
        return waited_ms

    async def call(self, tenant: TenantId, wait_ms_max: float) -> int:
        """The same for a call, which waits no longer than that. Raises `CallFailed`."""
        if self._passes(tenant):
            return 0
        began_ms = self._clock.monotonic_ms()
        limit = asyncio.timeout(wait_ms_max / 1000)
        try:
            async with limit:
                await self._turn(tenant, Waiting(None, None, began_ms, is_call=True))
        except TimeoutError:
            if not limit.expired():
                raise
            self._refuse(tenant)
        finally:
            waited_ms = self._waited(began_ms)
        return waited_ms

    async def beat(self, tenant: TenantId, wait_ms_max: float) -> int:
        """A heartbeat of a group's member neither waits nor is refused, until the tenant owes all that it can owe.
        Other work waits before it owes more than one piece: that is a flood of heartbeats, which waits as `call` does.
        """
        now_ms = self._clock.monotonic_ms()
        pace = self._pace(tenant, now_ms)
        if pace is None or pace.clears_in_ms(now_ms) < OWED_MS_MAX:
            return 0
        return await self.call(tenant, wait_ms_max)

    def _refuse(self, tenant: TenantId) -> None:
        now_ms = self._clock.monotonic_ms()
        pace = self._pace(tenant, now_ms)
        if pace is None:
            return  # the limit was lifted in this moment
        self._stats.processor_refused += 1
        self._stats.limit_refusals.note(tenant, PROCESSOR_RATE)
        raise CallFailed(
            ErrorCode.THROTTLED,
            limit_words(
                PROCESSOR_RATE,
                f"the tenant may use {self._used[tenant].ms_per_s} ms a second at this broker, all used, and"
                f" {pace.line.calls} calls and {len(pace.line) - pace.line.calls} streams wait",
                clears=f"in {int(pace.clears_in_ms(now_ms)) + 1} ms",
                raised_by=OPERATORS,
            ),
        )

    def _passes(self, tenant: TenantId) -> bool:
        now_ms = self._clock.monotonic_ms()
        pace = self._pace(tenant, now_ms)
        return pace is None or (not pace.line and pace.take(0, now_ms))

    async def _turn(self, tenant: TenantId, waiting: Waiting) -> None:
        await take_in_turn(lambda: self.pace(tenant), 0, waiting, self._clock)

    def _waited(self, began_ms: float) -> int:
        waited_ms = int(self._clock.monotonic_ms() - began_ms)
        self._stats.processor_throttled += 1
        self._stats.processor_throttled_ms += waited_ms
        return waited_ms

    def _pace(self, tenant: TenantId, now_ms: float) -> Pace | None:
        """None = no limit."""
        quotas = self._quotas(tenant)
        ms_per_s, burst_ms = quotas.broker_processor_ms_per_s, quotas.rate_burst_ms or BURST_MS
        used = self._used.get(tenant)
        if not ms_per_s:
            if used is not None:
                del self._used[tenant]
                used.pace.line.wake_first()
            return None
        if used is None:
            self._forget(now_ms)
            used = self._used[tenant] = _Used(Pace(ms_per_s * _UNITS, burst_ms), ms_per_s, burst_ms, now_ms)
        elif (used.ms_per_s, used.burst_ms) != (ms_per_s, burst_ms):
            used.ms_per_s, used.burst_ms = ms_per_s, burst_ms
            used.pace.change(ms_per_s * _UNITS, now_ms)
            used.pace.allow_burst(burst_ms, 0, now_ms)
            _forgive(used.pace, now_ms)
            used.pace.line.wake_first()
        return used.pace

    def _forget(self, now_ms: float) -> None:
        if now_ms - self._looked_ms < _FORGET_MS:
            return
        self._looked_ms = now_ms
        for tenant, used in list(self._used.items()):
            if not used.pace.line and now_ms - used.at_ms >= _FORGET_MS:
                del self._used[tenant]


def _forgive(pace: Pace, now_ms: float) -> None:
    """Owe what was used at a higher limit at the one there is, OWED_MS_MAX of it at most."""
    owed_ms = pace.clears_in_ms(now_ms)
    if owed_ms > OWED_MS_MAX:
        pace.correct(int((owed_ms - OWED_MS_MAX) * pace.bytes_per_s / 1000), 0)
