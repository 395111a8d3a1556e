"""The gate every client request passes: who is it, is the key still good, may it do this to that topic."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from data_plane.authz.access import Authenticator, Operation, Principal
from data_plane.metadata.model import TenantQuotas, TopicRecord
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.admission.connections import OpenConnections
from data_plane.node.admission.key_use import KeyUse
from data_plane.node.ports import Caller, CallFailed, Clock
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import together
from data_plane.throttling.attempts import Attempts
from penstock.contract import errors, limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import TenantId, TopicId
from penstock.rules.limit_words import OPERATORS, limit_words

CONNECTIONS_MAX, CONNECTION_ATTEMPTS = "connections_max", "connection_attempts_per_s"
_EXPIRY_CHECK_MS = 250
"""Between looks at the clock while a key of an open stream has an expiry."""
_STREAMS_A_TURN = 500
"""Streams looked at before others have their turn of the event loop."""


class Gate:
    """Tenants come from the authenticated key alone; another tenant's object does not exist."""

    def __init__(
        self,
        authenticator: Authenticator,
        clock: Clock,
        stats: NodeStats,
        image_age_ms: Callable[[], float],
        quotas: Callable[[TenantId], TenantQuotas],
        connection_time: ConnectionTime,
    ) -> None:
        self._connection_time = connection_time
        self.authenticator = authenticator
        self._quotas = quotas
        self._attempts = Attempts()
        self._image_age_ms = image_age_ms
        self._clock = clock
        self._stats = stats
        self._open: dict[asyncio.Future[None], Principal] = {}
        """Conversations: what ends each, and whose it is."""
        self._look = asyncio.Event()
        self._calls: dict[TenantId, int] = {}
        """Open streams and calls; only tenants that have some."""
        self._of_tenants = OpenConnections()
        self._of_addresses = OpenConnections()
        self.key_use = KeyUse()

    @property
    def connections(self) -> int:
        """With calls open."""
        return self._of_addresses.total

    def connections_of(self, tenant: TenantId) -> int:
        """Connections on which the tenant has calls open."""
        return self._of_tenants.of(tenant)

    def admit(self, caller: Caller) -> Principal:
        """The principal behind a call, or `CallFailed` (unauthenticated, throttled, image too old)."""
        if caller.principal is not None:
            self.check(caller.principal)
            return caller.principal
        now_ms = self._clock.now_ms()
        try:
            principal = self.authenticator.authenticate(
                caller.authorization,
                peer=caller.peer,
                now_ms=now_ms,
                monotonic_ms=self._clock.monotonic_ms(),
                image_age_ms=self._image_age_ms(),
            )
        except PenstockError as refusal:
            self._stats.authentication_failures += 1
            raise CallFailed(refusal.code, refusal.message) from None
        self.key_use.note(principal.key_id, now_ms)
        return principal

    @contextmanager
    def enter(self, caller: Caller) -> Iterator[Principal]:
        """A call or stream is open within the block. Raises `CallFailed` as `admit` does, and when its address or its
        tenant has too many open, or begins connections too fast: an address before any key is looked at. A tenant is
        known by a right key alone, or anyone could use up its rate by the id of a key.
        """
        connection = caller.connection or caller.peer
        connections = self._of_addresses.would_be(caller.peer, connection)
        self._check_limit("CONNECTIONS_PER_ADDRESS_MAX", limits.CONNECTIONS_PER_ADDRESS_MAX, connections)
        principal = self.admit(caller)
        tenant = principal.tenant
        self._check_attempt(tenant, connection)
        calls = self._calls.get(tenant, 0) + 1
        self._check_limit("CALLS_PER_TENANT_MAX", limits.CALLS_PER_TENANT_MAX, calls, tenant)
        # A limit that is lowered below what is open ends no connection, and takes nothing from those that are open.
        if not self._of_tenants.has(tenant, connection):
            connections = self._of_tenants.would_be(tenant, connection)
            self._check_limit(*self._connections_limit(tenant), connections, tenant)
        self._calls[tenant] = calls
        self._of_tenants.begin(tenant, connection)
        self._of_addresses.begin(caller.peer, connection)
        time, number = self._connection_time, principal.number
        time.begin(tenant, number, connection, int(self._clock.monotonic_ms()))
        try:
            yield principal
        finally:
            time.end(tenant, number, connection, int(self._clock.monotonic_ms()))
            self._of_addresses.end(caller.peer, connection)
            self._of_tenants.end(tenant, connection)
            self._calls[tenant] -= 1
            if not self._calls[tenant]:
                del self._calls[tenant]

    def _check_attempt(self, tenant: TenantId, connection: str) -> None:
        quotas = self._quotas(tenant)
        per_s = quotas.connection_attempts_per_s
        if per_s and self._of_tenants.has(tenant, connection):
            return
        wait_ms = self._attempts.wait_ms(
            tenant, connection, per_s, self._clock.monotonic_ms(), burst_ms=quotas.rate_burst_ms
        )
        if wait_ms:
            self._stats.calls_over_limits += 1
            self._stats.limit_refusals.note(tenant, CONNECTION_ATTEMPTS)
            raise CallFailed(
                ErrorCode.THROTTLED,
                limit_words(
                    CONNECTION_ATTEMPTS,
                    f"{per_s} connections of the tenant a second may begin at this broker, all used; keep them open, a"
                    " client needs one here",
                    clears=f"in {int(wait_ms) + 1} ms",
                    raised_by=OPERATORS,
                ),
            )

    def _connections_limit(self, tenant: TenantId) -> tuple[str, int]:
        """(name, value) of the lower one of the tenant's own limit and every tenant's."""
        own = self._quotas(tenant).connections_max
        if 0 < own < limits.CONNECTIONS_PER_TENANT_MAX:
            return CONNECTIONS_MAX, own
        return "CONNECTIONS_PER_TENANT_MAX", limits.CONNECTIONS_PER_TENANT_MAX

    def _check_limit(self, limit: str, most: int, wanted: int, tenant: str = "") -> None:
        """`wanted`: with the one that comes; of the address where no tenant is named."""
        if wanted > most:
            self._stats.calls_over_limits += 1
            self._stats.limit_refusals.note(tenant, limit)
            whose = "the tenant" if tenant else "the address"
            what = "streams and calls" if limit == "CALLS_PER_TENANT_MAX" else "connections with calls"
            more = ", or ask for a higher limit" if limit == CONNECTIONS_MAX else ""
            raise CallFailed(
                ErrorCode.LIMIT_EXCEEDED,
                f"{limit}: {whose} has {wanted - 1} {what} open at this broker, at most {most} allowed; close clients "
                f"that are not used{more}",
            )

    def check(self, principal: Principal) -> None:
        """Something is said on a stream. Raise `CallFailed` when the key was revoked or has expired, or its tenant was
        suspended, since it began.
        """
        now_ms = self._clock.now_ms()
        self._check_still_valid(principal, now_ms)
        self.key_use.note(principal.key_id, now_ms)

    def _check_still_valid(self, principal: Principal, now_ms: int) -> None:
        try:
            self.authenticator.check_still_valid(principal, now_ms)
        except PenstockError as refusal:
            raise CallFailed(refusal.code, refusal.message) from None

    async def during(self, principal: Principal, conversation: Coroutine[Any, Any, None]) -> None:
        """Run a stream's conversation; it ends with `CallFailed` as soon as the key may no longer be used, also while
        nothing is said.
        """
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[refused] = principal
        if self.authenticator.expires_at_ms(principal):
            self._look.set()
        try:
            await together(_until(conversation, refused), _refusal(refused))
        finally:
            del self._open[refused]
            if refused.done() and not refused.cancelled():
                refused.exception()  # what ended first reports it

    def recheck(self) -> None:
        """Keys or tenants changed: look at every open stream."""
        self._look.set()

    async def run(self) -> None:
        """End the conversations of keys that may no longer be used. Runs without an end."""
        while True:
            self._look.clear()
            some_expire = False
            for number, (refused, principal) in enumerate(list(self._open.items())):
                if refused.done():
                    continue
                try:
                    self._check_still_valid(principal, self._clock.now_ms())
                    some_expire = some_expire or self.authenticator.expires_at_ms(principal) != 0
                except CallFailed as failed:
                    refused.set_exception(failed)
                if number % _STREAMS_A_TURN == _STREAMS_A_TURN - 1:
                    await asyncio.sleep(0)
            try:
                async with asyncio.timeout(_EXPIRY_CHECK_MS / 1000 if some_expire else None):
                    await self._look.wait()
            except TimeoutError:
                pass

    def authorize(self, principal: Principal, operation: Operation, topic: TopicRecord) -> None:
        """Raise `NotFound` for another tenant's topic and `Forbidden` for what the key may not do."""
        self.authenticator.authorize(principal, operation, topic)

    def refuse_unknown(
        self, principal: Principal, operation: Operation, topic_id: bytes, partition: int
    ) -> NoReturn:
        """The refusal for a partition that has no replica here."""
        topic = self.authenticator.topic_by_id(principal, operation, TopicId(topic_id))
        if not 0 <= partition < topic.partitions:
            raise errors.NotFound(f"{topic.name}: no partition {partition}, it has {topic.partitions}")
        raise errors.NotLeader(f"{topic.name}-{partition}: no replica on this broker")


async def _until(conversation: Coroutine[Any, Any, None], refused: "asyncio.Future[None]") -> None:
    await conversation
    if not refused.done():
        refused.set_result(None)


async def _refusal(refused: "asyncio.Future[None]") -> None:
    await refused
