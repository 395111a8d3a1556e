"""Evidence: seals of segments, the hash chain over `__usage`, and the offsets of it that are not there."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_usage.datasets import CHAIN

SEAL_KEY = ("tenant", "topic_id", "partition", "log_generation", "base_offset")
CHAIN_START = bytes(32)
ANOTHER_SEAL = "another seal of the same segment"
HOLES = pa.schema([("src_partition", pa.int32()), ("first_missing", pa.int64()), ("missing", pa.int64())])
_CHAIN = pa.schema([("src_partition", pa.int32()), ("src_offset", pa.int64()), ("sha256", pa.string())])


def seals(facts: DataFrame) -> tuple[DataFrame, DataFrame]:
    """(the data set `seal`, rejections of seals that differ from the first of the same segment).

    Every replica of a segment makes the same seal, so all but the first are repetitions.
    """
    order = Window.partitionBy(*SEAL_KEY).orderBy("src_partition", "src_offset", "row")
    ranked = (
        facts.where("kind = 'seal'")
        .withColumn("rank", F.row_number().over(order))
        .withColumn("first", F.first("seal").over(order))
    )
    conflicts = ranked.where(F.col("seal") != F.col("first")).select(
        "src_partition", "src_offset", "row", F.lit(ANOTHER_SEAL).alias("reason")
    )
    return ranked.where("rank = 1"), conflicts


def first_stand(new: DataFrame, conflicts: DataFrame, was: DataFrame) -> tuple[DataFrame, DataFrame]:
    """New seals without those that differ from an earlier one (`was`), which are rejected with the `conflicts`."""
    earlier = was.select(*SEAL_KEY, F.col("seal").alias("was"))
    both = new.join(earlier, list(SEAL_KEY), "left")
    differs = both.where("seal != was").select(
        "src_partition", "src_offset", "row", F.lit(ANOTHER_SEAL).alias("reason")
    )
    return both.where("was IS NULL OR seal = was").drop("was"), conflicts.unionByName(differs)


def chain(bronze: DataFrame, ends: Mapping[int, tuple[int, bytes]]) -> DataFrame:
    """New rows of the data set `chain`. A partition's chain ends before the first offset that is not there; `ends` are
    those of earlier rounds: partition -> (next offset, last link).
    """
    ordered = (
        bronze.select("src_partition", "src_offset", "record")
        .repartition("src_partition")
        .sortWithinPartitions("src_partition", "src_offset")
    )
    return ordered.mapInArrow(_linking(dict(ends)), from_arrow_schema(_CHAIN)).to(CHAIN.struct)


def _linking(
    ends: Mapping[int, tuple[int, bytes]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def linked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, expected, last = -1, 0, CHAIN_START
        for batch in batches:
            rows = []
            columns = [batch.column(name).to_pylist() for name in ("src_partition", "src_offset", "record")]
            for number, offset, record in zip(*columns, strict=True):
                if number != partition:
                    partition = number
                    expected, last = ends.get(number, (0, CHAIN_START))
                if offset != expected:
                    continue  # behind a hole: `expected` stays where the chain ended
                last = link(last, record)
                expected += 1
                rows.append({"src_partition": number, "src_offset": offset, "sha256": last.hex()})
            yield pa.RecordBatch.from_pylist(rows, schema=_CHAIN)

    return linked


def chain_ends(links: DataFrame) -> dict[int, tuple[int, bytes]]:
    """Partition -> (next offset, last link) of rows of `chain`."""
    rows = links.groupBy("src_partition").agg(
        F.max("src_offset").alias("last"), F.max_by("sha256", "src_offset").alias("link")
    )
    return {row["src_partition"]: (row["last"] + 1, bytes.fromhex(row["link"])) for row in rows.collect()}


def link(previous: bytes, record: bytes | None) -> bytes:
    """The chain's value after one more record."""
    return hashlib.sha256(previous + (record or b"")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The content of bronze: rows, rows with distinct offsets, (partition, first missing offset, count) of each
    hole, in order, and the newest day on which a record was read; "" without records.
    """

    records: int
    distinct: int
    holes: list[tuple[int, int, int]]
    read_until: str


def extent(bronze: DataFrame, ends: Mapping[str, int], begins: Mapping[str, int]) -> Extent:
    """Holes are looked for in each partition of `__usage` from `begins` (0 where it does not say) up to `ends`."""
    counted = (
        bronze.groupBy("src_partition")
        .agg(
            F.count("*").alias("rows"),
            F.count_distinct("src_offset").alias("distinct"),
            F.max("src_offset").alias("last"),
            F.max("ingest_date").alias("read_until"),
        )
        .collect()
    )
    first = {int(name): at for name, at in begins.items()}
    found = []
    if any(row["distinct"] != row["last"] + 1 - first.get(row["src_partition"], 0) for row in counted):
        order = Window.partitionBy("src_partition").orderBy("src_offset")
        begin = F.lit(0)
        for number, at in first.items():
            begin = F.when(F.col("src_partition") == number, F.lit(at)).otherwise(begin)
        missing = F.coalesce(F.lag("src_offset").over(order) + 1, begin).cast("long").alias("first_missing")
        inner = (
            bronze.select("src_partition", "src_offset", missing)
            .withColumn("missing", F.col("src_offset") - F.col("first_missing"))
            .where("missing > 0")
            .collect()
        )
        found = [(row["src_partition"], row["first_missing"], row["missing"]) for row in inner]
    last = {row["src_partition"]: row["last"] for row in counted}
    for name, end in ends.items():
        reached = last.get(int(name), first.get(int(name), 0) - 1) + 1
        if reached < end:
            found.append((int(name), reached, end - reached))
    return Extent(
        records=sum(row["rows"] for row in counted),
        distinct=sum(row["distinct"] for row in counted),
        holes=sorted(found),
        read_until=max((row["read_until"].isoformat() for row in counted), default=""),
    )


def joined(found: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Holes in order; those that touch each other are one, as rounds may have ended in the middle of it."""
    holes: list[tuple[int, int, int]] = []
    for partition, first, count in sorted(found):
        if holes and holes[-1][0] == partition and sum(holes[-1][1:]) == first:
            first, count = holes[-1][1], holes.pop()[2] + count
        holes.append((partition, first, count))
    return holes


def named(found: list[tuple[int, int, int]], most: int = 20) -> str:
    """Holes as text: `__usage-1@17`, `__usage-1@17..19` for several; the first `most` of them."""
    names = [
        f"__usage-{partition}@{first}" + (f"..{first + count - 1}" if count > 1 else "")
        for partition, first, count in found[:most]
    ]
    if len(found) > most:
        names.append(f"and {len(found) - most} more")
    return ", ".join(names)


def causes(holes: list[tuple[int, int, int]], waived: DataFrame) -> str:
    """Possible causes of a gap: missing offsets, else missing sequences of a broker's boot."""
    if holes:
        return named(holes)
    boots = waived.where("missing > 0").orderBy("broker_id", "boot_id").limit(20).collect()
    return ", ".join(
        f"broker {boot['broker_id']} boot {boot['boot_id']} sequence {boot['first_missing']}"
        for boot in boots
    )
