"""Frames that several data sets of a round are made from, by their names."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark_usage.news import News
from spark_usage.orderly import NewReadings
from spark_usage.readings import Folded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """New records, decoded."""

    facts: DataFrame
    news: News
    records: DataFrame
    """One row a record, with how often it came."""
    delivered: DataFrame
    requests: DataFrame
    elapsed: DataFrame
    """Increments, each counted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFrames:
    """New readings of partitions, and what stands of the same partitions since earlier rounds."""

    new: NewReadings
    logs: DataFrame
    """States of all logs before this round."""
    touched: DataFrame
    """Logs that have new readings."""
    bases: DataFrame
    """States of those that go on."""
    now: Folded
    """New readings, with the earlier ones of logs that do not go on."""
    then: Folded | None
    """These earlier ones alone; None without any."""
