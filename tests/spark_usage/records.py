"""Usage records that tests make up, one short call each, and bronze of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from data_plane.contract import usage_pb2 as pb

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
BRONZE = pa.schema(
    [
        ("src_partition", pa.int32()),
        ("src_offset", pa.int64()),
        ("ingest_date", pa.date32()),
        ("record", pa.binary()),
    ]
)
LATER = date(2100, 1, 1)
"""After all that tests make up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A message value at its place in `__usage`."""

    partition: int = 0
    offset: int
    value: bytes | None


def bronze_frame(spark: SparkSession, stored: Iterable[Stored]) -> DataFrame:
    """What decoding reads of bronze."""
    rows = [
        {"src_partition": one.partition, "src_offset": one.offset, "ingest_date": LATER, "record": one.value}
        for one in stored
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=BRONZE))


def topic_id(name: str) -> bytes:
    """The same for the same name."""
    return name.encode().ljust(16, b"-")[:16]


def reading(
    end_offset: int,
    at: int,
    messages: int,
    size: int,
    rows: Sequence[tuple[int, int, int]] = (),
    *,
    tenant: str = "tn_a",
    topic: str = "orders",
    name: str = "",
    partition: int = 0,
    generation: int = 0,
    kind: int = pb.PERIODIC,
    cut: str = "",
    cut_end: int = 0,
    aborted: int = 0,
    last: bool = False,
    kept: tuple[int, int, int, int] = (0, 0, 0, 0),
    epoch: int = 1,
) -> pb.Reading:
    """A reading; `name` is the topic's, if it is not the one that its id is made from; `rows` are (principal, messages,
    bytes) of the minute of `at`, `kept` is (since, until, byte-minutes, byte-minutes of all replicas) of the leadership
    of `epoch`.
    """
    return pb.Reading(
        tenant=tenant,
        topic_id=topic_id(tenant + topic),
        topic=name or topic,
        partition=partition,
        log_generation=generation,
        end_offset=end_offset,
        accepted_ms=at,
        totals=[messages, size, aborted, aborted * 10, 0, 0],
        minute_rows=[
            pb.PrincipalRow(minute=max(0, at) // MINUTE, principal=who, messages=count, bytes=amount)
            for who, count, amount in rows
        ],
        kind=pb.ReadingKind.Name(kind) if not cut else "CUT",
        cut_id=cut,
        cut_end_ms=cut_end,
        last=last,
        leader_epoch=epoch,
        retained_since=kept[0],
        retained_until=kept[1],
        retained_byte_minutes=kept[2],
        replicated_byte_minutes=kept[3],
    )


class Writer:
    """One boot of a broker: numbers its records."""

    def __init__(self, broker: int = 1, boot: str = "boot-1") -> None:
        self.broker = broker
        self.boot = boot
        self.sequence = 0

    def record(self, *readings: pb.Reading, made_ms: int = 0, **parts: Any) -> bytes:
        self.sequence += 1
        return pb.UsageRecord(
            broker_id=self.broker,
            boot_id=self.boot,
            sequence=self.sequence,
            made_ms=made_ms,
            readings=readings,
            **parts,
        ).SerializeToString()


def in_order(*values: bytes | None, partition: int = 0) -> list[Stored]:
    """Values one after the other from offset 0 of one partition of `__usage`."""
    return [Stored(partition=partition, offset=at, value=value) for at, value in enumerate(values)]
