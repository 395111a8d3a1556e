"""What metering counted, put into the messages of usage records and of cuts, and taken from them."""

from data_plane.contract import usage_pb2 as pb
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.metadata.model import TopicRecord
from data_plane.metering.increments import DeliveredKey, ElapsedKey, RequestsKey, RequestSums, Spent, Taken
from data_plane.metering.readings import DueReading, ReadingKind
from data_plane.metering.retained import RetainedOdometer
from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TenantId, TopicPartition
from penstock.records.seal import Seal, pack_seal

_KINDS = {kind: pb.ReadingKind.Value(kind.name) for kind in ReadingKind}
"""The message takes a number in a third of the time that it takes for a name."""


def add_reading(
    record: pb.UsageRecord,
    replica: Replica,
    due: DueReading,
    cut_id: str = "",
    cut_end_ms: int = 0,
    *,
    last: bool = False,
    retained: RetainedOdometer | None = None,
) -> None:
    """One reading of a partition, as its log stands now. `last`: the topic was deleted, and a cut's reading follows.
    `retained`: what its leadership here has kept."""
    mark, log, topic = due.mark, replica.log, replica.topic
    reading = record.readings.add(
        tenant=topic.tenant,
        topic_id=replica.where.topic_id,
        topic=topic.name,
        partition=replica.where.partition,
        log_generation=log.usage.log_generation,
        end_offset=mark.end_offset,
        accepted_ms=mark.accepted_ms,
        leader_epoch=log.last_epoch if replica.leading is None else replica.leading.leader_epoch,
        totals=mark.totals.as_tuple(),
        log_start_offset=log.log_start_offset,
        retained_bytes=log.size_bytes,
        kind=_KINDS[due.kind],
    )
    if cut_id:
        reading.cut_id, reading.cut_end_ms = cut_id, cut_end_ms
    if last:
        reading.last = True
    if retained is not None:
        reading.retained_since, reading.retained_until = retained.since, retained.until
        reading.retained_byte_minutes = retained.byte_minutes
        reading.replicated_byte_minutes = retained.replicated_byte_minutes
    for row in mark.minute_rows:
        reading.minute_rows.add(
            minute=row.minute, principal=row.principal, messages=row.messages, bytes=row.bytes
        )


def add_kept_reading(
    record: pb.UsageRecord, tenant: TenantId, end: KeptEnd, cut_id: str, cut_end_ms: int
) -> None:
    """The reading of a cut for a partition as the metadata has it: of a deleted topic, or written once more."""
    record.readings.add(
        tenant=tenant,
        topic_id=end.where.topic_id,
        topic=end.topic,
        partition=end.where.partition,
        log_generation=end.log_generation,
        end_offset=end.end_offset,
        accepted_ms=end.accepted_ms,
        totals=end.totals,
        kind=pb.CUT,
        cut_id=cut_id,
        cut_end_ms=cut_end_ms,
        last=end.last,
    )


def add_delivered(record: pb.UsageRecord, key: DeliveredKey, taken: Taken) -> None:
    record.delivered.add(
        tenant=key.tenant,
        topic_id=key.topic_id,
        topic=key.topic,
        partition=key.partition,
        group=key.group,
        principal=key.principal,
        minute=key.minute,
        messages=taken.messages,
        bytes=taken.size,
        other_zone_messages=taken.other_zone_messages,
        other_zone_bytes=taken.other_zone_size,
    )


def add_elapsed(record: pb.UsageRecord, key: ElapsedKey, spent: Spent) -> None:
    record.elapsed.add(
        tenant=key.tenant,
        topic_id=key.topic_id,
        topic=key.topic,
        principal=key.principal,
        minute=key.minute,
        partition=key.partition,
        connection_ms=spent.connection_ms,
        throttled_ms=spent.throttled_ms,
        leaderless_ms=spent.leaderless_ms,
    )


def add_requests(record: pb.UsageRecord, key: RequestsKey, sums: RequestSums) -> None:
    buckets = sorted(sums.latencies)
    record.requests.add(
        tenant=key.tenant,
        operation=key.operation,
        minute=key.minute,
        valid=sums.valid,
        bad=sums.bad,
        succeeded_seconds=sums.succeeded_seconds,
        failed_seconds=sums.failed_seconds,
        latency_buckets=buckets,
        latency_counts=[sums.latencies[bucket] for bucket in buckets],
    )


def add_seal(record: pb.UsageRecord, topic: TopicRecord, seal: Seal) -> None:
    record.seals.add(tenant=topic.tenant, seal=pack_seal(seal))


def failed_part(where: TopicPartition, code: int, message: str) -> pb.PartitionCut:
    """What a cut says of a partition that could not be read."""
    return pb.PartitionCut(
        topic_id=where.topic_id, partition=where.partition, end_offset=-1, error=code, message=message
    )


def kept_end_of(where: TopicPartition, topic: str, cut: pb.PartitionCut) -> KeptEnd:
    """What is kept of a partition that was read for a cut."""
    return KeptEnd(
        where=where,
        topic=topic,
        log_generation=cut.log_generation,
        end_offset=cut.end_offset,
        accepted_ms=cut.accepted_ms,
        totals=tuple(cut.totals),
    )
