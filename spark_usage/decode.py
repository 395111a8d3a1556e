"""Records of `__usage` become facts: rows of one wide table, each with its kind; what is damaged becomes a rejection.

A record gives one `record` fact and one fact for each reading, delivered row, request row, seal and row of elapsed time
in it, numbered in that order from 0 (`row`). An unreadable record gives one `rejected` fact with row -1. A damaged part
of a good record gives one with the part's number. So each record and part gives a fact.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from data_plane.contract.usage_pb2 import (
    CUT,
    FINAL,
    Delivered,
    Elapsed,
    Reading,
    ReadingKind,
    Requests,
    SealedSegment,
    UsageRecord,
)
from penstock.contract.ids import TOPIC_ID_BYTES
from penstock.records.seal import SealCorrupt, unpack_seal
from penstock.records.usage import minute_of
from penstock.rules.latency_buckets import BUCKET_MAX
from penstock.rules.service_levels import ALL_SECONDS, OPERATIONS

TOTALS = 6
RETAINED_MINUTES_MAX = 10 * 366 * 24 * 60
"""Of one leadership: ten years."""
_LONG_MAX = 2**63 - 1
_RECORD_ROW = -1

BRONZE_COLUMNS = ("src_partition", "src_offset", "record")
_PRINCIPAL_ROWS = pa.list_(
    pa.struct([("principal", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64())])
)
_LATENCIES = pa.list_(pa.struct([("bucket", pa.int32()), ("requests", pa.int64())]))
FACTS = pa.schema(
    [
        ("kind", pa.string()),
        ("src_partition", pa.int32()),
        ("src_offset", pa.int64()),
        ("row", pa.int32()),
        ("broker_id", pa.int32()),
        ("boot_id", pa.string()),
        ("sequence", pa.int64()),
        ("made_ms", pa.int64()),
        ("boot_ends", pa.bool_()),
        ("digest", pa.string()),
        ("tenant", pa.string()),
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("log_generation", pa.int64()),
        ("base_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("accepted_ms", pa.int64()),
        ("totals", pa.list_(pa.int64())),
        ("principal_rows", _PRINCIPAL_ROWS),
        ("reading_kind", pa.int32()),
        ("cut_id", pa.string()),
        ("cut_end_ms", pa.int64()),
        ("last", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("retained_since", pa.int64()),
        ("retained_until", pa.int64()),
        ("byte_minutes", pa.int64()),
        ("replicated_byte_minutes", pa.int64()),
        ("group", pa.string()),
        ("principal", pa.int64()),
        ("minute", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("other_zone_messages", pa.int64()),
        ("other_zone_bytes", pa.int64()),
        ("connection_ms", pa.int64()),
        ("throttled_ms", pa.int64()),
        ("operation", pa.string()),
        ("valid", pa.int64()),
        ("bad", pa.int64()),
        ("succeeded_seconds", pa.int64()),
        ("failed_seconds", pa.int64()),
        ("latencies", _LATENCIES),
        ("seal", pa.binary()),
        ("reason", pa.string()),
        ("record", pa.binary()),
    ]
)


_Part = Reading | Delivered | Requests | SealedSegment | Elapsed


class Damaged(Exception):
    """A record or a part of one that cannot be used; the message is the reason."""


def decode(bronze: DataFrame) -> DataFrame:
    """The facts of all rows of `bronze`, whose columns `BRONZE_COLUMNS` are read."""
    return bronze.select(*BRONZE_COLUMNS).mapInArrow(_decoded, from_arrow_schema(FACTS))


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in BRONZE_COLUMNS]
        facts: list[dict[str, Any]] = []
        for partition, offset, value in zip(*columns, strict=True):
            facts += facts_of(partition, offset, value)
        yield pa.RecordBatch.from_pylist(facts, schema=FACTS)


def parse_record(value: bytes | None) -> UsageRecord:
    """The record of a message value. Raises `Damaged`."""
    if value is None:
        raise Damaged("no value")
    try:
        record = UsageRecord.FromString(value)
    except DecodeError as error:
        raise Damaged("not a usage record") from error
    if not record.boot_id or not 0 < record.sequence <= _LONG_MAX:
        raise Damaged("no boot id or no sequence")
    return record


def facts_of(src_partition: int, src_offset: int, value: bytes | None) -> list[dict[str, Any]]:
    """The facts of one record, as rows of `FACTS` without the columns that are null."""
    where: dict[str, Any] = {"src_partition": src_partition, "src_offset": src_offset}
    try:
        record = parse_record(value)
    except Damaged as damage:
        return [
            where | {"kind": "rejected", "row": _RECORD_ROW, "reason": str(damage), "record": value or b""}
        ]
    where |= {
        "broker_id": record.broker_id,
        "boot_id": record.boot_id,
        "sequence": record.sequence,
        "made_ms": record.made_ms,
    }
    digest = hashlib.sha256(value or b"").hexdigest()
    facts = [where | {"kind": "record", "row": _RECORD_ROW, "boot_ends": record.boot_ends, "digest": digest}]
    parts: list[_Part] = [
        *record.readings,
        *record.delivered,
        *record.requests,
        *record.seals,
        *record.elapsed,
    ]
    for row, part in enumerate(parts):
        try:
            facts.append(where | {"row": row} | _part(part))
        except Damaged as damage:
            facts.append(
                where | {"kind": "rejected", "row": row, "reason": str(damage), "record": value or b""}
            )
    return facts


def _part(part: _Part) -> dict[str, Any]:
    if not part.tenant:
        raise Damaged("no tenant")
    if isinstance(part, Reading):
        return _reading(part)
    if isinstance(part, Delivered):
        return _delivered(part)
    if isinstance(part, Requests):
        return _requests(part)
    if isinstance(part, Elapsed):
        return _elapsed(part)
    return _seal(part)


def _topic(part: Reading | Delivered) -> dict[str, Any]:
    if len(part.topic_id) != TOPIC_ID_BYTES:
        raise Damaged(f"a topic id of {len(part.topic_id)} bytes")
    if not part.topic:
        raise Damaged("no topic")
    return {
        "tenant": part.tenant,
        "topic_id": part.topic_id.hex(),
        "topic": part.topic,
        "partition": _bounded("partition", part.partition, 2**31 - 1),
    }


def _reading(reading: Reading) -> dict[str, Any]:
    totals = [_bounded("totals", value) for value in reading.totals]
    if len(totals) != TOTALS:
        raise Damaged(f"{len(totals)} totals instead of {TOTALS}")
    if reading.end_offset < 0 or reading.accepted_ms < -1:
        raise Damaged("a negative offset or time")
    messages, _, aborted, _, control, _ = totals
    if messages + aborted + control > reading.end_offset:
        raise Damaged("totals exceed the offsets below")
    if reading.accepted_ms < 0 and any(totals):
        raise Damaged("usage without a time")
    if reading.kind not in ReadingKind.values():
        raise Damaged(f"an unknown kind of reading: {int(reading.kind)}")
    if reading.kind == CUT and not reading.cut_id:
        raise Damaged("a cut reading without its cut")
    if reading.last and reading.kind not in (CUT, FINAL):
        raise Damaged("a last reading of another kind")
    return _topic(reading) | {
        "kind": "reading",
        "log_generation": _bounded("log_generation", reading.log_generation),
        "end_offset": reading.end_offset,
        "accepted_ms": reading.accepted_ms,
        "totals": totals,
        "principal_rows": _principal_rows(reading),
        "reading_kind": int(reading.kind),
        "cut_id": reading.cut_id,
        "cut_end_ms": reading.cut_end_ms,
        "last": reading.last,
        **_retained(reading),
    }


def _retained(reading: Reading) -> dict[str, int]:
    """What its leadership has kept so far; nothing in readings of brokers that do not count it."""
    if not reading.retained_since:
        return {}
    minutes = reading.retained_until - reading.retained_since
    if not 0 <= minutes <= RETAINED_MINUTES_MAX:
        raise Damaged(f"what was kept in {minutes} minutes")
    if reading.retained_byte_minutes > reading.replicated_byte_minutes:
        raise Damaged("less kept by all replicas than by one")
    return {
        "leader_epoch": reading.leader_epoch,
        "retained_since": reading.retained_since,
        "retained_until": reading.retained_until,
        "byte_minutes": reading.retained_byte_minutes,
        "replicated_byte_minutes": _bounded("byte-minutes", reading.replicated_byte_minutes),
    }


def _principal_rows(reading: Reading) -> list[dict[str, int]]:
    """The reading's rows of its own minute, one for each principal. Rows of other minutes are not used."""
    minute = minute_of(reading.accepted_ms)
    sums: dict[int, tuple[int, int]] = {}
    for row in reading.minute_rows:
        if row.minute == minute:
            messages, size = sums.get(row.principal, (0, 0))
            sums[row.principal] = (messages + row.messages, size + row.bytes)
    return [
        {"principal": principal, "messages": _bounded("rows", messages), "bytes": _bounded("rows", size)}
        for principal, (messages, size) in sorted(sums.items())
    ]


