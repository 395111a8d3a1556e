"""Cuts: which reading ends each partition's period, what is missing, and the usage between a tenant's cuts.

A tenant's cuts are ordered by the ends of their periods. A partition belongs to a cut when it has a reading with the
cut's id, or when any reading shows usage from before the period's end. It is *covered* when the cut's reading is there,
else it is a *gap*. Its period begins where the last cut that covers it ended. A cut's reading that is a partition's
*last* says that the topic was deleted: it is preferred to other readings of the same cut, and the partition is in no
later cut. The same holds after a final reading that announces no last one (older brokers wrote these).

When a loss was declared between two cuts, the earlier cut may end above the start of the new generation. The log does
not contain what it counted there. The later cut then has reversals: rows of the old generation with negative
quantities. The earlier cut does not change.

Usage stands under the name that the topic had at its point, so a topic that is restored under another name within a day
has two ranges of that day. Coverage has the name that the cut's reading says. A later name changes neither.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from data_plane.contract.usage_pb2 import CUT, FINAL
from spark_usage.datasets import CUT_USAGE, QUANTITY
from spark_usage.readings import PARTITION, POINT

_CUT = ("tenant", "cut_id")
_NO_READING = "no cut reading"
_BAD_READING = "its cut reading contradicts other readings, or the one that explains it is missing"


def tenants_to_fold(ends: DataFrame, late: DataFrame, coverage: DataFrame) -> list[str]:
    """Tenants with a gap, a new reading of a cut or of a deleted topic (among `ends`), or cuts and a late log. `late`:
    new readings of such logs; `coverage`: tenant and status of the data set `cut_coverage` before.
    """
    reported = ends.where(F.col("reading_kind").isin(CUT, FINAL)).select("tenant")
    gaps = coverage.where("status = 'gap'").select("tenant")
    with_cuts = late.select("tenant").join(coverage.select("tenant"), ["tenant"], "left_semi")
    return sorted(
        row["tenant"] for row in reported.unionByName(gaps).unionByName(with_cuts).distinct().collect()
    )


def topics_of(tenants: Sequence[str], logs: DataFrame) -> list[str]:
    """Ids of the topics of these tenants in the data set `log`: all that earlier readings may be of."""
    found = logs.where(F.col("tenant").isin(list(tenants))).select("topic_id").distinct().collect()
    return sorted(row["topic_id"] for row in found)


def cut_marks(readings: DataFrame, seen: DataFrame) -> DataFrame:
    """Every partition of every cut: cut, partition, topic; `mark`, the point that covers it (null = gap); `previous`,
    the point where its period begins (null = the log's start); `rejected`, it has a reading that cannot be used
    when `mark` is null; `known`, the newest point.
    """
    # What is seen was made of the readings: with columns of the same ids Spark may refuse to join both.
    readings = readings.select(*(F.col(f"`{name}`").alias(name) for name in readings.columns))
    good = seen.where((F.col("view") == F.col("log_generation")) & ~F.col("below"))
    point = F.struct("log_generation", "end_offset", "totals").alias("point")
    usable = good.select(*POINT, "totals", point)
    made = readings.where(F.col("reading_kind") == CUT)
    cuts = made.groupBy(*_CUT).agg(
        F.max("cut_end_ms").alias("told_end_ms"), F.min("made_ms").alias("taken_ms")
    )
    cuts = cuts.withColumn(
        "end_ms", F.when(F.col("told_end_ms") > 0, F.col("told_end_ms")).otherwise(F.col("taken_ms"))
    )
    # A rejected reading counts only where there is no other.
    worth = F.struct(
        F.col("point").isNull(), ~F.col("last"), -F.col("log_generation"), "end_offset", "made_ms", "topic"
    )
    answers = (
        made.join(usable, [*POINT, "totals"], "left")
        .groupBy(*_CUT, *PARTITION)
        .agg(
            F.min_by("point", worth).alias("answer"),
            F.min_by("topic", worth).alias("topic_then"),
            F.max("last").alias("last"),
        )
        .withColumn("answered", F.lit(True))
    )
    partitions = good.groupBy(*PARTITION).agg(
        F.min("tenant").alias("tenant"),
        F.min(F.when(F.col("accepted_ms") >= 0, F.col("accepted_ms"))).alias("began_ms"),
        F.max(F.struct("log_generation", "end_offset", "topic")).alias("known"),
    )
    given_up = (
        readings.where((F.col("reading_kind") == FINAL) & ~F.col("last"))
        .groupBy(*PARTITION)
        .agg(F.min("made_ms").alias("given_up_ms"))
    )
    partitions = partitions.join(given_up, list(PARTITION), "left")
    both = partitions.join(cuts, "tenant").join(answers, [*_CUT, *PARTITION], "left")
    expected = (F.col("began_ms") < F.col("end_ms")) & F.coalesce(
        F.col("given_up_ms") > F.col("taken_ms"), F.lit(True)
    )
    belongs = F.col("answered").isNotNull() | F.coalesce(expected, F.lit(False))
    order = Window.partitionBy(*PARTITION).orderBy("end_ms", "taken_ms", "cut_id")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    return (
        both.where(belongs)
        .withColumn("over", F.coalesce(F.max("last").over(before), F.lit(False)))
        .where(~F.col("over"))
        .withColumn("previous", F.max("answer").over(before))
        .withColumn("behind", F.coalesce(F.col("answer") < F.col("previous"), F.lit(False)))
        .withColumn("mark", F.when(~F.col("behind"), F.col("answer")))
        .withColumn("rejected", F.col("answered").isNotNull())
        .withColumn("topic", F.coalesce("topic_then", "known.topic"))
        .select(*_CUT, *PARTITION, "topic", "mark", "previous", "rejected", "known")
    )


def without_unclear(marks: DataFrame, differing: DataFrame, seen: DataFrame) -> DataFrame:
    """The marks, of which those become gaps whose usage does not add up (`differing`), where readings of the partition
    contradict each other: the reading that explains them, the start of a generation, is late or lost.
    """
    unclear = differing.join(seen.where("below").select(*PARTITION).distinct(), list(PARTITION))
    return (
        marks.join(unclear.withColumn("unclear", F.lit(True)), [*_CUT, *PARTITION], "left")
        .withColumn("mark", F.when(F.col("unclear").isNull(), F.col("mark")))
        .drop("unclear")
        .select(*marks.columns)
    )


def cut_coverage(marks: DataFrame, missing: str) -> DataFrame:
    """The data set `cut_coverage`. `missing` names what `__usage` lacks, for the partitions that have a gap."""
    covered = F.col("mark").isNotNull()
    return marks.select(
        "cut_id",
        "tenant",
        "topic_id",
        "topic",
        "partition",
        F.coalesce("mark.log_generation", "known.log_generation").alias("log_generation"),
        F.coalesce("previous.end_offset", F.lit(0)).cast("long").alias("start_offset"),
        F.coalesce("mark.end_offset", "known.end_offset").alias("end_offset"),
        F.when(covered, "covered").otherwise("gap").alias("status"),
        F.when(covered, "").when(F.col("rejected"), _BAD_READING).otherwise(_NO_READING).alias("reason"),
        F.when(covered, "").otherwise(F.lit(missing)).alias("missing"),
    )


def cut_usage(marks: DataFrame, intervals: DataFrame, starts: DataFrame) -> DataFrame:
    """The data set `cut_usage`. `starts` are points that begin a generation."""
    parts = marks.where("mark IS NOT NULL").select(
        *_CUT,
        *PARTITION,
        F.col("mark.log_generation").alias("to_view"),
        F.col("mark.end_offset").alias("to_offset"),
        F.coalesce("previous.log_generation", F.lit(-1)).alias("from_view"),
        F.coalesce("previous.end_offset", F.lit(0)).alias("from_offset"),
    )
    begun = starts.select(
        *PARTITION, F.col("log_generation").alias("begun"), F.col("end_offset").alias("begun_at")
    )
    lost = (
        (F.col("begun") > F.col("from_view"))
        & (F.col("begun") <= F.col("to_view"))
        & (F.col("begun_at") < F.col("from_offset"))
    )
    names = parts.columns
    parts = (
        parts.join(begun, list(PARTITION), "left")
        .groupBy(*names)
        .agg(F.min(F.when(lost & (F.col("from_view") >= 0), F.col("begun_at"))).alias("lost_from"))
    )
    # Both cuts have the same log up to here.
    shared = F.least("from_offset", F.coalesce("lost_from", "from_offset"))
    per_view = intervals.drop("tenant")
    added = (
        per_view.join(
            parts.withColumn("view", F.col("to_view")).withColumn("shared", shared), [*PARTITION, "view"]
        )
        .where(F.col("end_offset") <= F.col("to_offset"))
        .where(~((F.col("log_generation") <= F.col("from_view")) & (F.col("end_offset") <= F.col("shared"))))
        .withColumn("sign", F.lit(1))
    )
    removed = (
        per_view.join(
            parts.where("lost_from IS NOT NULL").withColumn("view", F.col("from_view")), [*PARTITION, "view"]
        )
        .where((F.col("end_offset") <= F.col("from_offset")) & (F.col("end_offset") > F.col("lost_from")))
        .withColumn("first_offset", F.greatest("first_offset", "lost_from"))
        .withColumn("sign", F.lit(-1))
        .drop("shared")
    )
    day = F.to_date(F.timestamp_seconds(F.expr("accepted_ms div 1000"))).alias("day")
    columns: Sequence[str | Column] = (
        *_CUT, *PARTITION, "topic", "log_generation", day, "first_offset", "end_offset",
        _signed("messages_in", "messages", "bytes_in", "bytes"),
    )  # fmt: skip
    rows = added.select(*columns).unionByName(removed.select(*columns))
    rows = rows.select(*(name for name in rows.columns if name != "metered"), "metered.*")
    by_name = _summed(rows.where("first_offset < end_offset"))
    return _summed(_without_crossing_names(by_name))


def _summed(rows: DataFrame) -> DataFrame:
    """By the key of `cut_usage`."""
    return rows.groupBy(*CUT_USAGE.key_names).agg(
        F.sum("quantity").cast(QUANTITY).alias("quantity"),
        F.min("first_offset").alias("first_offset"),
        F.max("end_offset").alias("end_offset"),
    )


def _without_crossing_names(by_name: DataFrame) -> DataFrame:
    """The rows, in which the ranges of a day's names follow one another. Where they would cross, as the topic had one
    name, then another and then the first one again, all of the day has the last name.
    """
    day = Window.partitionBy(*(name for name in CUT_USAGE.key_names if name != "topic"))
    before = day.orderBy("first_offset", "end_offset").rowsBetween(Window.unboundedPreceding, -1)
    crosses = F.coalesce(F.col("first_offset") < F.max("end_offset").over(before), F.lit(False))
    last_name = F.max(F.struct("end_offset", "topic")).over(day).getField("topic")
    crossed = by_name.withColumn("crosses", crosses)
    topic = F.when(F.bool_or("crosses").over(day), last_name).otherwise(F.col("topic"))
    return crossed.withColumn("topic", topic).drop("crosses")


def _signed(first: str, first_value: str, second: str, second_value: str) -> Column:
    rows = [
        F.struct(F.lit(meter).alias("meter"), (F.col(value) * F.col("sign")).cast(QUANTITY).alias("quantity"))
        for meter, value in ((first, first_value), (second, second_value))
    ]
    return F.explode(F.array(*rows)).alias("metered")
