"""Silver: usage by hour and by minute from intervals and deliveries; what was rejected, waived and is not there."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_usage.datasets import QUANTITY
from spark_usage.leaderships import LEADERSHIP, RETAINED
from spark_usage.readings import PARTITION

SOURCE = ("src_partition", "src_offset")
_RECORD_ID = ("broker_id", "boot_id", "sequence")
_METERS_IN = ("messages_in", "bytes_in")
_METERS_OUT = (
    "messages_out", "bytes_out", "messages_out_own_zone", "bytes_out_own_zone", "messages_out_other_zone",
    "bytes_out_other_zone",
)  # fmt: skip
ELAPSED_METERS = ("connection_ms", "throttled_ms", "leaderless_ms")
RETAINED_METERS = ("retained_byte_minutes", "replicated_byte_minutes", "partition_minutes")


def with_copies(facts: DataFrame) -> DataFrame:
    """`record` facts with `copy` (0: its increments count) and `conflict` (same identity, other content)."""
    by_identity = Window.partitionBy(*_RECORD_ID).orderBy(*SOURCE)
    return (
        facts.where("kind = 'record'")
        .withColumn("copy", F.row_number().over(by_identity) - 1)
        .withColumn("conflict", F.col("digest") != F.first("digest").over(by_identity))
    )


def counted_once(facts: DataFrame, records: DataFrame, kind: str) -> DataFrame:
    """Facts of increments (`delivered`, `requests`, `elapsed`), each record's once by (broker, boot, sequence)."""
    return facts.where(F.col("kind") == kind).join(
        records.where("copy = 0").select(*SOURCE), list(SOURCE), "left_semi"
    )


def boots(records: DataFrame, before: DataFrame) -> DataFrame:
    """The data set `boot`: the ranges of sequences that came, those `before` with those of new records."""
    came = records.where("copy = 0").select(
        "broker_id",
        "boot_id",
        F.col("sequence").alias("first"),
        (F.col("sequence") + 1).alias("end"),
        F.col("made_ms").alias("began_ms"),
        F.col("boot_ends").alias("ends"),
    )
    boot = Window.partitionBy("broker_id", "boot_id")
    in_order = boot.orderBy("first")
    return (
        before.unionByName(came)
        .withColumn("began_ms", F.min("began_ms").over(boot))
        .withColumn("ends", F.max("ends").over(boot))
        .withColumn("breaks", (F.col("first") > F.lag("end", 1, -1).over(in_order)).cast("long"))
        .withColumn("range", F.sum("breaks").over(in_order))
        .groupBy("broker_id", "boot_id", "range")
        .agg(
            F.min("first").alias("first"),
            F.max("end").alias("end"),
            F.first("began_ms").alias("began_ms"),
            F.first("ends").alias("ends"),
        )
        .drop("range")
    )


