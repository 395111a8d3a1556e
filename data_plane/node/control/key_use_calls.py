"""Operators' call about the use of API keys."""

import heapq

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import DESCRIBE_KEY_USE
from data_plane.node.admission.key_use import PAGE, KeyUse
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, CallHandler, ConnectionLost, peer_of
from data_plane.node.requests import parsed
from penstock.contract.ids import BrokerId


class KeyUseCalls:
    """Answers for this broker, or for all: it asks the others. Those that do not answer are asked the next time."""

    def __init__(self, environment: Environment, view: MetadataView, use: KeyUse) -> None:
        self._config, self._transport, self._clock = (
            environment.config,
            environment.transport,
            environment.clock,
        )
        self._view, self._use = view, use

    def internal_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_KEY_USE: self.describe}

    def peer_calls(self) -> dict[str, CallHandler]:
        return {DESCRIBE_KEY_USE: self.describe}

    async def describe(self, caller: Caller, request: bytes) -> bytes:
        """Raises `InvalidRequest`."""
        wanted = parsed(pb.DescribeKeyUseRequest, request)
        own = self._use.page(after=wanted.after, within_ms=wanted.within_ms, now_ms=self._clock.now_ms())
        pages, more = [own], len(own) == PAGE
        if not wanted.local:
            for broker in sorted(self._view.image.brokers):
                if broker != self._config.broker_id:
                    found, rest = await self._at(broker, wanted)
                    pages.append(found)
                    more = more or rest
        ages: dict[str, int] = {}
        for page in pages:
            for key_id, age_ms in page:
                ages[key_id] = min(age_ms, ages.get(key_id, age_ms))
        first = heapq.nsmallest(PAGE, ages.items())
        return pb.DescribeKeyUseResponse(
            keys=[pb.KeyUse(key_id=key_id, age_ms=age_ms) for key_id, age_ms in first],
            more=more or len(ages) > PAGE,
        ).SerializeToString()

    async def _at(
        self, broker: BrokerId, wanted: pb.DescribeKeyUseRequest
    ) -> tuple[list[tuple[str, int]], bool]:
        known = self._view.image.brokers[broker]
        if not known.epoch:
            return [], False
        request = pb.DescribeKeyUseRequest(local=True, after=wanted.after, within_ms=wanted.within_ms)
        try:
            answer = await self._transport.call(
                peer_of(known.record),
                DESCRIBE_KEY_USE,
                request.SerializeToString(),
                self._config.timings.suspicion_ms,
            )
        except (ConnectionLost, CallFailed):
            return [], False
        found = pb.DescribeKeyUseResponse.FromString(answer)
        return [(one.key_id, one.age_ms) for one in found.keys], found.more
