"""Cuts: the end of a billing period, as one more reading of each partition of a tenant.

Any broker takes the call. It first raises the floor of acceptance times to the period's end in the metadata, so that
no leader, present or to come, can stamp a batch before it; then it asks the leaders. A leader waits until everything
stamped before the end is committed, reads there, and answers once the reading is in `__usage`. Partitions of topics
that were deleted since the cut before are read at their final readings, which the cut freezes first. A cut that was
answered in full is kept in the metadata with all its ends; the same cut asked for again is answered from there, and its
readings are written once more.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial

from data_plane.contract import admin_pb2, methods, usage_pb2
from data_plane.controller.cuts import (
    begin_cut,
    close_topic,
    cut_end,
    deleted_parts,
    final_end,
    keep_cut,
    keep_ends,
    keep_finals,
    raise_floor,
)
from data_plane.controller.tenants import Transaction
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.kept_ends import KeptEnd, decode_ends
from data_plane.metadata.model import BegunCut, CutRecord, FinalRecord
from data_plane.metadata.port import KeyValue, MetaStore, OutcomeUnknown, StoreUnavailable
from data_plane.metering.readings import DueReading, ReadingKind
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.metering import Metering
from data_plane.node.metering.usage_messages import failed_part, kept_end_of
from data_plane.node.metering.usage_topic import USAGE_TOPIC
from data_plane.node.ports import Caller, CallFailed, Clock, ConnectionLost, Transport, peer_of
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed
from penstock.contract import errors
from penstock.contract.document_fields import SHA256_HEX
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition
from penstock.records.cut import cut_sha256
from penstock.records.usage import OdometerMark

CUT_ID_LENGTH_MAX = 100
_PARTITIONS_PER_CALL = 200
_TRIES = 20
_CALLS_A_LEADER, _CALLS_A_CUT = 3, 4
"""A leader has so many times one call's time for its answer, the whole cut too: less than the caller waits."""
_LOOK_S = 0.01
_NOTHING_STORED = FinalRecord(log_generation=0, end_offset=0, accepted_ms=-1, totals=(0,) * 6)
_NO_CHANGE = Transaction(compares=(), changes=())


