"""Gold: usage by day, by principal and by minute for people."""

from datetime import date, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_usage.datasets import QUANTITY

DAYS_BEFORE = 2
"""Days before the newest one of which there are minutes."""
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
