"""Operators' call about what a tenant uses of the limits that brokers know: connections, groups, bytes kept."""

import asyncio
from collections.abc import Callable

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import DESCRIBE_TENANT_USE
from data_plane.metadata.model import TopicRecord
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, CallHandler, ConnectionLost, peer_of
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId

ASK_MS = 700
"""For all other brokers together: who asks waits for a second, and then hears of none."""
_AT_ONCE = 64


class TenantUseCalls:
    """Answers for this broker, or for all: it asks the others, and names those that are silent."""

    def __init__(
        self,
        environment: Environment,
        view: MetadataView,
        replicas: ReplicaSet,
        *,
        connections: Callable[[TenantId], int],
        groups: Callable[[TenantId], int | None],
        groups_topic: Callable[[], TopicRecord | None],
    ) -> None:
        """`groups`: None while a partition that this broker leads is being loaded."""
        self._config = environment.config
        self._transport = environment.transport
        self._begin_turn = environment.begin_turn
        self._clock = environment.clock
        self._view = view
        self._replicas = replicas
        self._connections = connections
        self._groups = groups
        self._groups_topic = groups_topic

    def internal_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_TENANT_USE: self.describe}

    def peer_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_TENANT_USE: self.describe}

    async def describe(self, caller: Caller, request: bytes) -> bytes:
        """Raises `InvalidRequest`."""
        wanted = parsed(pb.DescribeTenantUseRequest, request)
        tenant = TenantId(wanted.tenant)
        use = await self._own(tenant)
        if not wanted.local:
            use.leaderless = self._leaderless(tenant)
            known = self._view.image.brokers
            others = [
                broker for broker in sorted(known) if broker != self._config.broker_id and known[broker].epoch
            ]
            for broker, found in (await self._of(others, wanted.tenant)).items():
                if found is None:
                    use.silent.append(broker)
                    continue
                use.silent.extend(found.silent)
                use.connections = max(use.connections, found.connections)
                use.groups += found.groups
                use.storage_bytes += found.storage_bytes
        return use.SerializeToString()

    async def _own(self, tenant: TenantId) -> pb.DescribeTenantUseResponse:
        kept = 0
        async for replica in self._begin_turn().through(self._replicas.all()):
            topic = replica.topic
            if replica.leading is not None and topic.tenant == tenant and topic.metered:
                kept += replica.log.size_bytes
        groups = self._groups(tenant)
        return pb.DescribeTenantUseResponse(
            connections=self._connections(tenant),
            groups=groups or 0,
            storage_bytes=kept,
            silent=[self._config.broker_id] if groups is None else [],
        )

    def _leaderless(self, tenant: TenantId) -> int:
        image, groups = self._view.image, self._groups_topic()
        topics = [topic for topic in image.topics.values() if topic.tenant == tenant]
        if groups is not None:
            topics.append(groups)
        return sum(
            record.leader == NO_BROKER for topic in topics for record in image.partitions_of(topic.topic_id)
        )

    async def _of(
        self, brokers: list[BrokerId], tenant: str
    ) -> dict[BrokerId, pb.DescribeTenantUseResponse | None]:
        """What each says in the time that there is for all; None: it is silent."""
        until_ms = self._clock.monotonic_ms() + ASK_MS
        answers: list[pb.DescribeTenantUseResponse | None] = []
        for first in range(0, len(brokers), _AT_ONCE):
            left_ms = max(1, int(until_ms - self._clock.monotonic_ms()))
            some = brokers[first : first + _AT_ONCE]
            answers += await asyncio.gather(*(self._at(broker, tenant, left_ms) for broker in some))
        return dict(zip(brokers, answers, strict=True))

    async def _at(
        self, broker: BrokerId, tenant: str, timeout_ms: int
    ) -> pb.DescribeTenantUseResponse | None:
        known = self._view.image.brokers.get(broker)
        if known is None:
            return None
        request = pb.DescribeTenantUseRequest(tenant=tenant, local=True)
        try:
            answer = await self._transport.call(
                peer_of(known.record), DESCRIBE_TENANT_USE, request.SerializeToString(), timeout_ms
            )
        except (ConnectionLost, CallFailed):
            return None
        return pb.DescribeTenantUseResponse.FromString(answer)