class CutCalls:
    """Both ends of a cut on one broker."""

    def __init__(
        self,
        config: NodeConfig,
        view: MetadataView,
        store: MetaStore,
        transport: Transport,
        clock: Clock,
        find: Callable[[TopicPartition], Replica | None],
        confident: Callable[[], bool],
        metering: Metering,
    ) -> None:
        self._config = config
        self._view = view
        self._store = store
        self._transport = transport
        self._clock = clock
        self._find = find
        self._confident = confident
        self._metering = metering

    @property
    def _image(self) -> ClusterImage:
        return self._view.image

    # -- the broker that is asked --------------------------------------------------------------------------

    async def cut(self, caller: Caller, request: bytes) -> bytes:
        """Admin call; see the module."""
        wanted = parsed(admin_pb2.CutRequest, request)
        response = admin_pb2.CutResponse()
        answer_ms = self._config.timings.call_ms * _CALLS_A_CUT
        try:
            async with asyncio.timeout(answer_ms / 1000):
                ends, failed = await self._end_period(wanted, response)
        except TimeoutError:
            # The next call finds what was begun.
            late = errors.BrokerUnavailable(
                f"cut {wanted.cut_id}: not done within {answer_ms} ms, {self._slow()}; ask again"
            )
            response.outcome.error, response.outcome.message = late.code, late.message
            return response.SerializeToString()
        except PenstockError as refusal:
            response.outcome.error, response.outcome.message = refusal.code, refusal.message
            return response.SerializeToString()
        for end in ends:
            response.readings.add(
                topic_id=end.where.topic_id,
                partition=end.where.partition,
                log_generation=end.log_generation,
                end_offset=end.end_offset,
                accepted_ms=end.accepted_ms,
                messages=end.totals[0],
                stored_bytes=end.totals[1],
                last=end.last,
            )
        for one in failed:
            response.readings.add(
                topic_id=one.topic_id,
                partition=one.partition,
                end_offset=-1,
                accepted_ms=-1,
                error=one.error,
                message=one.message,
            )
        response.outcome.revision = self._image.revision
        return response.SerializeToString()

    async def _end_period(
        self, wanted: admin_pb2.CutRequest, response: admin_pb2.CutResponse
    ) -> tuple[list[KeptEnd], list[usage_pb2.PartitionCut]]:
        """The cut's ends, as kept or read and then kept, its hash in `response`; and what could not be read now."""
        self._check(wanted)
        tenant = TenantId(wanted.tenant)
        kept = await self._kept(wanted)
        if kept is not None:
            ends = await self._kept_ends(tenant, kept.end_ms)
            await self._metering.write_ends(tenant, ends, kept.cut_id, kept.end_ms)
            response.sha256 = kept.sha256
            return ends, []
        waived = {TopicPartition(TopicId(one.topic_id), one.partition) for one in wanted.waived}
        ends, failed = await self._read(wanted, waived)
        if not failed:
            response.sha256 = await self._keep(wanted, ends)
        return ends, failed

    def _slow(self) -> str:
        """What it waited for."""
        if self._metering.waiting:
            return f"{self._metering.waiting} records wait to be committed in {USAGE_TOPIC}"
        return "the metadata store is slow"

    def _check(self, wanted: admin_pb2.CutRequest) -> None:
        if not 0 < len(wanted.cut_id) <= CUT_ID_LENGTH_MAX:
            raise errors.InvalidRequest(
                f"cut_id: {len(wanted.cut_id)} characters, 1 to {CUT_ID_LENGTH_MAX} required"
            )
        if TenantId(wanted.tenant) not in self._image.tenants:
            raise errors.NotFound(f"tenant {wanted.tenant!r} does not exist")
        now_ms = self._clock.now_ms()
        if not 0 < wanted.end_ms <= now_ms:
            raise errors.InvalidRequest(f"end_ms: {wanted.end_ms} is not in the past, now is {now_ms}")
        if wanted.billing_sequence and not SHA256_HEX.fullmatch(wanted.billing_hash):
            raise errors.InvalidRequest(f"billing_hash: {wanted.billing_hash[:80]!r}: 64 hex digits required")
        if not self._metering.working:
            raise errors.BrokerUnavailable(
                f"{USAGE_TOPIC}: does not exist here yet, or this broker does not meter"
            )

    # -- what is kept --------------------------------------------------------------------------------------

    async def _kept(self, wanted: admin_pb2.CutRequest) -> CutRecord | None:
        """The cut that is kept with this end. Raises `InvalidRequest` when it is another one."""
        found = await self._range(model.kept_cut_key(wanted.tenant, wanted.end_ms))
        newest = self._image.cuts.get(TenantId(wanted.tenant))
        if not found:
            if newest is not None and wanted.end_ms <= newest.end_ms:
                raise errors.InvalidRequest(
                    f"cut {wanted.cut_id}: no cut is kept up to {wanted.end_ms}, and the newest, {newest.cut_id}, "
                    f"ends at {newest.end_ms}"
                )
            return None
        kept = CutRecord.decode(found[0].value)
        if (kept.cut_id, kept.start_ms) != (wanted.cut_id, wanted.previous_end_ms):
            raise errors.InvalidRequest(
                f"cut {wanted.cut_id} from {wanted.previous_end_ms}: cut {kept.cut_id} from {kept.start_ms} is kept up "
                f"to {kept.end_ms}"
            )
        return kept

    async def _kept_ends(self, tenant: TenantId, end_ms: int) -> list[KeptEnd]:
        found = await self._range(model.cut_ends_prefix(tenant, end_ms))
        return [end for item in found for end in decode_ends(item.value)]

    async def _range(self, prefix: str) -> tuple[KeyValue, ...]:
        try:
            return (await self._store.range(prefix)).items
        except StoreUnavailable as error:
            raise errors.BrokerUnavailable("the metadata store does not answer; ask again") from error

    async def _keep(self, wanted: admin_pb2.CutRequest, ends: list[KeptEnd]) -> str:
        """Keep the cut; its hash. Raises `InvalidRequest` when another answer to it is kept."""
        tenant = TenantId(wanted.tenant)
        cut = CutRecord(
            cut_id=wanted.cut_id,
            start_ms=wanted.previous_end_ms,
            end_ms=wanted.end_ms,
            sha256=cut_sha256(wanted.tenant, wanted.cut_id, wanted.end_ms, map(cut_end, ends)),
            billing_sequence=wanted.billing_sequence,
            billing_hash=wanted.billing_hash,
            kept_ms=self._clock.now_ms(),
        )
        for change in keep_ends(self._image, tenant, cut, ends):
            await self._once(change)
        await self._apply(partial(keep_cut, self._image, tenant, cut))
        return cut.sha256

    async def _once(self, change: Transaction) -> None:
        """Raises `BrokerUnavailable` when it was not applied for certain: the whole cut is asked for again."""
        try:
            result = await self._store.txn(change.compares, change.changes)
        except (StoreUnavailable, OutcomeUnknown) as error:
            raise errors.BrokerUnavailable("the metadata store does not answer; ask again") from error
        if not result.succeeded:
            raise errors.BrokerUnavailable("another caller ends the same period now; ask again")

    async def _apply(self, decide: Callable[[], Transaction]) -> None:
        """Try until it is applied. Raises `BrokerUnavailable`, and what `decide` refuses with."""
        for _ in range(_TRIES):
            change = decide()
            if not change.changes:
                return
            try:
                result = await self._store.txn(change.compares, change.changes)
            except (StoreUnavailable, OutcomeUnknown):
                await asyncio.sleep(self._config.timings.reconnect_ms / 1000)
                continue
            await self._view.reached(result.revision, self._config.timings.call_ms)
        raise errors.BrokerUnavailable("the metadata does not take the change; ask again")

    # -- reading -------------------------------------------------------------------------------------------

    async def _read(
        self, wanted: admin_pb2.CutRequest, waived: Collection[TopicPartition]
    ) -> tuple[list[KeptEnd], list[usage_pb2.PartitionCut]]:
        """Begin the cut and read; and what could not be read now."""
        tenant = TenantId(wanted.tenant)
        begun = BegunCut(cut_id=wanted.cut_id, start_ms=wanted.previous_end_ms, end_ms=wanted.end_ms)
        await self._apply(partial(begin_cut, self._image, tenant, begun))
        for topic_id in [topic.topic_id for topic in self._image.topics.values() if topic.tenant == tenant]:
            await self._apply(partial(raise_floor, self._image, topic_id, wanted.end_ms))
        return await self._ask_all(wanted, self._image.revision, waived)

    async def _ask_all(
        self, wanted: admin_pb2.CutRequest, revision: int, waived: Collection[TopicPartition]
    ) -> tuple[list[KeptEnd], list[usage_pb2.PartitionCut]]:
        """The leaders of the tenant's partitions and what deleted topics left; and what could not be read now."""
        tenant = TenantId(wanted.tenant)
        led: dict[BrokerId, list[TopicPartition]] = {broker: [] for broker in sorted(self._image.brokers)}
        names: dict[TopicPartition, str] = {}
        failed: list[usage_pb2.PartitionCut] = []
        for topic_id, topic in self._image.topics.items():
            if topic.tenant != tenant or not topic.metered:
                continue
            for record in self._image.partitions_of(topic_id):
                where = TopicPartition(topic_id, record.partition)
                if record.leader in led and self._image.epoch_of(record.leader):
                    led[record.leader].append(where)
                    names[where] = topic.name
                else:
                    failed.append(failed_part(where, ErrorCode.NO_LEADER, f"{topic.name}-{record.partition}"))
        # In the same turn as the topics above: a topic is either among them or deleted.
        of_tenant = self._image.deleted_of.get(tenant, {})
        deleted = [*of_tenant.get("", {}), *of_tenant.get(wanted.cut_id, {})]
        epochs = {broker: self._image.epoch_of(broker) for broker in led}
        asked = [
            self._ask(
                broker,
                wanted,
                revision,
                where[at : at + _PARTITIONS_PER_CALL],
                deleted=deleted if not at else [],
            )
            for broker, where in led.items()
            for at in range(0, max(1, len(where)), _PARTITIONS_PER_CALL)
        ]
        ends: dict[TopicPartition, KeptEnd] = {}
        for answer in await asyncio.gather(*asked):
            for cut in answer:
                where = TopicPartition(TopicId(cut.topic_id), cut.partition)
                if cut.error:
                    if where not in waived:
                        failed.append(cut)
                elif where in names:
                    ends[where] = kept_end_of(where, names[where], cut)
        answered = {TopicPartition(TopicId(one.topic_id), one.partition) for one in failed}
        failed += [
            failed_part(where, ErrorCode.LEADER_NOT_READY, f"{name}-{where.partition}: was not answered for")
            for where, name in names.items()
            if where not in ends and where not in answered and where not in waived
        ]
        if not failed:
            ends |= await self._close_deleted(wanted, deleted, epochs, waived, failed)
        return list(ends.values()), failed

    async def _close_deleted(
        self,
        wanted: admin_pb2.CutRequest,
        deleted: list[TopicId],
        epochs: Mapping[BrokerId, int],
        waived: Collection[TopicPartition],
        failed: list[usage_pb2.PartitionCut],
    ) -> dict[TopicPartition, KeptEnd]:
        """Freeze the final readings of deleted topics and write them as this cut's. Missing ones join `failed`.

        `epochs`: the brokers and their registrations when they were asked, 0 for one that was not there.
        """
        tenant, cut_id = TenantId(wanted.tenant), wanted.cut_id
        parts = deleted_parts(self._image, tenant, cut_id, waived)
        missing = [where for where in parts.missing if where.topic_id in deleted]
        if missing and all(
            self._image.epoch_of(broker) == epochs.get(broker) != 0 for broker in self._image.brokers
        ):
            # Every broker was there all the while, has answered and holds nothing of them: their replicas were never
            # made, or cannot tell. One that came back meanwhile was not asked, and may hold them.
            nothing = dict.fromkeys(missing, _NOTHING_STORED)
            await self._apply(lambda: next(keep_finals(self._image, nothing), _NO_CHANGE))
            missing = []
        for where in missing:
            name = self._image.buried[where.topic_id].name
            message = (
                f"{name}-{where.partition}: was deleted, and no broker has reported its last reading yet"
            )
            failed.append(failed_part(where, ErrorCode.LEADER_NOT_READY, message))
        if failed or not deleted:
            return {}
        for topic_id in deleted:
            await self._apply(partial(close_topic, self._image, topic_id, cut_id))
        newest = self._image.cuts.get(tenant)
        before = (
            {} if newest is None else {end.where: end for end in await self._kept_ends(tenant, newest.end_ms)}
        )
        # As they are now that nothing changes them: one may have been raised until the topic was closed.
        parts = deleted_parts(self._image, tenant, cut_id, waived)
        mine = set(deleted)
        closed = {
            where: final_end(where, self._image.buried[where.topic_id].name, final, before.get(where))
            for where, final in parts.ends.items()
            if where.topic_id in mine
        }
        await self._metering.write_ends(tenant, list(closed.values()), cut_id, wanted.end_ms)
        return closed

    async def _ask(
        self,
        broker: BrokerId,
        wanted: admin_pb2.CutRequest,
        revision: int,
        partitions: list[TopicPartition],
        *,
        deleted: list[TopicId],
    ) -> list[usage_pb2.PartitionCut]:
        """What one broker answers; an error for each partition, and for each of `deleted`, that it does not name."""
        expected = [*partitions, *(TopicPartition(topic_id, 0) for topic_id in deleted)]
        request = usage_pb2.CutPartitionsRequest(
            cut_id=wanted.cut_id,
            tenant=wanted.tenant,
            end_ms=wanted.end_ms,
            revision=revision,
            partitions=[
                usage_pb2.CutPartition(topic_id=where.topic_id, partition=where.partition)
                for where in partitions
            ],
            deleted=bool(deleted),
        )
        if broker == self._config.broker_id:
            try:
                return list((await self._answer(request)).partitions)
            except CallFailed as refused:
                return [failed_part(where, ErrorCode.BROKER_UNAVAILABLE, str(refused)) for where in expected]
        known = self._image.brokers.get(broker)
        if known is None or not known.epoch:
            # It has gone: what it led has another leader soon, what it had of deleted topics others tell.
            return [
                failed_part(where, ErrorCode.NO_LEADER, f"{where}: its leader has gone")
                for where in partitions
            ]
        try:
            answer = usage_pb2.CutPartitionsResponse.FromString(
                await self._transport.call(
                    peer_of(known.record),
                    methods.CUT_PARTITIONS,
                    request.SerializeToString(),
                    self._config.timings.call_ms * _CALLS_A_LEADER,
                )
            )
        except (CallFailed, ConnectionLost) as error:
            message = f"broker {broker} does not answer: {error}"
            return [failed_part(where, ErrorCode.BROKER_UNAVAILABLE, message) for where in expected]
        return list(answer.partitions)

    # -- the leaders -----------------------------------------------------------------------------------------

    async def cut_partitions(self, caller: Caller, request: bytes) -> bytes:
        """Internal call: read the partitions named that this broker leads."""
        return (await self._answer(parsed(usage_pb2.CutPartitionsRequest, request))).SerializeToString()

    async def _answer(self, wanted: usage_pb2.CutPartitionsRequest) -> usage_pb2.CutPartitionsResponse:
        response = usage_pb2.CutPartitionsResponse()
        if not await self._view.reached(wanted.revision, self._config.timings.call_ms):
            raise CallFailed(
                ErrorCode.BROKER_UNAVAILABLE,
                f"this broker is at revision {self._image.revision}, {wanted.revision} was asked for",
            )
        read: list[tuple[Replica, DueReading]] = []
        try:
            async with asyncio.timeout(self._config.timings.call_ms / 1000):
                for partition in wanted.partitions:
                    where = TopicPartition(TopicId(partition.topic_id), partition.partition)
                    try:
                        replica = self._replica(where, wanted)
                        mark = await self._mark(replica, wanted.end_ms)
                    except PenstockError as refusal:
                        response.partitions.append(failed_part(where, refusal.code, refusal.message))
                        continue
                    read.append((replica, DueReading(ReadingKind.CUT, mark)))
        except TimeoutError:
            pass  # what is read is answered, the rest may be asked again
        try:
            async with asyncio.timeout(self._config.timings.call_ms / 1000):
                await self._metering.write_cut(read, wanted.cut_id, wanted.end_ms)
        except (TimeoutError, PenstockError) as error:
            message = f"{USAGE_TOPIC}: {str(error) or 'no answer in time'}"
            response.partitions.extend(
                failed_part(replica.where, ErrorCode.BROKER_UNAVAILABLE, message) for replica, _ in read
            )
        else:
            for replica, due in read:
                response.partitions.add(
                    topic_id=replica.where.topic_id,
                    partition=replica.where.partition,
                    log_generation=replica.log.usage.log_generation,
                    end_offset=due.mark.end_offset,
                    accepted_ms=due.mark.accepted_ms,
                    totals=due.mark.totals.as_tuple(),
                )
        answered = {(cut.topic_id, cut.partition) for cut in response.partitions}
        for partition in wanted.partitions:
            if (partition.topic_id, partition.partition) not in answered:
                where = TopicPartition(TopicId(partition.topic_id), partition.partition)
                response.partitions.append(failed_part(where, ErrorCode.LEADER_NOT_READY, "not read in time"))
        if wanted.deleted:
            response.partitions.extend(self._metering.deleted.still_waiting(TenantId(wanted.tenant)))
            response.partitions.extend(self._not_retired(TenantId(wanted.tenant)))
        return response

    def _not_retired(self, tenant: TenantId) -> list[usage_pb2.PartitionCut]:
        """As errors: replicas here of topics that were deleted a moment ago."""
        image = self._image
        return [
            failed_part(
                where, ErrorCode.LEADER_NOT_READY, f"{where}: was deleted, its replica here is still to stop"
            )
            for topic_id in image.deleted_of.get(tenant, {}).get("", {})
            for where in (TopicPartition(topic_id, n) for n in range(image.buried[topic_id].partitions))
            if self._find(where) is not None
        ]

    def _replica(self, where: TopicPartition, wanted: usage_pb2.CutPartitionsRequest) -> Replica:
        replica = self._find(where)
        if replica is None or replica.topic.tenant != wanted.tenant:
            raise errors.NotLeader(f"{where}: no replica here")
        if self._image.revision < wanted.revision or not self._confident():
            raise errors.LeaderNotReady(f"{replica.name}: this broker is behind the metadata")
        return replica

    async def _mark(self, replica: Replica, end_ms: int) -> OdometerMark:
        """The totals at the last batch stamped before `end_ms`, once it is committed."""
        leading, log = replica.leadership(-1), replica.log
        if replica.topic.accepted_floor_ms < end_ms:
            raise errors.LeaderNotReady(f"{replica.name}: the floor of acceptance times is not here yet")
        while not leading.ready or log.high_watermark < log.usage.end_before(end_ms):
            await asyncio.sleep(_LOOK_S)
            if replica.leading is not leading:
                raise errors.NotLeader(f"{replica.name}: leadership moved")
        end = log.usage.end_before(end_ms)
        mark = log.usage.mark() if end == log.log_end_offset else None
        if mark is None:
            mark = next(
                (one for one in log.usage.minute_marks(end - 1, log.high_watermark) if one.end_offset == end),
                None,
            )
        if mark is None:
            for folded in log.usage.fold_to(end):
                mark = folded
                if folded is None:
                    await asyncio.sleep(0)
                    if replica.leading is not leading or replica.busy:
                        raise errors.LeaderNotReady(f"{replica.name}: its log is being changed")
        if mark is None or mark.accepted_ms >= end_ms:
            raise errors.OffsetOutOfRange(
                f"{replica.name}: what was counted before {end_ms} is not known any more"
            )
        return mark
