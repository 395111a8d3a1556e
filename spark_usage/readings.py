"""Readings of odometers become intervals: what each partition gained between two neighbouring readings.

A *point* is a position in a partition's log, (log generation, end offset), with its totals. Several readings of the
same position are one point. A *view* of a partition is its log as one generation sees it: the points of that
generation and of older ones, without those that a later generation's start made void. The view of the newest
generation is current. Older views matter only for cuts made in them.

The points of a view are ordered by generation and offset. A point whose totals or offset are below those of an earlier
point is rejected. The next good point closes the gap, so totals stay right. The whole interval between two neighbouring
points counts in the minute of its last batch. So lost readings make minutes coarser and change no total.

By principal: the rows of a reading say who produced what in its minute so far. The rows of the previous point, if it is
of the same minute, are subtracted. Usage that rows do not explain (rows of lost readings) has principal 0. Rows that
contradict the totals are not used.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from data_plane.contract.usage_pb2 import CUT, GENERATION_START, PERIODIC

PARTITION = ("topic_id", "partition")
POINT = (*PARTITION, "log_generation", "end_offset")
_TOTALS = 6


def points_of(readings: DataFrame) -> DataFrame:
    """One row a point: `POINT`, tenant, topic, names, totals, accepted_ms, principal_rows, is_start.

    When readings disagree, the one with the smallest totals counts; `contradicting` finds the others. A generation
    ends where the next one begins, with the same totals. `names` are those of the topic in readings of the point, of
    which it has several when it is restored under another name; `topic` is the one that the point's first cut says.
    """
    best = F.min(
        F.struct("totals", -F.size("principal_rows"), "accepted_ms", "tenant", "principal_rows")
    ).alias("best")
    in_cut = F.min(F.when(F.col("reading_kind") == CUT, F.struct("cut_end_ms", "topic")))
    is_start = F.max(F.col("reading_kind") == GENERATION_START).alias("is_start")
    return (
        readings.unionByName(_ends_of_older(readings))
        .groupBy(*POINT)
        .agg(
            best,
            is_start,
            F.collect_set("topic").alias("names"),
            in_cut.getField("topic").alias("in_cut"),
        )
        .select(
            *POINT,
            "is_start",
            F.coalesce("in_cut", F.array_min("names")).alias("topic"),
            "names",
            *(f"best.{name}" for name in ("tenant", "totals", "accepted_ms", "principal_rows")),
        )
    )


def _ends_of_older(readings: DataFrame) -> DataFrame:
    """Readings that begin a generation, as readings of the older one to which the log below them belongs: the newest
    that begins at or below, else the first that is known.
    """
    first = readings.groupBy(*PARTITION).agg(F.min("log_generation").alias("first"))
    begins = readings.where((F.col("reading_kind") == GENERATION_START) & (F.col("log_generation") > 0))
    older = begins.select(
        *PARTITION, F.col("log_generation").alias("older"), F.col("end_offset").alias("begun_at")
    ).distinct()
    below = (F.col("older") < F.col("log_generation")) & (F.col("begun_at") <= F.col("end_offset"))
    return (
        begins.join(older, list(PARTITION))
        .join(first, list(PARTITION))
        .groupBy(*(f"`{name}`" for name in readings.columns))
        .agg(
            F.coalesce(
                F.max(F.when(below, F.col("older"))), F.least(F.min("first"), F.col("log_generation") - 1)
            ).alias("owner")
        )
        .withColumn("log_generation", F.col("owner"))
        .withColumn("reading_kind", F.lit(PERIODIC))
        .drop("owner")
    )


def contradicting(readings: DataFrame, points: DataFrame) -> DataFrame:
    """(src_partition, src_offset, row, reason) of readings whose totals differ from the one used for their point."""
    used = points.select(*POINT, F.col("totals").alias("used"))
    return (
        readings.join(used, list(POINT))
        .where(F.col("totals") != F.col("used"))
        .select(
            "src_partition", "src_offset", "row", F.lit("other totals at the same offset").alias("reason")
        )
    )


def viewed(points: DataFrame) -> DataFrame:
    """Points by view, with `void` (a later generation began below) and `below` (it contradicts points before it)."""
    views = points.select(*PARTITION, F.col("log_generation").alias("view")).distinct()
    seen = points.join(views, list(PARTITION)).where(F.col("log_generation") <= F.col("view"))
    by_view = Window.partitionBy(*PARTITION, "view")
    # From the newest generation down: Spark goes through a frame that grows once, and through one that ends at
    # `unboundedFollowing` again at each row.
    later = by_view.orderBy(F.desc("log_generation")).rangeBetween(Window.unboundedPreceding, -1)
    start = F.when(F.col("is_start"), F.col("end_offset"))
    seen = seen.withColumn("void", F.coalesce(F.col("end_offset") > F.min(start).over(later), F.lit(False)))
    before = by_view.orderBy("log_generation", "end_offset").rowsBetween(Window.unboundedPreceding, -1)
    valid = ~F.col("void")
    fallen = [
        F.col("totals")[i] < F.max(F.when(valid, F.col("totals")[i])).over(before) for i in range(_TOTALS)
    ]
    fallen.append(F.col("end_offset") < F.max(F.when(valid, F.col("end_offset"))).over(before))
    below = fallen[0]
    for one in fallen[1:]:
        below = F.coalesce(below, F.lit(False)) | F.coalesce(one, F.lit(False))
    newest = F.col("view") == F.max("view").over(Window.partitionBy(*PARTITION))
    return seen.withColumn("below", valid & below).withColumn("current", newest)


def fallen(readings: DataFrame, seen: DataFrame) -> DataFrame:
    """(src_partition, src_offset, row, reason) of readings below what was read before in their own generation."""
    rejected = seen.where(F.col("below") & (F.col("view") == F.col("log_generation"))).select(
        *POINT, "totals"
    )
    return readings.join(rejected, [*POINT, "totals"]).select(
        "src_partition",
        "src_offset",
        "row",
        F.lit("totals or offset below those of an earlier reading").alias("reason"),
    )


def intervals_of(seen: DataFrame) -> DataFrame:
    """One row an interval and view: its end `POINT`, view, current, tenant, topic, totals at its end, first_offset,
    accepted_ms, messages, bytes, and `shares`: an array of (principal, messages, bytes) that adds up to them.

    Where its end has several names, what was gained until then has the one that the topic had at its beginning, too:
    a later name changes nothing before it.
    """
    chain = Window.partitionBy(*PARTITION, "view").orderBy("log_generation", "end_offset")
    minute = F.expr("accepted_ms div 60000")
    good = seen.where(~F.col("void") & ~F.col("below"))
    pairs = (
        good.withColumn("minute", minute)
        .withColumn(
            "before", F.lag(F.struct("end_offset", "totals", "minute", "principal_rows", "names")).over(chain)
        )
        .withColumn("first_offset", F.coalesce(F.col("before.end_offset"), F.lit(0).cast("long")))
        .withColumn("stayed", F.array_min(F.array_intersect("names", "before.names")))
        .withColumn("topic", F.coalesce("stayed", "topic"))
        .withColumn("messages", _gained(0))
        .withColumn("bytes", _gained(1))
        .withColumn("sorted", _sorted_rows())
        .withColumn("known", _known())
    )
    explained = "aggregate(known, CAST(0 AS BIGINT), (sum, row) -> sum + row.{0})"
    fits = F.expr(
        "forall(known, row -> row.messages >= 0 AND row.bytes >= 0) "
        f"AND {explained.format('messages')} <= messages AND {explained.format('bytes')} <= bytes"
    )
    pairs = pairs.withColumn("known", F.when(fits, F.col("known")).otherwise(F.expr("slice(known, 1, 0)")))
    rest = F.expr(
        "array(named_struct('principal', CAST(0 AS BIGINT), "
        f"'messages', messages - {explained.format('messages')}, 'bytes', bytes - {explained.format('bytes')}))"
    )
    return pairs.withColumn("shares", F.concat("known", rest)).select(
        *POINT,
        "view",
        "current",
        "tenant",
        "topic",
        "totals",
        "first_offset",
        "accepted_ms",
        "messages",
        "bytes",
        "shares",
    )


def _gained(index: int) -> Column:
    return F.col("totals")[index] - F.coalesce(F.col("before.totals")[index], F.lit(0).cast("long"))


def _sorted_rows() -> Column:
    """The reading's rows and, when the point before is of the same minute, those that it has, by principal: each of
    them (`now` 0) stands right before the reading's own row (`now` 1) of its principal.
    """
    return F.expr(
        """
        sort_array(concat(
            transform(
                CASE WHEN before.minute = minute THEN before.principal_rows ELSE slice(principal_rows, 1, 0) END,
                row -> named_struct(
                    'principal', row.principal, 'now', 0, 'messages', row.messages, 'bytes', row.bytes)),
            transform(principal_rows, row -> named_struct(
                'principal', row.principal, 'now', 1, 'messages', row.messages, 'bytes', row.bytes))))
        """
    )


def _known() -> Column:
    """The reading's rows less those that the previous point has of the same minute."""
    less = "IF(at > 0 AND sorted[at - 1].principal = row.principal, sorted[at - 1].{0}, CAST(0 AS BIGINT))"
    return F.expr(
        f"""
        transform(
            filter(
                transform(sorted, (row, at) -> named_struct(
                    'principal', row.principal, 'now', row.now,
                    'messages', row.messages - {less.format("messages")},
                    'bytes', row.bytes - {less.format("bytes")})),
                row -> row.now = 1),
            row -> named_struct('principal', row.principal, 'messages', row.messages, 'bytes', row.bytes))
        """
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Readings and what they were folded to."""

    read: DataFrame
    points: DataFrame
    seen: DataFrame
    intervals: DataFrame

    def rejections(self) -> DataFrame:
        """(src_partition, src_offset, row, reason) of readings that contradict others."""
        return contradicting(self.read, self.points).unionByName(fallen(self.read, self.seen))
