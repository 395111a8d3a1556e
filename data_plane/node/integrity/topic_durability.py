"""How safe the records of a topic are, gathered from the leaders of its partitions for the control plane (RL132)."""

import asyncio

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import TOPIC_DURABILITY
from data_plane.node.config import NodeConfig
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, ConnectionLost, Transport, peer_of
from data_plane.node.requests import parsed
from penstock.contract.errors import BrokerUnavailable, NoLeader, NotFound, PenstockError
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition


class TopicDurability:
    """Any broker takes the call, and asks those that lead."""

    def __init__(
        self, config: NodeConfig, view: MetadataView, transport: Transport, scrubber: Scrubber
    ) -> None:
        self._config = config
        self._view = view
        self._transport = transport
        self._scrubber = scrubber

    async def describe(self, caller: Caller, request: bytes) -> bytes:
        """Every partition of the topic; with `partitions` those, as this broker leads them. One of which nothing is
        known now carries an error."""
        wanted = parsed(pb.TopicDurabilityRequest, request)
        topic_id = TopicId(wanted.topic_id)
        response = pb.TopicDurabilityResponse()
        if wanted.partitions:
            response.partitions.extend(self._own(topic_id, number) for number in wanted.partitions)
            return response.SerializeToString()
        try:
            found = await self._of_all(topic_id)
        except PenstockError as refusal:
            response.outcome.error, response.outcome.message = refusal.code, refusal.message
            return response.SerializeToString()
        response.partitions.extend(found[number] for number in sorted(found))
        return response.SerializeToString()

    async def _of_all(self, topic_id: TopicId) -> dict[int, pb.DescribedDurability]:
        image = self._view.image
        if topic_id not in image.topics:
            raise NotFound(f"topic {topic_id.hex()} does not exist")
        led: dict[BrokerId, list[int]] = {}
        for record in image.partitions_of(topic_id):
            led.setdefault(record.leader, []).append(record.partition)
        described = await asyncio.gather(
            *(self._at(topic_id, leader, numbers) for leader, numbers in led.items())
        )
        return {one.partition: one for part in described for one in part}

    async def _at(
        self, topic_id: TopicId, leader: BrokerId, numbers: list[int]
    ) -> list[pb.DescribedDurability]:
        if leader == NO_BROKER:
            return [_refused(number, NoLeader("no leader now")) for number in numbers]
        if leader == self._config.broker_id:
            return [self._own(topic_id, number) for number in numbers]
        known = self._view.image.brokers.get(leader)
        lost = BrokerUnavailable(f"its leader, broker {leader}, does not answer")
        if known is None or not known.epoch:
            return [_refused(number, lost) for number in numbers]
        request = pb.TopicDurabilityRequest(topic_id=topic_id, partitions=numbers).SerializeToString()
        try:
            answer = await self._transport.call(
                peer_of(known.record),
                TOPIC_DURABILITY,
                request,
                2 * self._config.timings.heartbeat_ms,
            )
        except (ConnectionLost, CallFailed):
            return [_refused(number, lost) for number in numbers]
        return list(pb.TopicDurabilityResponse.FromString(answer).partitions)

    def _own(self, topic_id: TopicId, number: int) -> pb.DescribedDurability:
        described = pb.DescribedDurability(partition=number, verified_ms=-1)
        try:
            self._scrubber.describe(TopicPartition(topic_id, number), described)
        except PenstockError as refusal:
            return _refused(number, refusal)
        return described


def _refused(number: int, refusal: PenstockError) -> pb.DescribedDurability:
    return pb.DescribedDurability(
        partition=number, verified_ms=-1, error=refusal.code, message=refusal.message
    )
