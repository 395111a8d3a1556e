"""Clients' use of this broker between two records of `__usage`: deliveries, requests, delays, connections, and requests
that no leader was there for.
"""

from collections.abc import Callable

from data_plane.metadata.model import TopicRecord
from data_plane.metering.connection_time import ConnectionTime
from data_plane.metering.increments import (
    DeliveredKey,
    DeliveredTally,
    ElapsedKey,
    Increments,
    RequestTally,
)
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import SYSTEM_TENANT, TenantId
from penstock.records.usage import minute_of
from penstock.rules.service_levels import FETCH, METADATA, PRODUCE


class ClientUse:
    """Counts cheaply in tallies, which `gather` adds to `increments`. The system tenant is not counted."""

    def __init__(
        self, clock: Clock, connection_time: ConnectionTime, is_counting: Callable[[], bool]
    ) -> None:
        """While `is_counting` says no, what is gathered is forgotten: it could not be written."""
        self._clock = clock
        self._connection_time = connection_time
        self._is_counting = is_counting
        self._tallies: dict[RequestTally, None] = {}
        self._delivered: dict[DeliveredTally, tuple[Replica, int]] = {}
        """Tallies that have something to be gathered, with the replica and the principal that has taken it."""
        self.increments = Increments()

    def delivered(self, replica: Replica, principal: int, tally: DeliveredTally) -> None:
        """A consumer has taken the first messages since the tally was gathered, by the credit that it gave back."""
        self._delivered[tally] = replica, principal

    def throttled(
        self, tenant: TenantId, principal: int, milliseconds: int, topic: TopicRecord | None = None
    ) -> None:
        """A limit delayed a batch, a push or a request. Another tenant's `topic` is not named."""
        if milliseconds > 0 and self._counts(tenant):
            self.increments.elapsed(self._elapsed_key(tenant, principal, topic), throttled_ms=milliseconds)

    def not_served(self, topic: TopicRecord, partition: int, seconds: int) -> None:
        """The partition had no leader for so long: each second fails a request to produce and one to fetch."""
        if self._counts(topic.tenant):
            key = self._elapsed_key(topic.tenant, 0, topic)._replace(partition=partition)
            self.increments.elapsed(key, leaderless_ms=seconds * 1_000)
        for operation in (PRODUCE, FETCH):
            tally = RequestTally(topic.tenant, operation)
            tally.fail(seconds)
            self._gather_requests(tally)

    def tally(self, tenant: TenantId, operation: str) -> RequestTally:
        """A counter for one stream; `drop` it at the stream's end."""
        tally = RequestTally(tenant, operation)
        self._tallies[tally] = None
        return tally

    def drop(self, tally: RequestTally) -> None:
        self._tallies.pop(tally, None)
        self._gather_requests(tally)

    def count_call(self, tenant: TenantId, error: int) -> None:
        """One unary call of a client was answered."""
        tally = RequestTally(tenant, METADATA)
        tally.count(error)
        self._gather_requests(tally)

    def gather(self) -> None:
        """Have everything up to now in `increments`."""
        for tenant, principal, milliseconds in self._connection_time.take(int(self._clock.monotonic_ms())):
            if self._counts(tenant):
                self.increments.elapsed(self._elapsed_key(tenant, principal), connection_ms=milliseconds)
        self._gather_delivered()
        for tally in self._tallies:
            self._gather_requests(tally)

    def _gather_delivered(self) -> None:
        minute = minute_of(self._clock.now_ms())
        for tally, (replica, principal) in self._delivered.items():
            topic, partition = replica.topic, replica.where.partition
            if self._counts(topic.tenant):
                key = DeliveredKey(
                    topic.tenant, topic.topic_id, topic.name, partition, tally.group, principal, minute
                )
                self.increments.delivered(key, tally)
            tally.clear()
        self._delivered.clear()

    def _gather_requests(self, tally: RequestTally) -> None:
        if self._counts(tally.tenant):
            self.increments.gather(tally, self._clock.now_ms())

    def _elapsed_key(self, tenant: TenantId, principal: int, topic: TopicRecord | None = None) -> ElapsedKey:
        minute = minute_of(self._clock.now_ms())
        if topic is None or topic.tenant != tenant:
            return ElapsedKey(tenant, b"", "", principal, minute, 0)
        return ElapsedKey(tenant, topic.topic_id, topic.name, principal, minute, 0)

    def _counts(self, tenant: TenantId) -> bool:
        return self._is_counting() and tenant != SYSTEM_TENANT
