"""Conservation checks: each compares what a run would publish with what it was made from."""

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_usage.datasets import QUANTITY
from spark_usage.frames import is_nothing
from spark_usage.leaderships import LEADERSHIP
from spark_usage.manifest import Check
from spark_usage.readings import PARTITION, POINT
from spark_usage.silver import ELAPSED_METERS

_CUT_PARTITION = ("tenant", "cut_id", *PARTITION)
_OF_CUTS = "sums by cut and partition equal the differences of the cut readings"
_READ_AND_FOUND = {
    "messages_read": "messages_wanted", "messages": "m", "bytes_read": "bytes_wanted", "bytes": "b",
}  # fmt: skip
"""Totals by name, and the columns of `_read_and_found` that they are of."""


def readings_accounted(readings: DataFrame, seen: DataFrame, rejected: DataFrame) -> Check:
    """Every reading belongs to a used or void point, or is in `rejected`."""
    own = seen.where((F.col("view") == F.col("log_generation")) & ~F.col("below")).select(*POINT, "totals")
    row = (
        readings.select(*POINT, "totals", "src_partition", "src_offset", "row")
        .join(own.withColumn("used", F.lit(1)), [*POINT, "totals"], "left")
        .join(
            rejected.select("src_partition", "src_offset", "row", F.lit(1).alias("refused")),
            ["src_partition", "src_offset", "row"],
            "left",
        )
        .agg(
            F.count("*").alias("readings"),
            F.count("used").alias("used"),
            F.count("refused").alias("rejected"),
        )
        .collect()[0]
    )
    numbers = {"readings": row["readings"], "used": row["used"], "rejected": row["rejected"]}
    return Check(
        name="every reading is used or rejected",
        numbers=numbers,
        holds=row["readings"] == row["used"] + row["rejected"],
    )


def hours_equal_totals(hours: DataFrame, seen: DataFrame, bases: DataFrame) -> Check:
    """By partition and generation, usage is the last reading's totals less those where the generation began, or those
    of the partition's point in `bases`.
    """
    good = seen.where(F.col("current") & ~F.col("void") & ~F.col("below"))
    older = (
        Window.partitionBy(*PARTITION).orderBy("log_generation").rowsBetween(Window.unboundedPreceding, -1)
    )
    wanted = good.groupBy(*PARTITION, "log_generation").agg(
        F.max(F.col("totals")[0]).alias("messages"), F.max(F.col("totals")[1]).alias("bytes")
    )
    for name in ("messages", "bytes"):
        gained = F.col(name) - F.coalesce(F.max(name).over(older), F.lit(0))
        wanted = wanted.withColumn(f"{name}_wanted", gained)
    before = bases.select(
        *PARTITION, F.col("totals")[0].alias("before_messages"), F.col("totals")[1].alias("before_bytes")
    )
    wanted = wanted.join(before, list(PARTITION), "left")
    for name in ("messages", "bytes"):
        gained = F.col(f"{name}_wanted") - F.coalesce(F.col(f"before_{name}"), F.lit(0))
        wanted = wanted.withColumn(f"{name}_wanted", gained)
    wanted = wanted.drop("before_messages", "before_bytes")
    return _as_read(
        "sums by partition and generation equal the readings' totals",
        wanted,
        hours.where(F.col("meter").isin("messages_in", "bytes_in")),
        [*PARTITION, "log_generation"],
    )


def quantities(minutes: DataFrame) -> dict[str, int]:
    """Meter -> sum of all its usage."""
    rows = minutes.groupBy("meter").agg(_total("quantity")).collect()
    return {row["meter"]: int(row["quantity"]) for row in rows}