def _delivered(delivered: Delivered) -> dict[str, Any]:
    if delivered.other_zone_messages > delivered.messages or delivered.other_zone_bytes > delivered.bytes:
        raise Damaged("more left the zone than was delivered")
    return _topic(delivered) | {
        "kind": "delivered",
        "group": delivered.group,
        "principal": delivered.principal,
        "minute": delivered.minute,
        "messages": _bounded("messages", delivered.messages),
        "bytes": _bounded("bytes", delivered.bytes),
        "other_zone_messages": delivered.other_zone_messages,
        "other_zone_bytes": delivered.other_zone_bytes,
    }


def _elapsed(elapsed: Elapsed) -> dict[str, Any]:
    if len(elapsed.topic_id) not in (0, TOPIC_ID_BYTES) or bool(elapsed.topic_id) != bool(elapsed.topic):
        raise Damaged("half of a topic")
    return {
        "kind": "elapsed",
        "tenant": elapsed.tenant,
        "topic_id": elapsed.topic_id.hex(),
        "topic": elapsed.topic,
        "principal": elapsed.principal,
        "minute": elapsed.minute,
        "connection_ms": _bounded("connection_ms", elapsed.connection_ms),
        "throttled_ms": _bounded("throttled_ms", elapsed.throttled_ms),
    }


