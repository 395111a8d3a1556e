"""What leaderships of partitions say that they kept: their points, and where a round ended, so that the next goes on.

A *point* of a leadership is a minute with the totals that it had kept until then. Each partition has a state: the
newest leadership with its last point, and the last minute of any. New points *go on* when they are those of that
leadership beyond its last point, or of later ones that begin when all others had ended. Then the state, as a point,
stands for all before. Else all points of the partition are folded again, as those of late logs are (`states`).
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_usage.readings import PARTITION

LEADERSHIP = (*PARTITION, "leader_epoch", "broker_id", "boot_id", "retained_since")
RETAINED = ("byte_minutes", "replicated_byte_minutes")
_NAMES = ("tenant", "topic")
_POINT = (*LEADERSHIP, "retained_until")


def points_of(readings: DataFrame) -> DataFrame:
    """`LEADERSHIP`, retained_until, tenant, topic and `RETAINED`, one row a point. Of readings that report different
    totals of the same minute the smallest count.
    """
    return (
        readings.where("retained_since IS NOT NULL")
        .groupBy(*_POINT)
        .agg(*(F.min(name).alias(name) for name in (*_NAMES, *RETAINED)))
    )


def late(points: DataFrame, states: DataFrame) -> DataFrame:
    """The partitions (`PARTITION`) with a state whose new points do not all go on."""
    state = states.select(
        *PARTITION, F.struct(*(name for name in states.columns if name not in PARTITION)).alias("was")
    )
    same = [F.col(name) == F.col(f"was.{name}") for name in LEADERSHIP if name not in PARTITION]
    repeated = [F.col(name) == F.col(f"was.{name}") for name in ("retained_until", *_NAMES, *RETAINED)]
    further = F.col("retained_until") > F.col("was.retained_until")
    is_same, is_repeated = F.lit(True), F.lit(True)
    for one in same:
        is_same &= one
    for one in repeated:
        is_repeated &= one
    begins_later = (
        F.struct("leader_epoch", "retained_since") > F.struct("was.leader_epoch", "was.retained_since")
    ) & (F.col("retained_since") >= F.col("was.all_until"))
    goes_on = F.when(is_same, further | is_repeated).otherwise(begins_later)
    return points.join(state, list(PARTITION)).where(~goes_on).select(*PARTITION).distinct()


def as_points(states: DataFrame) -> DataFrame:
    """States as `points_of` has points."""
    return states.select(*_POINT, *_NAMES, *RETAINED)


def without(intervals: DataFrame, states: DataFrame) -> DataFrame:
    """Rows of `silver.kept` without those that end at the states' points: they were counted."""
    counted = states.select(*LEADERSHIP, F.col("retained_until").alias("until"))
    return intervals.join(counted, [*LEADERSHIP, "until"], "left_anti")


def states_of(points: DataFrame, states: DataFrame) -> DataFrame:
    """The data set `leadership` after these points, with what was there before of partitions that have none."""
    newest = Window.partitionBy(*PARTITION).orderBy(
        F.desc("leader_epoch"), F.desc("retained_since"), "broker_id", "boot_id"
    )
    last = F.struct("retained_until")
    before = states.select(*PARTITION, F.col("all_until").alias("until_before"))
    here = (
        points.groupBy(*LEADERSHIP)
        .agg(
            *(F.max_by(name, last).alias(name) for name in _NAMES),
            F.max("retained_until").alias("retained_until"),
            *(F.max(name).alias(name) for name in RETAINED),
        )
        .withColumn("place", F.row_number().over(newest))
        .withColumn("until_now", F.max("retained_until").over(Window.partitionBy(*PARTITION)))
        .where("place = 1")
        .join(before, list(PARTITION), "left")
        .withColumn("all_until", F.greatest("until_now", "until_before"))
        .select(*states.columns)
    )
    return here.unionByName(states.join(here.select(*PARTITION), list(PARTITION), "left_anti"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What leaderships kept: points with those of states (`bases`), and intervals now and before this round."""

    points: DataFrame
    bases: DataFrame
    now: DataFrame
    then: DataFrame | None
    before: DataFrame
    """All states as they were."""
