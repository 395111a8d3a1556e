"""Admin calls about where partitions are: replicas, leaders, brokers taken out of use; and the feature level."""

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.methods import DESCRIBE_MOVES
from data_plane.controller import cordons, features, reassignment
from data_plane.controller.leader_return import LeaderMove
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.node.config import NodeConfig
from data_plane.node.control.admin_calls import AdminCalls, Change
from data_plane.node.control.handover import Handover
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Transport, peer_of
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.requests import parsed
from data_plane.replication.leader import LeaderState
from data_plane.replication.progress import UNKNOWN_END
from penstock.contract.errors import BrokerUnavailable, ErrorCode, NotFound, PenstockError
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition


class PlacementCalls:
    """Any broker takes them. The data plane never places replicas: the call names the brokers."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        admin: AdminCalls,
        replicas: ReplicaSet,
        handover: Handover,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._config = config
        self._view = view
        self._admin = admin
        self._replicas = replicas
        self._handover = handover
        self._transport = transport
        self._clock = clock

    async def alter_replicas(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.AlterReplicasRequest, request)
        where = TopicPartition(TopicId(wanted.topic_id), wanted.partition)
        target = None if wanted.cancel else list(wanted.replicas)

        def decide() -> Change:
            return reassignment.alter_replicas(self._view.image, where, target)

        return (await self._admin.carry_out(decide)).SerializeToString()

    async def cordon_broker(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.CordonBrokerRequest, request)

        def decide() -> Change:
            return cordons.cordon(
                self._view.image,
                BrokerId(wanted.broker),
                cordoned=wanted.cordoned,
                generation=wanted.generation,
            )

        return (await self._admin.carry_out(decide)).SerializeToString()

    async def forget_broker(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.ForgetBrokerRequest, request)

        def decide() -> Change:
            return cordons.forget_broker(self._view.image, BrokerId(wanted.broker))

        return (await self._admin.carry_out(decide)).SerializeToString()

    async def set_feature_level(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.SetFeatureLevelRequest, request)
        if not await self._view.caught_up(self._config.timings.call_ms):
            outcome = pb.Outcome(
                error=ErrorCode.BROKER_UNAVAILABLE, message="the metadata store does not answer"
            )
            return outcome.SerializeToString()

        def decide() -> Change:
            return features.set_level(self._view.image, wanted.level)

        return (await self._admin.carry_out(decide)).SerializeToString()

    async def move_leader(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.MoveLeaderRequest, request)
        where = TopicPartition(TopicId(wanted.topic_id), wanted.partition)
        try:
            record = self._view.image.partition(where)
            if record is None or where.topic_id not in self._view.image.topics:
                raise NotFound(f"partition {where} does not exist")
            await self._move(where, record, BrokerId(wanted.broker))
        except PenstockError as refusal:
            return pb.Outcome(error=refusal.code, message=refusal.message).SerializeToString()
        return pb.Outcome(revision=self._view.image.revision).SerializeToString()

    async def _move(self, where: TopicPartition, record: PartitionRecord, to: BrokerId) -> None:
        name = f"{self._view.image.topics[where.topic_id].name}-{where.partition}"
        if record.leader == to:
            return
        if record.leader == NO_BROKER:
            raise BrokerUnavailable(f"{name}: it has no leader now")
        wanted = LeaderMove(where=where, leader=record.leader, leader_epoch=record.leader_epoch, to=to)
        try:
            (reason,) = await self._handover.ask(record.leader, [wanted])
        except (ConnectionLost, CallFailed) as lost:
            raise BrokerUnavailable(
                f"{name}: its leader, broker {record.leader}, does not answer: {lost}"
            ) from None
        if reason:
            raise BrokerUnavailable(f"{name}: its leader stays: {reason}")

    # -- reassignments under way -------------------------------------------------------------------------

    async def describe_moves(self, caller: Caller, request: bytes) -> bytes:
        wanted = parsed(pb.DescribeMovesRequest, request)
        response = pb.DescribeMovesResponse()
        moving = _moving(self._view.image)
        progress: dict[TopicPartition, list[pb.MoveProgress]] = {}
        leaders = dict.fromkeys(record.leader for _, record in moving)
        for leader in leaders:
            if leader == self._config.broker_id:
                progress.update(self._own_progress(moving))
            elif not wanted.local and leader != NO_BROKER:
                progress.update(await self._progress_at(leader))
        for where, record in moving:
            if wanted.local and record.leader != self._config.broker_id:
                continue
            topic = self._view.image.topics[where.topic_id]
            response.moves.add(
                tenant=topic.tenant,
                topic=topic.name,
                topic_id=where.topic_id,
                partition=where.partition,
                leader=record.leader,
                replicas=record.replicas,
                target=record.target,
                adding=record.adding,
                removing=record.removing,
                in_sync=record.in_sync,
                progress=progress.get(where, []),
            )
        return response.SerializeToString()

    def _own_progress(
        self, moving: list[tuple[TopicPartition, PartitionRecord]]
    ) -> dict[TopicPartition, list[pb.MoveProgress]]:
        found: dict[TopicPartition, list[pb.MoveProgress]] = {}
        for where, record in moving:
            replica = self._replicas.find(where)
            if replica is not None and replica.leading is not None:
                leading = replica.leading
                found[where] = [_progress(replica, leading, broker) for broker in record.adding]
        return found

    async def _progress_at(self, leader: BrokerId) -> dict[TopicPartition, list[pb.MoveProgress]]:
        known = self._view.image.brokers.get(leader)
        if known is None or not known.epoch:
            return {}
        request = pb.DescribeMovesRequest(local=True).SerializeToString()
        try:
            answer = await self._transport.call(
                peer_of(known.record), DESCRIBE_MOVES, request, self._config.timings.suspicion_ms
            )
        except (ConnectionLost, CallFailed):
            return {}
        return {
            TopicPartition(TopicId(move.topic_id), move.partition): list(move.progress)
            for move in pb.DescribeMovesResponse.FromString(answer).moves
        }


def _moving(image: ClusterImage) -> list[tuple[TopicPartition, PartitionRecord]]:
    return [
        (TopicPartition(topic_id, record.partition), record)
        for topic_id in sorted(image.blocks)
        if topic_id in image.topics
        for record in image.partitions_of(topic_id)
        if record.target
    ]


def _progress(replica: Replica, leading: LeaderState, broker: BrokerId) -> pb.MoveProgress:
    log = replica.log
    end = leading.counted_end_of(broker) if broker in leading.record.replicas else UNKNOWN_END
    in_sync = broker in leading.record.in_sync
    if end == UNKNOWN_END:
        return pb.MoveProgress(broker=broker, in_sync=in_sync, offsets_left=-1, bytes_left=-1)
    left = max(0, log.log_end_offset - max(end, log.log_start_offset))
    offsets = max(1, log.log_end_offset - log.log_start_offset)
    return pb.MoveProgress(
        broker=broker, in_sync=in_sync, offsets_left=left, bytes_left=log.size_bytes * left // offsets
    )
