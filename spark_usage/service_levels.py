"""What service levels are made of: failed minutes to the second, latencies by day, slow requests by window."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.rules.latency_buckets import THRESHOLD_BUCKETS, THRESHOLDS_MS
from spark_usage.manifest import Check

_WINDOW = "minute div 5 * 300"


def request_minute(requests: DataFrame) -> DataFrame:
    """The data set `request_minute`. Seconds are those of all brokers. `sla_minute` has the minutes with a request that
    failed by our fault.
    """
    return requests.groupBy("tenant", "operation", "minute").agg(
        F.sum("valid").alias("valid"),
        F.sum("bad").alias("bad"),
        F.bit_or("succeeded_seconds").alias("succeeded_seconds"),
        F.bit_or("failed_seconds").alias("failed_seconds"),
    )


def latency_day(requests: DataFrame) -> DataFrame:
    """The data set `latency_day`: histograms of good answers, by bucket."""
    day = F.to_date(F.timestamp_seconds(F.expr("minute * 60"))).alias("day")
    return (
        requests.select("tenant", "operation", day, F.explode("latencies").alias("latency"))
        .groupBy("tenant", "operation", "day", "latency.bucket")
        .agg(F.sum("latency.requests").alias("requests"))
    )


def sla_slow_5m(requests: DataFrame) -> DataFrame:
    """The data set `sla_slow_5m`: good answers of a window that took longer than each threshold; none is no row."""
    window = F.timestamp_seconds(F.expr(_WINDOW)).alias("window")
    thresholds = F.array(
        *(
            F.struct(F.lit(over_ms).cast("int").alias("over_ms"), F.lit(bucket).cast("int").alias("bucket"))
            for over_ms, bucket in zip(THRESHOLDS_MS, THRESHOLD_BUCKETS, strict=True)
        )
    )
    return (
        requests.select("tenant", "operation", window, F.explode("latencies").alias("latency"))
        .groupBy("tenant", "operation", "window", "latency.bucket")
        .agg(F.sum("latency.requests").alias("requests"))
        .withColumn("threshold", F.explode(thresholds))
        .where("bucket > threshold.bucket")
        .groupBy("tenant", "operation", "window", "threshold.over_ms")
        .agg(F.sum("requests").alias("slow"))
    )


def failures_equal(minutes: DataFrame, windows: DataFrame) -> Check:
    """By tenant and operation, failed minutes and windows have the same failed requests."""
    by = ("tenant", "operation")
    left = minutes.groupBy(*by).agg(F.sum("bad").alias("by_minute"))
    right = windows.where("bad > 0").groupBy(*by).agg(F.sum("bad").alias("by_window"))
    row = (
        left.join(right, list(by), "full")
        .na.fill(0)
        .agg(
            F.count_if(F.col("by_minute") != F.col("by_window")).alias("different"),
            F.coalesce(F.sum("by_minute"), F.lit(0)).alias("by_minute"),
            F.coalesce(F.sum("by_window"), F.lit(0)).alias("by_window"),
        )
        .collect()[0]
    )
    return Check(
        name="failed requests by minute equal those by window",
        numbers={name: int(row[name]) for name in ("different", "by_minute", "by_window")},
        holds=row["different"] == 0,
    )
