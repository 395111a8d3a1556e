"""When a tenant's requests may go on, at its rate of requests over all brokers.

A request is a call, the beginning of a watch, a frame of batches to produce, or a frame that opens partitions to
consume. What a client says to keep going is none: credit, and closing partitions.

    comes --the pace is clear, and none waits--> goes on
    comes --else--> in the line --it is the first, and the pace is clear--> goes on
                                --its client is gone--> away, and its frame with it
                                --a call, after `CALL_WAIT_MS_MAX`--> refused
    comes --a call, and the line is too long--> refused

All of a tenant wait in one line at each broker, in which calls and streams go in turn. A stream whose frame waits reads
no further one: its client's connection fills, and the client waits. It hears meanwhile that the broker is there, or it
would take the stream for a broken one and begin at the end of the line once more.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from data_plane.leases.terms import LimitKey
from data_plane.node.admission.pace_lines import Waiting, take_in_turn
from data_plane.node.leasing.pacing import REQUEST_RATE, REQUEST_UNITS
from data_plane.node.limit_refusals import of_whom
from data_plane.node.ports import CallFailed, Clock, Connection
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace
from data_plane.throttling.rate_words import rate_words
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.contract.limits import CALL_WAIT_MS_MAX


class RequestTurns:
    """All tenants' on one broker."""

    def __init__(
        self,
        pace: Callable[[LimitKey], Pace | None],
        own_pace: Callable[[TenantId, str, str], Pace | None],
        clock: Clock,
        stats: NodeStats,
        throttled: Callable[[TenantId, int, int], None],
    ) -> None:
        """`pace`: of a limit now, None = the tenant has no such rate. `own_pace`: of the limit of that name which the
        principal of a tenant's key has to itself, None = it has none. `throttled`: counts by how many ms a request of a
        tenant's principal was delayed."""
        self._pace = pace
        self._own_pace = own_pace
        self._clock = clock
        self._stats = stats
        self._throttled = throttled

    def of(self, tenant: TenantId, key_id: str, principal: int) -> "KeyRequests":
        """`principal`: its number, whose key it is."""
        return KeyRequests(
            self._pace,
            self._own_pace,
            self._clock,
            self._stats,
            LimitKey(tenant, REQUEST_RATE),
            key_id,
            partial(self._throttled, tenant, principal),
        )


