"""Gold: usage by day, by principal and by minute for people, and what each tenant's traffic cost."""

from collections.abc import Sequence
from datetime import date, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_usage.configuration import Asset
from spark_usage.datasets import QUANTITY

_PRICES = pa.schema([("asset", pa.string()), ("price", pa.int64())])
DAYS_BEFORE = 2
"""Days before the newest one of which there are minutes."""
METHOD = "bytes"
_TOPIC = ("tenant", "topic_id", "topic")


def usage_day(hours: DataFrame) -> DataFrame:
    """The data set `usage_day`, from `usage_hour`."""
    return hours.groupBy(*_TOPIC, F.to_date("hour").alias("day"), "meter").agg(
        F.sum("quantity").cast(QUANTITY).alias("quantity"),
        F.count_distinct("partition").cast("int").alias("partitions"),
    )


def of_principals(hours: DataFrame) -> DataFrame:
    """The rows of `usage_hour` that say who used it."""
    return hours.where("principal != 0 OR group != ''")


def principal_day(hours: DataFrame) -> DataFrame:
    """The data set `principal_day`, from `usage_hour`: what is known by principal and consumer group."""
    return (
        of_principals(hours)
        .groupBy(*_TOPIC, F.to_date("hour").alias("day"), "principal", "group", "meter")
        .agg(F.sum("quantity").cast(QUANTITY).alias("quantity"))
        .where("quantity != 0")
    )


def usage_minute(by_minute: DataFrame) -> DataFrame:
    """The data set `usage_minute`, of which the newest days are kept."""
    return by_minute.groupBy(*_TOPIC, "minute", "meter").agg(
        F.sum("quantity").cast(QUANTITY).alias("quantity")
    )


def oldest_minute_window(newest: str) -> str:
    """The oldest window of `usage_minute` that is kept beside the newest."""
    return (date.fromisoformat(newest) - timedelta(days=DAYS_BEFORE)).isoformat()


def cost_hour(spark: SparkSession, hours: DataFrame, assets: Sequence[Asset]) -> DataFrame:
    """The data set `cost_hour`: each asset's price of an hour with traffic, shared by bytes in and out.

    Shares are rounded down to whole micro-units; the rest goes to the largest remainders, one unit each, equal ones
    in the order of tenants. So the shares add up to the price.
    """
    # As Arrow: rows of Python would go through a Python worker.
    named = [{"asset": asset.name, "price": asset.micro_per_hour} for asset in assets]
    prices = spark.createDataFrame(pa.Table.from_pylist(named, _PRICES))
    weights = (
        hours.where(F.col("meter").isin("bytes_in", "bytes_out"))
        .groupBy("tenant", "hour")
        .agg(F.sum("quantity").cast(QUANTITY).alias("bytes"))
        .crossJoin(F.broadcast(prices))
    )
    all_tenants = Window.partitionBy("asset", "hour")
    by_remainder = all_tenants.orderBy(F.desc("remainder"), "tenant")
    return (
        weights.withColumn("all_bytes", F.sum("bytes").over(all_tenants).cast(QUANTITY))
        .withColumn("product", (F.col("bytes") * F.col("price").cast(QUANTITY)).cast(QUANTITY))
        .withColumn("whole", F.expr("product div all_bytes"))
        .withColumn("remainder", F.expr("product % all_bytes"))
        .withColumn("left", F.col("price") - F.sum("whole").over(all_tenants))
        .withColumn("more", (F.row_number().over(by_remainder) <= F.col("left")).cast("long"))
        .select(
            "tenant",
            "asset",
            "hour",
            F.lit(METHOD).alias("method"),
            "bytes",
            (F.col("whole") + F.col("more")).cast(QUANTITY).alias("cost_micro"),
        )
    )
