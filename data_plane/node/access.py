"""The gate every client request passes: who is it, is the key still good, may it do this to that topic."""

from collections.abc import Callable
from typing import NoReturn

from data_plane.authz.access import Authenticator, Operation, Principal
from data_plane.metadata.model import TopicRecord
from data_plane.node.ports import Caller, CallFailed, Clock
from data_plane.node.stats import NodeStats
from penstock.contract import errors
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId


class Gate:
    """Tenants come from the authenticated key alone; another tenant's object does not exist."""

    def __init__(
        self, authenticator: Authenticator, clock: Clock, stats: NodeStats, image_age_ms: Callable[[], float]
    ) -> None:
        self.authenticator = authenticator
        self._image_age_ms = image_age_ms
        self._clock, self._stats = clock, stats

    def admit(self, caller: Caller) -> Principal:
        """The principal behind a call, or `CallFailed` (unauthenticated, throttled, image too old)."""
        try:
            return self.authenticator.authenticate(
                caller.authorization,
                peer=caller.peer,
                now_ms=self._clock.now_ms(),
                monotonic_ms=self._clock.monotonic_ms(),
                image_age_ms=self._image_age_ms(),
            )
        except PenstockError as refusal:
            self._stats.authentication_failures += 1
            raise CallFailed(refusal.code, refusal.message) from None

    def check(self, principal: Principal) -> None:
        """Raise `CallFailed` when the key was revoked, changed or has expired since the stream began."""
        if not self.authenticator.still_valid(principal, self._clock.now_ms()):
            raise CallFailed(errors.Unauthenticated.code, "the API key was revoked or has expired")

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
