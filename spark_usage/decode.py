"""Records of `__usage` become facts: rows of one wide table, each with its kind; what is damaged becomes a rejection.

A record gives one `record` fact and one fact for each reading, delivered row, request row, seal and row of elapsed time
in it, numbered in that order from 0 (`row`). An unreadable record gives one `rejected` fact with row -1. A damaged part
of a good record gives one with the part's number. So each record and part gives a fact.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from data_plane.contract.usage_pb2 import Delivered, Elapsed, Requests, SealedSegment, UsageRecord
from penstock.contract.ids import TOPIC_ID_BYTES
from penstock.records.seal import SealCorrupt, unpack_seal
from penstock.rules.latency_buckets import BUCKET_MAX
from penstock.rules.service_levels import ALL_SECONDS, OPERATIONS
from spark_usage import canonical_readings
from spark_usage.decoded_readings import (
    MINUTE_MAX,
    PRINCIPAL_ROW,
    TIME_MS_MAX,
    Fields,
    columns_of,
    fields_of,
)

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
    waiting: list[_Row] = []
    readings = 0
    for row in rows:
        waiting.append(_Row(*row))
        readings += waiting[-1].readings
        if readings >= _READINGS_A_BATCH:
            yield from _Facts(waiting).batches()
            waiting, readings = [], 0
    yield from _Facts(waiting).batches()


class _Row:
    """A row of bronze, whose record is split (`canonical_readings`) or else read whole (None: it is damaged)."""

    def __init__(self, src_partition: int, src_offset: int, value: bytes | None) -> None:
        self.where: dict[str, Any] = {"src_partition": src_partition, "src_offset": src_offset}
        self.value = value
        self.damage = ""
        self.record: UsageRecord | None = None
        self.split = None if value is None else canonical_readings.split(value)
        if self.split is not None:
            try:
                self.record = parse_record(self.split.rest)
            except Damaged:
                self.split = None
            else:
                if self.record.readings:
                    self.split = None
        if self.split is None:
            self.read_whole()

    @property
    def readings(self) -> int:
        """How many there are, or seem to be."""
        if self.split is not None:
            return len(self.split.starts)
        return 0 if self.record is None else len(self.record.readings)

    def read_whole(self) -> None:
        """By protobuf alone."""
        self.split = None
        self.record = None
        try:
            self.record = parse_record(self.value)
        except Damaged as damage:
            self.damage = str(damage)


class _Facts:
    """Facts of some records: readings as columns, since nearly all are readings, others as rows by kind."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._of_kind: dict[str, list[dict[str, Any]]] = {}
        self._with_readings: list[_Row] = []
        canonical = self._canonical([row for row in rows if row.split is not None])
        for row in rows:
            self._add_record(row)
        self._readings = self._of_readings(canonical) if self._with_readings else None

    def _canonical(self, rows: list[_Row]) -> Fields | None:
        """The readings of those that are; the others are read whole."""
        if not rows:
            return None
        fields, are = canonical_readings.decoded([row.split for row in rows if row.split is not None])
        for at in np.flatnonzero(~are).tolist():
            rows[at].read_whole()
        return fields

    def _add_record(self, row: _Row) -> None:
        record, value, where = row.record, row.value, row.where
        if record is None:
            self._reject(where, _RECORD_ROW, row.damage, value)
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
        if row.readings:
            self._with_readings.append(row)
        others: list[_Part] = [*record.delivered, *record.requests, *record.seals, *record.elapsed]
        for number, part in enumerate(others, row.readings):
            try:
                kind, columns = _part(part)
            except Damaged as damage:
                self._reject(where, number, str(damage), value)
            else:
                self._add(kind, where, number, columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._readings is not None:
            yield self._readings
        for kind, rows in self._of_kind.items():
            yield _batch(
                {name: pa.array([row[name] for row in rows], FACTS.field(name).type) for name in rows[0]},
                kind,
                len(rows),
            )

    def _of_readings(self, canonical: Fields | None) -> pa.RecordBatch:
        """In the order in which they came. Damaged ones become rejections."""
        of_split = [at for at, row in enumerate(self._with_readings) if row.split is not None]
        of_whole = [at for at, row in enumerate(self._with_readings) if row.split is None]
        batches, numbers = [], []
        if canonical is not None and of_split:
            batch, number = self._read(of_split, canonical)
            batches.append(batch)
            numbers.append(number)
        if of_whole:
            records = [self._with_readings[at].record for at in of_whole]
            found = fields_of(one for record in records if record is not None for one in record.readings)
            batch, number = self._read(of_whole, found)
            batches.append(batch)
            numbers.append(number)
        if len(batches) == 1:
            return batches[0]
        order = np.argsort(np.concatenate(numbers), kind="stable")
        return pa.concat_batches(batches).take(pa.array(order))

    def _read(self, of: Sequence[int], fields: Fields) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """(the good readings of these records, which record each of them is of)."""
        rows = [self._with_readings[at] for at in of]
        columns, damaged = columns_of(fields)
        counts = np.array([row.readings for row in rows])
        record = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        number = (np.arange(len(record)) - first[record]).astype(np.int32)
        columns["row"] = pa.array(number)
        of_records = pa.array(record)
        for name in _WHERE:
            values = pa.array([row.where[name] for row in rows], FACTS.field(name).type)
            columns[name] = values.take(of_records)
        batch = _batch(columns, "reading", len(record))
        places = np.array(of)[record]
        if not damaged:
            return batch, places
        for at, reason in sorted(damaged.items()):
            row = rows[record[at]]
            self._reject(row.where, int(number[at]), reason, row.value)
        kept = np.ones(len(record), np.bool_)
        kept[list(damaged)] = False
        return batch.filter(pa.array(kept)), places[kept]

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