def increments_equal(found: Mapping[str, int], delivered: DataFrame) -> Check:
    """Delivered usage is the sum of what was counted once, and of its parts in the own and in other zones."""
    messages, size = _sums(delivered, "messages", "bytes")
    numbers = {
        "messages_told": messages,
        "messages": found.get("messages_out", 0),
        "messages_by_zone": _by_zone(found, "messages"),
        "bytes_told": size,
        "bytes": found.get("bytes_out", 0),
        "bytes_by_zone": _by_zone(found, "bytes"),
    }
    return Check(
        name="delivered usage equals the records counted once",
        numbers=numbers,
        holds=all(
            numbers[f"{what}_told"] == numbers[what] == numbers[f"{what}_by_zone"]
            for what in ("messages", "bytes")
        ),
    )


def _by_zone(found: Mapping[str, int], what: str) -> int:
    return sum(found.get(f"{what}_out_{zone}_zone", 0) for zone in ("own", "other"))


def elapsed_equal(found: Mapping[str, int], elapsed: DataFrame) -> Check:
    """Time of connections and of delays is the sum of what was counted once."""
    counted = zip(ELAPSED_METERS, _sums(elapsed, *ELAPSED_METERS), strict=True)
    numbers = {f"{name}_read": value for name, value in counted}
    numbers |= {name: found.get(name, 0) for name in ELAPSED_METERS}
    return Check(
        name="time equals the records counted once",
        numbers=numbers,
        holds=all(numbers[f"{name}_read"] == numbers[name] for name in ELAPSED_METERS),
    )


def requests_equal(found: Mapping[str, int], requests: DataFrame) -> Check:
    """Requests are the sum of what was counted once, without those that failed."""
    valid, bad = _sums(requests, "valid", "bad")
    numbers = {"requests_read": valid - bad, "requests": found.get("requests", 0)}
    return Check(
        name="requests equal the records counted once",
        numbers=numbers,
        holds=numbers["requests_read"] == numbers["requests"],
    )


def kept_equals_readings(
    found: Mapping[str, int], minutes: DataFrame, kept: DataFrame, points: DataFrame, bases: DataFrame
) -> Check:
    """What was kept is the sum of the leaderships' last totals, less those in `bases`.

    It is less only where a later leadership began before an earlier one ended; there each minute counts once.
    """
    said = _last_of_leaderships(points)
    before = _last_of_leaderships(bases)
    overlaps, longest = (
        (0, 0) if is_nothing(kept) else (kept.where("ends < until").count(), _longest(minutes))
    )
    numbers = {
        "byte_minutes_read": said[0] - before[0],
        "byte_minutes": found.get("retained_byte_minutes", 0),
        "partition_minutes_read": said[1] - before[1],
        "partition_minutes": found.get("partition_minutes", 0),
        "intervals_cut_short": overlaps,
    }
    read = (numbers["byte_minutes_read"], numbers["partition_minutes_read"])
    counted = (numbers["byte_minutes"], numbers["partition_minutes"])
    exact = read == counted if not overlaps else all(a >= b for a, b in zip(read, counted, strict=True))
    return Check(
        name="what was kept equals the last totals of the leaderships",
        numbers=numbers,
        holds=exact and longest <= 60,
    )


def _longest(minutes: DataFrame) -> int:
    """The most partition-minutes of an hour of a partition."""
    by_hour = (
        minutes.where("meter = 'partition_minutes'")
        .groupBy(*PARTITION, F.expr("minute div 60").alias("hour"))
        .agg(F.sum("quantity").alias("minutes"))
    )
    return int(by_hour.agg(F.max("minutes").alias("minutes")).collect()[0]["minutes"] or 0)


def _last_of_leaderships(points: DataFrame) -> tuple[int, int]:
    """Byte-minutes and minutes, of all together. What was kept in no time is in no interval."""
    in_no_time = F.max(F.when(F.col("retained_until") == F.col("retained_since"), F.col("byte_minutes")))
    last = points.groupBy(*LEADERSHIP).agg(
        (F.max("byte_minutes") - F.coalesce(in_no_time, F.lit(0))).alias("kept"),
        (F.max("retained_until") - F.col("retained_since")).alias("minutes"),
    )
    kept, minutes = _sums(last, "kept", "minutes")
    return kept, minutes


