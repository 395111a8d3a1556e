"""Losses are declared here: the controller's elections of the longest log, and what operators demand of any broker.

The deciding broker first asks the others what their replicas have. The core decides. Each decision is one transaction
that also fails when a broker that was asked has been fenced since.
"""

import asyncio
from collections.abc import Callable, Iterable

from data_plane.contract import admin_pb2, methods
from data_plane.contract import replication_pb2 as pb
from data_plane.controller.losses import (
    LossWrite,
    ReplicaEnd,
    elect_longest,
    force_election,
    repair,
    waiting_in,
)
from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.losses import LossRecord
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, SessionLost, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Transport, peer_of
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed
from data_plane.node.stats import NodeStats
from data_plane.replication.health import reason_of
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition

_PARTITIONS_PER_CALL = 500
_TRIES = 20
_TROUBLE = (StoreUnavailable, OutcomeUnknown, SessionLost)


class DeclaredLosses:
    """`run` does the controller's part, the calls are for controllers and operators. `announce` is called with every
    loss that this broker declared, for the log.
    """

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        registration: Registration,
        store: MetaStore,
        transport: Transport,
        clock: Clock,
        stats: NodeStats,
        *,
        find: Callable[[TopicPartition], Replica | None],
        seated: Callable[[], bool],
        announce: Callable[[TopicPartition, LossRecord], None],
    ) -> None:
        """`announce` is called with each loss that this broker declares."""
        self._config = config
        self._view = view
        self._registration = registration
        self._store = store
        self._transport = transport
        self._clock = clock
        self._stats = stats
        self._find = find
        self._seated = seated
        self._announce = announce

    @property
    def _image(self) -> ClusterImage:
        return self._view.image

    # -- the controller ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """While this broker is the controller: elect where all last known replicas are back (RL47)."""
        looked_at = -1
        waiting: list[TopicPartition] = []
        begin = 0
        while True:
            await asyncio.sleep(self._config.timings.heartbeat_ms / 1000)
            if not self._seated():
                looked_at, waiting = -1, []
                continue
            if self._image.revision != looked_at:
                looked_at, waiting = self._image.revision, waiting_in(self._image)
            if waiting:
                # In turn: some may wait without an end, for a replica that is damaged or gone.
                begin = begin if begin < len(waiting) else 0
                asked = waiting[begin : begin + _PARTITIONS_PER_CALL]
                begin += len(asked)
                try:
                    await self._elect(asked)
                except _TROUBLE:
                    pass
                looked_at = -1
                await asyncio.sleep(self._config.timings.reconnect_ms / 1000)

    async def _elect(self, waiting: list[TopicPartition]) -> None:
        asked = {where: self._image.partition(where) for where in waiting}
        found = await self._collect(
            {where: record.last_known for where, record in asked.items() if record is not None}
        )
        for where in waiting:
            if not self._seated():
                return
            write = elect_longest(self._image, where, found.get(where, []), declared_ms=self._clock.now_ms())
            if write is not None:
                seat = Compare(broker_records.CONTROLLER_KEY, self._image.controller_epoch)
                await self._apply(where, write, (seat, self._registration.fence()))

    async def _apply(self, where: TopicPartition, write: LossWrite, authority: Iterable[Compare]) -> bool:
        """Raises `StoreUnavailable`, `OutcomeUnknown`."""
        result = await self._store.txn([*write.compares, *authority], write.changes)
        if result.succeeded:
            self._stats.declared_losses += 1
            self._announce(where, write.loss)
        await self._view.reached(result.revision, self._config.timings.call_ms)
        return result.succeeded

    # -- asking ------------------------------------------------------------------------------------------

    async def _collect(
        self, wanted: dict[TopicPartition, tuple[BrokerId, ...]]
    ) -> dict[TopicPartition, list[ReplicaEnd]]:
        """What the brokers wanted of each partition say. Who does not answer is left out."""
        by_broker: dict[BrokerId, list[TopicPartition]] = {}
        for where, brokers in wanted.items():
            for broker in brokers:
                by_broker.setdefault(broker, []).append(where)
        answers = await asyncio.gather(
            *(self._ask(broker, partitions) for broker, partitions in by_broker.items())
        )
        found: dict[TopicPartition, list[ReplicaEnd]] = {}
        for broker, answer in zip(by_broker, answers, strict=True):
            for end in answer.ends:
                found.setdefault(TopicPartition(TopicId(end.topic_id), end.partition), []).append(
                    ReplicaEnd(
                        broker=broker,
                        broker_epoch=answer.broker_epoch,
                        last_epoch=end.last_epoch,
                        log_end_offset=end.log_end_offset,
                        damage=end.damage,
                        sound_end_offset=end.sound_end_offset,
                    )
                )
        return found

    async def _ask(self, broker: BrokerId, partitions: list[TopicPartition]) -> pb.ReplicaEndsResponse:
        request = pb.ReplicaEndsRequest(
            revision=self._image.revision,
            partitions=[
                pb.EndOfReplica(topic_id=where.topic_id, partition=where.partition) for where in partitions
            ],
        )
        if broker == self._config.broker_id:
            return self._ends(request)
        known = self._image.brokers.get(broker)
        if known is None or not known.epoch:
            return pb.ReplicaEndsResponse()
        try:
            return pb.ReplicaEndsResponse.FromString(
                await self._transport.call(
                    peer_of(known.record),
                    methods.REPLICA_ENDS,
                    request.SerializeToString(),
                    self._config.timings.call_ms,
                )
            )
        except (CallFailed, ConnectionLost):
            return pb.ReplicaEndsResponse()

    async def replica_ends(self, caller: Caller, request: bytes) -> bytes:
        """Internal call: where replicas here end that follow no leader. Nothing moves the end of one that rests, or
        takes no writes. The end of any other is reported only to say that nothing is wrong with it.
        """
        wanted = parsed(pb.ReplicaEndsRequest, request)
        if not await self._view.reached(wanted.revision, self._config.timings.call_ms):
            raise CallFailed(
                ErrorCode.BROKER_UNAVAILABLE,
                f"this broker is at revision {self._image.revision}, {wanted.revision} was asked for",
            )
        return self._ends(wanted).SerializeToString()

    def _ends(self, wanted: pb.ReplicaEndsRequest) -> pb.ReplicaEndsResponse:
        response = pb.ReplicaEndsResponse(broker_epoch=self._registration.epoch)
        for one in wanted.partitions:
            replica = self._find(TopicPartition(TopicId(one.topic_id), one.partition))
            if replica is None or replica.busy or replica.following is not None:
                continue
            damage = reason_of(replica.health)
            response.ends.add(
                topic_id=one.topic_id,
                partition=one.partition,
                last_epoch=replica.log.last_epoch,
                log_end_offset=replica.log.log_end_offset,
                damage=damage,
                sound_end_offset=replica.sound_end_offset,
            )
        return response

    # -- operators ---------------------------------------------------------------------------------------

    async def declare_loss(self, caller: Caller, request: bytes) -> bytes:
        """Admin call: let a named replica lead (RL48), or cut the only copy where its damage begins (RL122)."""
        wanted = parsed(admin_pb2.DeclareLossRequest, request)
        response = admin_pb2.DeclareLossResponse()
        where = TopicPartition(TopicId(wanted.topic_id), wanted.partition)
        unknown: LossRecord | None = None
        for _ in range(_TRIES):
            losses = self._image.losses.get(where, {})
            if unknown is not None and losses.get(unknown.log_generation) == unknown:
                describe_loss(response.loss, where, unknown)
                response.outcome.revision, response.declared = self._image.revision, True
                return response.SerializeToString()
            try:
                write = await self._demanded(where, wanted)
            except PenstockError as refusal:
                response.outcome.error, response.outcome.message = refusal.code, refusal.message
                return response.SerializeToString()
            describe_loss(response.loss, where, write.loss)
            response.outcome.revision = self._image.revision
            if not wanted.accept_loss:
                return response.SerializeToString()
            try:
                if await self._apply(where, write, ()):
                    response.outcome.revision, response.declared = self._image.revision, True
                    return response.SerializeToString()
            except OutcomeUnknown:
                unknown = write.loss
                await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
            except StoreUnavailable:
                await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
        response.outcome.error = (
            ErrorCode.BROKER_UNAVAILABLE if unknown is None else errors.OutcomeUnknown.code
        )
        response.outcome.message = (
            "the metadata store does not answer"
            if unknown is None
            else "the loss may or may not have been declared; describe the partition"
        )
        return response.SerializeToString()

    async def _demanded(self, where: TopicPartition, wanted: admin_pb2.DeclareLossRequest) -> LossWrite:
        """What to write. Raises the refusal."""
        record = self._image.partition(where)
        if record is None:
            raise errors.NotFound(f"partition {where} does not exist")
        named = wanted.HasField("broker")
        broker = BrokerId(wanted.broker) if named else record.leader
        if not named and broker == NO_BROKER:
            raise errors.InvalidRequest(
                f"{where}: it has no leader; name the broker whose replica is to lead from now on"
            )
        end = ReplicaEnd(broker=broker, broker_epoch=0, last_epoch=-1, log_end_offset=0)
        if broker in record.replicas and (not named or record.leader == NO_BROKER):
            found = (await self._collect({where: (broker,)})).get(where)
            if not found:
                raise errors.BrokerUnavailable(
                    f"{where}: broker {broker} does not tell what its replica holds"
                    if named
                    else f"{where}: its leader, broker {broker}, does not answer"
                )
            end = found[0]
        decide = force_election if named else repair
        return decide(self._image, where, end, asked_by=wanted.asked_by, declared_ms=self._clock.now_ms())


def describe_loss(described: admin_pb2.DeclaredLoss, where: TopicPartition, loss: LossRecord) -> None:
    """Fill in the message."""
    described.tenant, described.topic = loss.tenant, loss.topic
    described.topic_id, described.partition = where.topic_id, where.partition
    described.kind, described.log_generation = loss.kind.value, loss.log_generation
    described.leader, described.leader_epoch = loss.leader, loss.leader_epoch
    described.offset, described.known_end_offset = loss.offset, loss.known_end_offset
    described.asked_by, described.declared_ms = loss.asked_by, loss.declared_ms