def _requests(requests: Requests) -> dict[str, Any]:
    if requests.operation not in OPERATIONS:
        raise Damaged(f"an unknown operation: {requests.operation!r}")
    if requests.bad > requests.valid:
        raise Damaged("more failed requests than requests")
    return {
        "kind": "requests",
        "tenant": requests.tenant,
        "operation": requests.operation,
        "minute": requests.minute,
        "valid": _bounded("valid", requests.valid),
        "bad": requests.bad,
        "succeeded_seconds": _bounded("seconds", requests.succeeded_seconds, ALL_SECONDS),
        "failed_seconds": _bounded("seconds", requests.failed_seconds, ALL_SECONDS),
        "latencies": _latencies(requests),
    }


def _latencies(requests: Requests) -> list[dict[str, int]]:
    if len(requests.latency_buckets) != len(requests.latency_counts):
        raise Damaged("buckets of latencies without counts")
    if sum(requests.latency_counts) > requests.valid - requests.bad:
        raise Damaged("more latencies than good answers")
    pairs = zip(requests.latency_buckets, requests.latency_counts, strict=True)
    return [{"bucket": _bounded("bucket", bucket, BUCKET_MAX), "requests": count} for bucket, count in pairs]


def _seal(sealed: SealedSegment) -> dict[str, Any]:
    try:
        seal, end = unpack_seal(sealed.seal)
    except SealCorrupt as error:
        raise Damaged(f"a damaged seal: {error}") from error
    if end != len(sealed.seal):
        raise Damaged("bytes after a seal")
    return {
        "kind": "seal",
        "tenant": sealed.tenant,
        "topic_id": seal.where.topic_id.hex(),
        "partition": seal.where.partition,
        "log_generation": seal.log_generation,
        "base_offset": seal.base_offset,
        "end_offset": seal.end_offset,
        "seal": sealed.seal,
    }


def _bounded(name: str, value: int, most: int = _LONG_MAX) -> int:
    if value > most:
        raise Damaged(f"{name} {value} is too large")
    return value
