"""When a tenant's requests may go on, at its rate of requests over all brokers.

A request is a call, the beginning of a watch, a frame of batches to produce, or a frame that opens partitions to
consume. What a client says to keep going is none: credit, and closing partitions.

    comes --the pace is clear, and none waits--> goes on
    comes --else--> in the line --it is the first, and the pace is clear--> goes on
                                --its client is gone--> away, and its frame with it
    comes --a call, and the line is too long--> refused

All of a tenant wait in one line at each broker, so calls do not overtake streams, nor streams calls. A stream whose
frame waits reads no further one: its client's connection fills, and the client waits. It hears meanwhile that
the broker is there, or it would take the stream for a broken one and begin at the end of the line once more.
"""

import asyncio
from collections.abc import Callable

from data_plane.leases.terms import LimitKey
from data_plane.node.leasing.pacing import REQUEST_RATE, REQUEST_UNITS
from data_plane.node.ports import CallFailed, Clock, Connection, ConnectionLost
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId

CALL_WAIT_MS_MAX = 1_000
"""A call that would wait longer is refused: its client decides earlier what to do, and nothing of it is kept here."""
SIGN_MS = 5_000
"""A stream whose frame waits says something this often: clients give up one that says nothing for 15 s, and consumers
ask once more after 10."""
_SOON_MS, _LOOK_MS = 0.1, 250.0
"""Between looks of the first one: not so soon that a clock does not move, and its tenant's rate may be another one."""


class RequestTurns:
    """All tenants' on one broker."""

    def __init__(self, pace: Callable[[LimitKey], Pace | None], clock: Clock, stats: NodeStats) -> None:
        """`pace`: of a limit now, None = the tenant has no such rate."""
        self._pace, self._clock, self._stats = pace, clock, stats

    def of(self, tenant: TenantId) -> "TenantRequests":
        return TenantRequests(self._pace, self._clock, self._stats, LimitKey(tenant, REQUEST_RATE))


class TenantRequests:
    """One tenant's."""

    def __init__(
        self, pace: Callable[[LimitKey], Pace | None], clock: Clock, stats: NodeStats, limit: LimitKey
    ) -> None:
        self._pace, self._clock, self._stats, self._limit = pace, clock, stats, limit

    def passes(self) -> bool:
        """True: a request is counted and goes on now. False: nothing is counted, and it has to wait."""
        pace = self._pace(self._limit)
        if pace is None:
            return True
        return not pace.line and pace.take(REQUEST_UNITS, self._clock.monotonic_ms())

    def beat(self) -> None:
        """A sign of life of a group's member: it neither waits nor is refused, for its member would lose its place. It
        counts if it may go on at once as any other request, and a call that comes next has its turn soon: however many
        there are, those who wait go on, and calls are not refused for them."""
        pace = self._pace(self._limit)
        if pace is not None and not pace.line:
            now_ms = self._clock.monotonic_ms()
            if pace.wait_ms(pace.let_in + REQUEST_UNITS, now_ms) <= CALL_WAIT_MS_MAX / 2:
                pace.take(REQUEST_UNITS, now_ms)

    async def call(self) -> None:
        """Count a call when its turn comes. Raises `CallFailed` if that is too far away."""
        if self.passes():
            return
        pace, now_ms = self._pace(self._limit), self._clock.monotonic_ms()
        if pace is not None:
            wait_ms = pace.judged_wait_ms(len(pace.line) * REQUEST_UNITS, now_ms)
            if wait_ms > CALL_WAIT_MS_MAX:
                pace.refused += 1
                self._stats.requests_refused += 1
                self._stats.limit_refusals.note(self._limit.tenant, REQUEST_RATE)
                raise CallFailed(
                    ErrorCode.THROTTLED,
                    f"requests_per_s of the tenant is reached: {_per_s(pace)} of it at this broker now, all used;"
                    f" clears in {int(wait_ms) + 1} ms",
                )
        await self.frame()

    async def frame(
        self, connection: Connection | None = None, sign: Callable[[], None] | None = None
    ) -> None:
        """Count a request when its turn comes, however far away that is. `sign` is called every `SIGN_MS` until then.
        Raises `ConnectionLost`, and counts nothing, when the connection is gone before."""
        if self.passes():
            return
        began_ms = self._clock.monotonic_ms()
        waiting = _Waiting(connection, sign, began_ms)
        if connection is not None:
            connection.when_gone(waiting.woken.set)
        try:
            while (pace := self._pace(self._limit)) is not None:
                if await self._waited(pace, waiting):
                    return
        finally:
            if connection is not None:
                connection.when_gone(None)
            self._stats.requests_throttled += 1
            self._stats.requests_throttled_ms += int(self._clock.monotonic_ms() - began_ms)

    async def _waited(self, pace: Pace, waiting: "_Waiting") -> bool:
        """In the line of this pace until a request is counted there; False: the tenant has another pace, or none."""
        woken = waiting.woken
        pace.line.join(woken.set, self._clock.monotonic_ms())
        try:
            while self._pace(self._limit) is pace:
                woken.clear()
                now_ms = self._clock.monotonic_ms()
                wait_ms = waiting.look(now_ms)
                if pace.line.is_first(woken.set):
                    if pace.take(REQUEST_UNITS, now_ms):
                        return True
                    wait_ms = min(wait_ms, _LOOK_MS, max(_SOON_MS, pace.clears_in_ms(now_ms)))
                try:
                    async with asyncio.timeout(wait_ms / 1000):
                        await woken.wait()
                except TimeoutError:
                    pass
            return False
        finally:
            pace.line.leave(woken.set, self._clock.monotonic_ms())


class _Waiting:
    """A frame in the line, or a call."""

    def __init__(self, connection: Connection | None, sign: Callable[[], None] | None, now_ms: float) -> None:
        self._connection, self._sign, self._sign_at_ms = connection, sign, now_ms + SIGN_MS
        self.woken = asyncio.Event()

    def look(self, now_ms: float) -> float:
        """Give a sign if it is time, and answer in how many ms the next one is due. Raises `ConnectionLost`."""
        if self._connection is not None and self._connection.is_gone:
            raise ConnectionLost(f"{self._connection.peer}: gone while its frame waited")
        if now_ms >= self._sign_at_ms:
            self._sign_at_ms = now_ms + SIGN_MS
            if self._sign is not None:
                self._sign()
        return self._sign_at_ms - now_ms


def _per_s(pace: Pace) -> str:
    """Requests a second, as a number that a reader knows."""
    whole, rest = divmod(pace.bytes_per_s, REQUEST_UNITS)
    return f"{whole}" if whole >= 10 or not rest else f"{pace.bytes_per_s / REQUEST_UNITS:.1f}"