class KeyRequests:
    """Requests with one key, which count for its principal, if that has a rate of its own, and for its tenant."""

    def __init__(
        self,
        pace: Callable[[LimitKey], Pace | None],
        own_pace: Callable[[TenantId, str, str], Pace | None],
        clock: Clock,
        stats: NodeStats,
        limit: LimitKey,
        key_id: str,
        throttled: Callable[[int], None],
    ) -> None:
        self._throttled = throttled
        self._pace_of = pace
        self._own_pace_of = own_pace
        self._clock = clock
        self._stats = stats
        self._limit = limit
        self._key_id = key_id

    def _pace(self) -> Pace | None:
        return self._pace_of(self._limit)

    def _own_pace(self) -> Pace | None:
        return self._own_pace_of(self._limit.tenant, self._key_id, REQUEST_RATE)

    def passes(self) -> bool:
        """True: a request is counted and goes on now. False: nothing is counted, and it has to wait."""
        principals, pace = self._own_pace(), self._pace()
        if principals is None and pace is None:
            return True
        now_ms = self._clock.monotonic_ms()
        if principals is not None and (principals.line or not principals.take(REQUEST_UNITS, now_ms)):
            return False
        if pace is None or (not pace.line and pace.take(REQUEST_UNITS, now_ms)):
            return True
        _give_back(principals)
        return False

    def beat(self) -> None:
        """A sign of life of a group's member: it neither waits nor is refused, for its member would lose its place. It
        counts if it may go on at once as any other request, and a call that comes next has its turn soon: however many
        there are, those who wait go on, and calls are not refused for them."""
        now_ms = self._clock.monotonic_ms()
        paces = [pace for pace in (self._own_pace(), self._pace()) if pace is not None]
        if all(
            not pace.line and pace.wait_ms(pace.let_in + REQUEST_UNITS, now_ms) <= CALL_WAIT_MS_MAX / 2
            for pace in paces
        ):
            for pace in paces:
                pace.take(REQUEST_UNITS, now_ms)

    def delayed(self, waited_ms: int) -> None:
        """Another limit of the tenant made one of these requests wait."""
        self._throttled(waited_ms)

    async def call(self) -> int:
        """Count a call when its turn comes, and answer for how many ms it waited. Raises `CallFailed` if its turn is
        too far away: when it comes, once more when it goes on from its principal's line to the tenant's, which may be
        longer then, and when it has waited CALL_WAIT_MS_MAX, for the rate may have become another one."""
        if self.passes():
            return 0
        self._check_soon(self._own_pace())
        self._check_soon(self._pace())
        limit = asyncio.timeout(CALL_WAIT_MS_MAX / 1000)
        try:
            async with limit:
                return await self._wait(None, None, is_call=True)
        except TimeoutError:
            if not limit.expired():
                raise
            paces = [pace for pace in (self._own_pace(), self._pace()) if pace is not None]
            if paces:
                self._refuse(max(paces, key=self._call_waits_ms))
            return CALL_WAIT_MS_MAX  # the limit was lifted in this moment

    def _check_soon(self, pace: Pace | None) -> None:
        if pace is not None and self._call_waits_ms(pace) > CALL_WAIT_MS_MAX:
            self._refuse(pace)

    def _call_waits_ms(self, pace: Pace) -> float:
        """How long a call waits that comes now."""
        return pace.judged_wait_ms(pace.line.before_a_call * REQUEST_UNITS, self._clock.monotonic_ms())

    def _refuse(self, pace: Pace) -> NoReturn:
        pace.refused += 1
        self._stats.requests_refused += 1
        self._stats.limit_refusals.note(self._limit.tenant, of_whom(REQUEST_RATE, pace.principal))
        raise CallFailed(
            ErrorCode.THROTTLED,
            rate_words(REQUEST_RATE, pace, int(self._call_waits_ms(pace)) + 1, units=REQUEST_UNITS),
        )

    async def frame(
        self, connection: Connection | None = None, sign: Callable[[], None] | None = None
    ) -> None:
        """Count a request when its turn comes, however far away that is. `sign` is called now and then until then.
        Raises `ConnectionLost`, and counts nothing, when the connection is gone before."""
        if not self.passes():
            await self._wait(connection, sign, is_call=False)

    async def _wait(
        self, connection: Connection | None, sign: Callable[[], None] | None, *, is_call: bool
    ) -> int:
        began_ms = self._clock.monotonic_ms()
        waiting = Waiting(connection, sign, began_ms, is_call=is_call)
        if connection is not None:
            connection.when_gone(waiting.woken.set)
        try:
            # In its principal's line first: what waits there takes no place of others in the tenant's.
            principals = await take_in_turn(self._own_pace, REQUEST_UNITS, waiting, self._clock)
            try:
                if is_call and principals is not None:
                    self._check_soon(self._pace())
                await take_in_turn(self._pace, REQUEST_UNITS, waiting, self._clock)
            except BaseException:
                _give_back(principals)
                raise
        finally:
            if connection is not None:
                connection.when_gone(None)
            self._stats.requests_throttled += 1
            waited_ms = int(self._clock.monotonic_ms() - began_ms)
            self._stats.requests_throttled_ms += waited_ms
            self._throttled(waited_ms)
        return waited_ms


def _give_back(pace: Pace | None) -> None:
    """A request that was counted does not go on."""
    if pace is not None:
        pace.correct(REQUEST_UNITS, 0)
        pace.line.wake_first()
