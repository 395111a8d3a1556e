"""Records of `__usage` become facts: rows of one wide table, each with its kind; what is damaged becomes a rejection.

A record gives one `record` fact and one fact for each reading, delivered row, request row, seal and row of elapsed time
in it, numbered in that order from 0 (`row`). An unreadable record gives one `rejected` fact with row -1. A damaged part
of a good record gives one with the part's number. So each record and part gives a fact.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from data_plane.contract.usage_pb2 import Delivered, Elapsed, Requests, SealedSegment, UsageRecord
from penstock.contract.ids import TOPIC_ID_BYTES
from penstock.records.seal import SealCorrupt, unpack_seal
from penstock.rules.latency_buckets import BUCKET_MAX
from penstock.rules.service_levels import ALL_SECONDS, OPERATIONS
from spark_usage.decoded_readings import MINUTE_MAX, PRINCIPAL_ROW, TIME_MS_MAX, Readings

_READINGS_A_BATCH = 10_000
"""So few stay in the processor's caches, and Python's collector has less to go through."""
_LONG_MAX = 2**63 - 1
REQUESTS_MAX = 2**48
"""Of one row: no broker answers so many, and sums of rows stay within 64 bits."""
_RECORD_ROW = -1
_WHERE = ("src_partition", "src_offset", "broker_id", "boot_id", "sequence", "made_ms")
"""What the facts of a record share."""

BRONZE_COLUMNS = ("src_partition", "src_offset", "record")
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
        ("principal_rows", pa.list_(PRINCIPAL_ROW)),
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
        ("leaderless_ms", pa.int64()),
        ("operation", pa.string()),
        ("valid", pa.int64()),
        ("bad", pa.int64()),
        ("succeeded_seconds", pa.int64()),
        ("failed_seconds", pa.int64()),
        ("latencies", _LATENCIES),
        ("seal", pa.binary()),
        ("reason", pa.string()),
        ("record", pa.binary()),
        ("file", pa.string()),
    ]
)


_Part = Delivered | Requests | SealedSegment | Elapsed
"""Readings are decoded as columns."""


class Damaged(Exception):
    """A record or a part of one that cannot be used; the message is the reason."""


def decode(bronze: DataFrame) -> DataFrame:
    """The facts of all rows of `bronze`, whose columns `BRONZE_COLUMNS` are read."""
    return bronze.select(*BRONZE_COLUMNS).mapInArrow(_decoded, from_arrow_schema(FACTS))


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in BRONZE_COLUMNS]
        yield from facts_of(zip(*columns, strict=True))


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


def facts_of(rows: Iterable[tuple[int, int, bytes | None]]) -> Iterator[pa.RecordBatch]:
    """The facts of these rows of bronze (partition and offset of `__usage`, value), each batch of one kind."""
    facts = _Facts()
    for src_partition, src_offset, value in rows:
        facts.add(src_partition, src_offset, value)
        if facts.readings >= _READINGS_A_BATCH:
            yield from facts.batches()
            facts = _Facts()
    yield from facts.batches()


class _Facts:
    """Facts of some records: readings as columns, since nearly all are readings, others as rows by kind."""

    def __init__(self) -> None:
        self._of_kind: dict[str, list[dict[str, Any]]] = {}
        self._readings = Readings()
        self._records: list[dict[str, Any]] = []
        """Those that have readings, with the columns that their facts share."""
        self._values: list[bytes] = []
        self._counts: list[int] = []

    @property
    def readings(self) -> int:
        return len(self._readings)

    def add(self, src_partition: int, src_offset: int, value: bytes | None) -> None:
        """The facts of one record."""
        where: dict[str, Any] = {"src_partition": src_partition, "src_offset": src_offset}
        try:
            record = parse_record(value)
        except Damaged as damage:
            self._reject(where, _RECORD_ROW, str(damage), value)
            return
        assert value is not None
        where |= {
            "broker_id": record.broker_id,
            "boot_id": record.boot_id,
            "sequence": record.sequence,
            "made_ms": record.made_ms,
        }
        digest = hashlib.sha256(value).hexdigest()
        self._add("record", where, _RECORD_ROW, {"boot_ends": record.boot_ends, "digest": digest})
        if record.readings:
            self._readings.add(record.readings)
            self._records.append(where)
            self._values.append(value)
            self._counts.append(len(record.readings))
        others: list[_Part] = [*record.delivered, *record.requests, *record.seals, *record.elapsed]
        for row, part in enumerate(others, len(record.readings)):
            try:
                kind, columns = _part(part)
            except Damaged as damage:
                self._reject(where, row, str(damage), value)
            else:
                self._add(kind, where, row, columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._counts:
            yield self._of_readings()
        for kind, rows in self._of_kind.items():
            yield _batch(
                {name: pa.array([row[name] for row in rows], FACTS.field(name).type) for name in rows[0]},
                kind,
                len(rows),
            )

    def _of_readings(self) -> pa.RecordBatch:
        """Damaged ones become rejections."""
        columns, damaged = self._readings.columns()
        counts = np.array(self._counts)
        record = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        columns["row"] = pa.array((np.arange(len(record)) - first[record]).astype(np.int32))
        of_records = pa.array(record)
        for name in self._records[0]:
            values = pa.array([one[name] for one in self._records], FACTS.field(name).type)
            columns[name] = values.take(of_records)
        batch = _batch(columns, "reading", len(record))
        if damaged:
            for at, reason in sorted(damaged.items()):
                where = self._records[record[at]]
                self._reject(where, int(columns["row"][at].as_py()), reason, self._values[record[at]])
            kept = np.ones(len(record), np.bool_)
            kept[list(damaged)] = False
            batch = batch.filter(pa.array(kept))
        return batch

    def _reject(self, where: Mapping[str, Any], row: int, reason: str, value: bytes | None) -> None:
        places = {name: where.get(name) for name in _WHERE}
        self._add("rejected", places, row, {"reason": reason, "record": value or b""})

    def _add(self, kind: str, where: Mapping[str, Any], row: int, columns: Mapping[str, Any]) -> None:
        self._of_kind.setdefault(kind, []).append({**where, "row": row, **columns})


def _batch(columns: Mapping[str, pa.Array], kind: str, rows: int) -> pa.RecordBatch:
    """With nulls in the columns of `FACTS` that this kind does not have."""
    of = {"kind": pa.repeat(pa.scalar(kind), rows), **columns}
    return pa.RecordBatch.from_arrays(
        [of[field.name] if field.name in of else pa.nulls(rows, field.type) for field in FACTS], schema=FACTS
    )


def _part(part: _Part) -> tuple[str, dict[str, Any]]:
    """(kind, columns of its own)."""
    if not part.tenant:
        raise Damaged("no tenant")
    if isinstance(part, Delivered):
        return "delivered", _delivered(part)
    if isinstance(part, Requests):
        return "requests", _requests(part)
    if isinstance(part, Elapsed):
        return "elapsed", _elapsed(part)
    return "seal", _seal(part)


def _topic(part: Delivered) -> dict[str, Any]:
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


def _delivered(delivered: Delivered) -> dict[str, Any]:
    if delivered.other_zone_messages > delivered.messages or delivered.other_zone_bytes > delivered.bytes:
        raise Damaged("more left the zone than was delivered")
    return _topic(delivered) | {
        "group": delivered.group,
        "principal": delivered.principal,
        "minute": _bounded("minute", delivered.minute, MINUTE_MAX),
        "messages": _bounded("messages", delivered.messages),
        "bytes": _bounded("bytes", delivered.bytes),
        "other_zone_messages": delivered.other_zone_messages,
        "other_zone_bytes": delivered.other_zone_bytes,
    }


def _elapsed(elapsed: Elapsed) -> dict[str, Any]:
    if len(elapsed.topic_id) not in (0, TOPIC_ID_BYTES) or bool(elapsed.topic_id) != bool(elapsed.topic):
        raise Damaged("half of a topic")
    if elapsed.leaderless_ms and not elapsed.topic_id:
        raise Damaged("a partition of no topic")
    return {
        "tenant": elapsed.tenant,
        "topic_id": elapsed.topic_id.hex(),
        "topic": elapsed.topic,
        "principal": elapsed.principal,
        "minute": _bounded("minute", elapsed.minute, MINUTE_MAX),
        "connection_ms": _bounded("connection_ms", elapsed.connection_ms),
        "partition": _bounded("partition", elapsed.partition, 2**31 - 1),
        "throttled_ms": _bounded("throttled_ms", elapsed.throttled_ms),
        "leaderless_ms": _bounded("leaderless_ms", elapsed.leaderless_ms),
    }


def _requests(requests: Requests) -> dict[str, Any]:
    if requests.operation not in OPERATIONS:
        raise Damaged(f"an unknown operation: {requests.operation!r}")
    if requests.bad > requests.valid:
        raise Damaged("more failed requests than requests")
    return {
        "tenant": requests.tenant,
        "operation": requests.operation,
        "minute": _bounded("minute", requests.minute, MINUTE_MAX),
        "valid": _bounded("valid", requests.valid, REQUESTS_MAX),
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
    if seal.last_accepted_ms < 0:
        raise Damaged("a negative time")
    _bounded("last_accepted_ms", seal.last_accepted_ms, TIME_MS_MAX)
    return {
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
