"""What clients ask besides produce and consume: metadata, offsets, producer ids."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial

from data_plane.authz.access import Operation, Principal
from data_plane.controller.topics import take_producer_ids
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import MetaStore, OutcomeUnknown, StoreUnavailable, WatchBatch
from data_plane.node.admission.fairness import Fairness
from data_plane.node.admission.gate import Gate
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed, require_few
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.tasks import Turn, in_turns
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import NO_PRODUCER_ID, TenantId, TopicId, TopicPartition
from penstock.contract.limits import CALL_WAIT_MS_MAX
from penstock.contract.methods import BEGINNING, END
from penstock.contract.v1 import log_pb2 as pb

_EPOCH_MAX = 2**15 - 1
_TRIES = 20
_DESCRIBED_A_TURN = 50
"""Topics and partitions that are described before others have their turn of the event loop."""


class ClientCalls:
    """Handlers of the client listener's calls and watches. Names are looked up within the caller's tenant only."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        gate: Gate,
        store: MetaStore,
        find: Callable[[TopicPartition], Replica | None],
        count: Callable[[TenantId, int], None],
        fairness: Fairness,
        *,
        requests: RequestTurns,
        begin_turn: Callable[[], Turn],
    ) -> None:
        """`count` is called with each answer's tenant and error code."""
        self._begin_turn = begin_turn
        self._requests = requests
        self._count = count
        self._fairness = fairness
        self._config = config
        self._view = view
        self._gate = gate
        self._store = store
        self._find = find
        self._next_producer_id = self._producer_ids_end = 0
        self._taking = asyncio.Lock()

    @property
    def _image(self) -> ClusterImage:
        return self._view.image

    # -- metadata ----------------------------------------------------------------------------------------

    async def metadata(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted = parsed(pb.MetadataRequest, request)
        require_few(len(wanted.topics), "topics")
        names = dict.fromkeys(wanted.topics)
        if wanted.all_topics:
            names = dict.fromkeys(topic.name for topic in self._gate.authenticator.topics(principal))
        unknown = await self._unknown(principal, names)
        if unknown:
            self._count(principal.tenant, ErrorCode.BROKER_UNAVAILABLE)
            raise CallFailed(
                ErrorCode.BROKER_UNAVAILABLE,
                f"{next(iter(unknown))}: this broker's metadata is behind, and does not tell whether the topic exists",
            )
        self._count(principal.tenant, ErrorCode.OK)
        return (await self._metadata(principal, names)).SerializeToString()

    async def _unknown(self, principal: Principal, names: Collection[str]) -> Collection[str]:
        """Those of which this broker does not know whether there is such a topic.

        A creation is acknowledged when the metadata store has it, and this broker may hear of it later. So a name that
        the image does not have is a reason to catch up with the store before the topic is said not to exist.
        """
        missing = self._missing(principal, names)
        if not missing or await self._view.caught_up(self._config.timings.catch_up_wait_ms):
            return ()
        return self._missing(principal, missing)

    def _missing(self, principal: Principal, names: Collection[str]) -> Collection[str]:
        known = self._image.names_of.get(principal.tenant, {})
        return [name for name in names if name not in known]

    async def _metadata(self, principal: Principal, names: Collection[str]) -> pb.MetadataResponse:
        """Of each name, not before the revision that it says; others have their turns meanwhile."""
        image = self._image
        response = pb.MetadataResponse(cluster_id=image.cluster_id, revision=image.revision)
        for broker in sorted(image.brokers):
            known = image.brokers[broker]
            if known.epoch:
                record = known.record
                response.brokers.add(
                    id=broker, address=record.client_address, zone=record.zone, host=record.host
                )
        count = 0
        for name in names:
            count += 1
            if count >= _DESCRIBED_A_TURN:
                count = 0
                await asyncio.sleep(0)
            try:
                topic = self._gate.authenticator.topic(principal, Operation.DESCRIBE, name)
            except PenstockError as refusal:
                response.topics.add(name=name, error=refusal.code, message=refusal.message)
                continue
            records = self._image.partitions_of(topic.topic_id)
            described = response.topics.add(name=topic.name, topic_id=topic.topic_id)
            described.settings_json = json.dumps(topic.settings.to_dict())
            async for some in in_turns(records, _DESCRIBED_A_TURN):
                self._describe(described, some)
            count += len(records)
        return response

    def _describe(self, described: pb.TopicMetadata, records: Iterable[PartitionRecord]) -> None:
        for record in records:
            alive = record.leader >= 0 and self._image.epoch_of(record.leader) != 0
            described.partitions.add(
                partition=record.partition,
                leader=record.leader if alive else -1,
                leader_epoch=record.leader_epoch,
                replicas=record.replicas,
                in_sync=record.in_sync,
                log_generation=record.log_generation,
            )

    async def watch_metadata(
        self, caller: Caller, request: bytes, push: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """The whole first, then each change of the topics or brokers, until the client leaves or the key is gone."""
        principal = self._gate.admit(caller)
        waited_ms = await self._requests.of(principal.tenant, principal.key_id, principal.number).call()
        asked = parsed(pb.WatchMetadataRequest, request).topics
        require_few(len(asked), "topics")
        names = dict.fromkeys(asked)
        left_ms = max(0, CALL_WAIT_MS_MAX - waited_ms)
        await self._gate.during(principal, self._push_metadata(principal, names, push, left_ms))

    async def _push_metadata(
        self,
        principal: Principal,
        names: Collection[str],
        push: Callable[[bytes], Awaitable[None]],
        wait_ms_max: float,
    ) -> None:
        """The first push waits no longer than that for its tenant's limits: a client takes a broker that sends none for
        one that is stopped."""
        turns = self._fairness.of(principal.tenant)
        changed = asyncio.Event()
        changed.set()

        def observe(batch: WatchBatch | None) -> None:
            if batch is None or any(
                self._image.concerns(event.key, principal.tenant) for event in batch.events
            ):
                changed.set()

        self._view.listen(observe)
        try:
            pushed = b""
            unknown = {*await self._unknown(principal, names)}
            while True:
                await changed.wait()
                changed.clear()
                self._gate.check(principal)
                unknown.intersection_update(self._missing(principal, unknown))
                shown = [name for name in names if name not in unknown]
                essence, response = await turns.asked(
                    partial(self._shown, principal, shown), None if pushed else wait_ms_max
                )
                if essence != pushed:
                    pushed = essence
                    await push(response)
        finally:
            self._view.unlisten(observe)

    async def _shown(self, principal: Principal, names: Collection[str]) -> tuple[bytes, bytes]:
        """(what a watcher hears of if it changes, the response)."""
        response = await self._metadata(principal, names)
        revision, response.revision = response.revision, 0
        essence = response.SerializeToString(deterministic=True)
        response.revision = revision
        return essence, response.SerializeToString()

    # -- offsets -----------------------------------------------------------------------------------------

    async def list_offsets(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        partitions = parsed(pb.ListOffsetsRequest, request).partitions
        require_few(len(partitions), "partitions")
        response = pb.ListOffsetsResponse()
        async for wanted in self._begin_turn().through(partitions):
            listed = response.partitions.add(offset=-1, leader_epoch=-1)
            try:
                self._list_offset(principal, wanted, listed)
            except PenstockError as refusal:
                listed.error, listed.message = refusal.code, refusal.message
            self._count(principal.tenant, listed.error)
        return response.SerializeToString()

    def _list_offset(self, principal: Principal, wanted: pb.ListOffset, listed: pb.ListedOffset) -> None:
        replica = self._find(TopicPartition(TopicId(wanted.topic_id), wanted.partition))
        if replica is None:
            self._gate.refuse_unknown(principal, Operation.CONSUME, wanted.topic_id, wanted.partition)
        self._gate.authorize(principal, Operation.CONSUME, replica.topic)
        leading = replica.leadership(wanted.leader_epoch)
        listed.leader_epoch = leading.leader_epoch
        if wanted.timestamp_ms == BEGINNING:
            replica.require_log_start()
            listed.offset = replica.log.log_start_offset
            return
        if not leading.ready:
            raise errors.LeaderNotReady(f"{replica.name}: the new leader has not confirmed its log yet")
        if wanted.timestamp_ms == END:
            listed.offset = leading.high_watermark
        elif wanted.timestamp_ms >= 0:
            replica.require_log_start()
            listed.offset = replica.log.offset_for_time(wanted.timestamp_ms, leading.high_watermark)
        else:
            raise errors.InvalidRequest(f"timestamp_ms {wanted.timestamp_ms}: -2, -1 or at least 0 required")

    # -- producers ---------------------------------------------------------------------------------------

    async def init_producer(self, caller: Caller, request: bytes) -> bytes:
        """A new producer id, or the next epoch of one; a used-up epoch gives a new id (RL63, RL67)."""
        tenant = self._gate.admit(caller).tenant
        wanted = parsed(pb.InitProducerRequest, request)
        response = pb.InitProducerResponse(
            producer_id=wanted.producer_id, producer_epoch=wanted.producer_epoch + 1
        )
        if wanted.producer_id == NO_PRODUCER_ID or not 0 <= wanted.producer_epoch < _EPOCH_MAX:
            try:
                response.producer_id, response.producer_epoch = await self._new_producer_id(), 0
            except CallFailed as refusal:
                self._count(tenant, refusal.code)
                raise
        self._count(tenant, ErrorCode.OK)
        return response.SerializeToString()

    async def _new_producer_id(self) -> int:
        """From this broker's block; a new block is taken by compare-and-set (RL64)."""
        async with self._taking:
            for _ in range(_TRIES):
                if self._next_producer_id < self._producer_ids_end:
                    self._next_producer_id += 1
                    return self._next_producer_id - 1
                try:
                    items = (await self._store.range(model.NEXT_PRODUCER_ID_KEY)).items
                    block = take_producer_ids(items[0] if items else None)
                    result = await self._store.txn(block.compares, block.changes)
                except (StoreUnavailable, OutcomeUnknown):
                    await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
                    continue
                if result.succeeded:
                    self._next_producer_id = block.first
                    self._producer_ids_end = block.end
        raise CallFailed(ErrorCode.BROKER_UNAVAILABLE, "producer ids: the metadata store does not answer")