def sums_equal(name: str, finer: DataFrame, coarser: DataFrame) -> Check:
    """By tenant and meter two data sets have the same sums."""
    by = ("tenant", "meter")
    left = finer.groupBy(*by).agg(F.sum("quantity").alias("finer"))
    right = coarser.groupBy(*by).agg(F.sum("quantity").alias("coarser"))
    both = left.join(right, list(by), "full").na.fill(0)
    return _compared(name, both, F.col("finer") != F.col("coarser"), {"finer": "finer", "coarser": "coarser"})


def cuts_equal_differences(usage: DataFrame, marks: DataFrame) -> Check:
    """By cut and partition, usage is the difference of the cut readings' totals."""
    return _as_read(_OF_CUTS, _differences_of_cuts(marks), usage, list(_CUT_PARTITION))


def no_cuts() -> Check:
    """As `cuts_equal_differences` of a round that folds no cut."""
    return _nothing_compared(_OF_CUTS, _READ_AND_FOUND)


def cuts_that_differ(usage: DataFrame, marks: DataFrame) -> DataFrame:
    """The partitions of cuts (tenant, cut_id, `PARTITION`) of which `cuts_equal_differences` does not hold."""
    both, differs = _read_and_found(_differences_of_cuts(marks), usage, list(_CUT_PARTITION))
    return both.where(differs).select(*_CUT_PARTITION)


def _differences_of_cuts(marks: DataFrame) -> DataFrame:
    zero = F.lit(0)
    return marks.where("mark IS NOT NULL").select(
        *_CUT_PARTITION,
        (F.col("mark.totals")[0] - F.coalesce(F.col("previous.totals")[0], zero)).alias("messages_wanted"),
        (F.col("mark.totals")[1] - F.coalesce(F.col("previous.totals")[1], zero)).alias("bytes_wanted"),
    )


def _as_read(name: str, wanted: DataFrame, usage: DataFrame, by: list[str]) -> Check:
    """The sums of `usage` are `messages_wanted` and `bytes_wanted`."""
    both, differs = _read_and_found(wanted, usage, by)
    return _compared(name, both, differs, _READ_AND_FOUND)


def _read_and_found(wanted: DataFrame, usage: DataFrame, by: list[str]) -> tuple[DataFrame, Column]:
    """Both sides of `_as_read`, and where they differ."""
    found = usage.groupBy(*by).agg(
        F.sum(F.when(F.col("meter") == "messages_in", F.col("quantity")).otherwise(0)).alias("m"),
        F.sum(F.when(F.col("meter") == "bytes_in", F.col("quantity")).otherwise(0)).alias("b"),
    )
    both = wanted.join(found, by, "full").na.fill(0)
    return both, (F.col("messages_wanted") != F.col("m")) | (F.col("bytes_wanted") != F.col("b"))


def _compared(name: str, both: DataFrame, differs: Column, totals: Mapping[str, str]) -> Check:
    if is_nothing(both):
        return _nothing_compared(name, totals)
    row = both.agg(
        F.count("*").alias("compared"),
        F.count_if(differs).alias("different"),
        *(
            F.coalesce(F.sum(F.col(column).cast(QUANTITY)), F.lit(0)).alias(label)
            for label, column in totals.items()
        ),
    ).collect()[0]
    return Check(
        name=name,
        numbers={label: int(row[label]) for label in ("compared", "different", *totals)},
        holds=row["different"] == 0,
    )


def _nothing_compared(name: str, totals: Iterable[str]) -> Check:
    return Check(name=name, numbers=dict.fromkeys(("compared", "different", *totals), 0), holds=True)


def _total(name: str) -> Column:
    return F.coalesce(F.sum(F.col(name).cast(QUANTITY)), F.lit(0)).alias(name)


def _sums(rows: DataFrame, *names: str) -> list[int]:
    """Of these columns."""
    if is_nothing(rows):
        return [0] * len(names)
    row = rows.agg(*(_total(name) for name in names)).collect()[0]
    return [int(row[name]) for name in names]