def kept(points: DataFrame) -> DataFrame:
    """What each leadership of a partition kept between two neighbouring points (`leaderships.points_of`).

    [first, until), in minutes, with byte_minutes and replicated_byte_minutes; `ends`: where a later leadership of the
    partition began (null: none did). The totals are those of a leadership, so repeated, late and lost readings change
    no sum. Totals that fall gain nothing.
    """
    chain = Window.partitionBy(*LEADERSHIP).orderBy("retained_until")
    before = chain.rowsBetween(Window.unboundedPreceding, -1)
    # From the newest leadership down, so that a frame grows once.
    later = (
        Window.partitionBy(*PARTITION)
        .orderBy(F.desc("leader_epoch"), F.desc("retained_since"), "broker_id", "boot_id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    leaderships = (
        points.select(*LEADERSHIP).distinct().withColumn("ends", F.min("retained_since").over(later))
    )
    gained = [
        F.greatest(F.lit(0), F.col(name) - F.coalesce(F.max(name).over(before), F.lit(0))).alias(name)
        for name in RETAINED
    ]
    intervals = points.select(
        *LEADERSHIP,
        "tenant",
        "topic",
        F.coalesce(F.lag("retained_until").over(chain), F.col("retained_since")).alias("first"),
        F.col("retained_until").alias("until"),
        *gained,
    )
    return intervals.where("first < until").join(leaderships, list(LEADERSHIP))


def _kept_by_minute(kept: DataFrame) -> DataFrame:
    """Rows as `usage_by_minute` has them: what was kept is divided evenly over the hours of its interval, in whole
    byte-minutes that add up to it. What a leadership counted after a later one began is left out.
    """
    by_hour = (
        kept.withColumn("hour", F.explode(F.expr("sequence(first div 60, (until - 1) div 60)")))
        .withColumn("low", F.greatest("first", F.expr("hour * 60")))
        .withColumn("high", F.least("until", F.expr("hour * 60 + 60"), "ends"))
        .where("low < high")
    )
    quantities = [_share(name) for name in RETAINED] + [F.expr("high - low")]
    return by_hour.select(
        "tenant",
        "topic_id",
        "topic",
        "partition",
        F.lit(0).cast("long").alias("log_generation"),
        (F.col("high") - 1).alias("minute"),
        F.lit(0).cast("long").alias("principal"),
        F.lit("").alias("group"),
        _stacked(RETAINED_METERS, *quantities),
    )


def _share(name: str) -> Column:
    """The part of an interval's total that lies in [low, high)."""
    part = f"CAST({name} AS {QUANTITY}) * CAST({{0}} - first AS DECIMAL(10,0)) div (until - first)"
    return F.expr(f"({part.format('high')}) - ({part.format('low')})")


def _answered(requests: DataFrame) -> DataFrame:
    """Rows as `usage_by_minute` has them, of no topic: requests that were answered as they should."""
    return requests.select(
        "tenant",
        F.lit("").alias("topic_id"),
        F.lit("").alias("topic"),
        F.lit(0).alias("partition"),
        F.lit(0).cast("long").alias("log_generation"),
        "minute",
        F.lit(0).cast("long").alias("principal"),
        F.lit("").alias("group"),
        _stacked(("requests",), F.col("valid") - F.col("bad")),
    )


def _by_principal(elapsed: DataFrame) -> DataFrame:
    """Rows as `usage_by_minute` has them: time of connections and of delays, of a topic where one is known, and time in
    which a partition had no leader.
    """
    return elapsed.select(
        "tenant",
        "topic_id",
        "topic",
        "partition",
        F.lit(0).cast("long").alias("log_generation"),
        "minute",
        "principal",
        F.lit("").alias("group"),
        _stacked(ELAPSED_METERS, *map(F.col, ELAPSED_METERS)),
    )


def usage_by_minute(
    intervals: DataFrame, delivered: DataFrame, kept: DataFrame, requests: DataFrame, elapsed: DataFrame
) -> DataFrame:
    """The columns of `usage_hour` with `minute` instead of `hour`, not summed up."""
    where = ("tenant", "topic_id", "topic", "partition")
    taken = delivered.select(
        *where,
        F.lit(0).cast("long").alias("log_generation"),
        "minute",
        "principal",
        "group",
        _stacked(
            _METERS_OUT,
            F.col("messages"),
            F.col("bytes"),
            F.col("messages") - F.col("other_zone_messages"),
            F.col("bytes") - F.col("other_zone_bytes"),
            F.col("other_zone_messages"),
            F.col("other_zone_bytes"),
        ),
    )
    others = (
        taken.unionByName(_kept_by_minute(kept))
        .unionByName(_answered(requests))
        .unionByName(_by_principal(elapsed))
    )
    return produced(intervals).unionByName(_metered(others))


def produced(intervals: DataFrame) -> DataFrame:
    """Rows as `usage_by_minute` has them of the current view's intervals."""
    where = ("tenant", "topic_id", "topic", "partition")
    by_share = (
        intervals.where("current")
        .withColumn("minute", F.expr("accepted_ms div 60000"))
        .select(*where, "log_generation", "minute", F.explode("shares").alias("share"))
        .select(
            *where,
            "log_generation",
            "minute",
            "share.principal",
            F.lit("").alias("group"),
            _stacked(_METERS_IN, F.col("share.messages"), F.col("share.bytes")),
        )
    )
    return _metered(by_share)


def _metered(rows: DataFrame) -> DataFrame:
    return (
        rows.withColumn("meter", F.col("metered.meter"))
        .withColumn("quantity", F.col("metered.quantity").cast(QUANTITY))
        .drop("metered")
        .where("quantity != 0")
    )


def differences(now: DataFrame, before: DataFrame) -> DataFrame:
    """Rows of `usage_by_minute`: what `now` has more than `before`, or less, without what both have."""
    by = [name for name in now.columns if name != "quantity"]
    less = before.withColumn("quantity", (-F.col("quantity")).cast(QUANTITY))
    return (
        now.unionByName(less)
        .groupBy(*(f"`{name}`" for name in by))
        .agg(F.sum("quantity").cast(QUANTITY).alias("quantity"))
        .where("quantity != 0")
    )


def _stacked(meters: tuple[str, ...], *quantities: Column) -> Column:
    rows = [
        F.struct(F.lit(meter).alias("meter"), quantity.cast(QUANTITY).alias("quantity"))
        for meter, quantity in zip(meters, quantities, strict=True)
    ]
    return F.explode(F.array(*rows)).alias("metered")


def usage_hour(by_minute: DataFrame) -> DataFrame:
    """The data set `usage_hour`."""
    hour = F.timestamp_seconds(F.expr("minute div 60 * 3600")).alias("hour")
    return by_minute.groupBy(
        "tenant", "topic_id", "topic", "partition", "log_generation", hour, "principal", "group", "meter"
    ).agg(F.sum("quantity").cast(QUANTITY).alias("quantity"))


def waived(ranges: DataFrame) -> DataFrame:
    """The data set `waived`, from `boot`: by boot, which sequences never came.

    A boot is open until its last record says that it ends. The latest boot of a broker has no missing sequences yet:
    its records may still arrive.
    """
    boots = ranges.groupBy("broker_id", "boot_id").agg(
        F.when(F.min("first") > 1, F.lit(1))
        .otherwise(F.min_by("end", "first"))
        .cast("long")
        .alias("first_missing"),
        (F.max("end") - 1 - F.sum(F.col("end") - F.col("first"))).alias("holes"),
        (~F.max("ends")).alias("open"),
        F.min("began_ms").alias("began"),
    )
    latest = F.col("began") == F.max("began").over(Window.partitionBy("broker_id"))
    waiting = F.col("open") & latest
    return boots.select(
        "broker_id",
        "boot_id",
        "first_missing",
        F.when(waiting, F.lit(0)).otherwise(F.col("holes")).cast("long").alias("missing"),
        "open",
    )


def sla_5m(requests: DataFrame) -> DataFrame:
    """The data set `sla_5m`."""
    window = F.timestamp_seconds(F.expr("minute div 5 * 300")).alias("window")
    return requests.groupBy("tenant", "operation", window).agg(
        F.sum("valid").alias("valid"), F.sum("bad").alias("bad")
    )
