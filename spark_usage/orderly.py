"""Which runs hold beside the other readings of their logs; those of other logs are taken apart again.

The runs of a log hold when the log has one generation, tenant and topic, goes on from its state if it has one, and its
readings (single ones, ends of runs and the state, in the order of offsets) never fall, say the same where they stand at
the same place, and none stands inside of a run. Then ends of runs say of the log what all of its readings would.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from data_plane.contract.usage_pb2 import GENERATION_START
from spark_usage import datasets, runs, states
from spark_usage.decoded_readings import TOTALS
from spark_usage.frames import nothing
from spark_usage.readings import PARTITION, POINT

_SINGLE = "kind = 'reading'"
_CONTENT = ("totals", "accepted_ms", "principal_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What workers have written of runs: files below a folder, named by kind and day."""

    spark: SparkSession
    folder: Path
    files: Sequence[str]

    def of(self, kind: str) -> dict[str, list[Path]]:
        """Day -> files."""
        found: dict[str, list[Path]] = {}
        for name in self.files:
            of, day, _ = name.split("/")
            if of == kind:
                found.setdefault(day, []).append(self.folder / name)
        return found

    def rows(self, kind: str) -> DataFrame:
        """Of this kind."""
        schema = from_arrow_schema(runs.STAGED[kind])
        paths = [str(file) for files in self.of(kind).values() for file in files]
        return self.spark.read.schema(schema).parquet(*paths) if paths else nothing(self.spark, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReadings:
    """The new readings of a round, most of them in runs."""

    single: DataFrame
    """Outside of runs, columns of the data set `reading`."""
    apart: DataFrame
    """What is folded one by one: `single`, the ends of runs that hold, all readings of other runs."""
    intervals: DataFrame
    """Of runs that hold, by hour: columns of `readings.intervals_of`."""
    lasts: DataFrame
    """`POINT` of the last readings of runs that hold: what was gained from the first one on is in `intervals`."""
    broken: DataFrame | None
    """`PARTITION` of the logs whose runs do not hold; None when all do."""
    staged: Staged

    def of_tenants(self, tenants: Sequence[str]) -> DataFrame:
        """All new readings of these tenants, one by one."""
        mine = F.col("tenant").isin(list(tenants))
        return self.single.where(mine).unionByName(self.staged.rows(runs.STAGED_READINGS).where(mine))

    def minutes(self) -> DataFrame:
        """What runs that hold gained, by minute: the columns of staged minutes."""
        found = self.staged.rows(runs.STAGED_MINUTES)
        return found if self.broken is None else found.join(self.broken, list(PARTITION), "left_anti")


def without_runs(facts: DataFrame, staging: Path) -> NewReadings:
    """Of facts that have no run."""
    single = facts.where(_SINGLE).select(*datasets.READING.names)
    hours = facts.limit(0)
    return NewReadings(
        single=single,
        apart=single,
        intervals=_as_intervals(hours),
        lasts=hours.select(*POINT),
        broken=None,
        staged=Staged(spark=facts.sparkSession, folder=staging, files=()),
    )


def with_runs(
    facts: DataFrame, staging: Path, logs: DataFrame, keep: Callable[[DataFrame], DataFrame]
) -> NewReadings:
    """Of facts that have runs; `logs` are the states, `keep` computes rows once."""
    names = facts.where("kind = 'staged'").select("file").collect()
    staged = Staged(spark=facts.sparkSession, folder=staging, files=sorted(row["file"] for row in names))
    ends = keep(ends_of(facts))
    found = keep(broken(ends, states.go_on(ends, logs), logs))
    return taken_apart(facts, None if found.isEmpty() else found, staged)


def ends_of(facts: DataFrame) -> DataFrame:
    """Single readings and ends of runs, columns of the data set `reading` and `run_from`: of the last reading of a run,
    the offset of its first.
    """
    run_from = F.when(F.col("kind") == "run_last", F.col("base_offset")).alias("run_from")
    kinds = F.col("kind").isin("reading", "run_first", "run_last")
    return facts.where(kinds).select(*datasets.READING.names, run_from)


def broken(ends: DataFrame, touched: DataFrame, logs: DataFrame) -> DataFrame:
    """`PARTITION` of the logs whose runs do not hold. `ends`: as `ends_of` has them; `touched`: `states.go_on` of them;
    `logs`: the states.
    """
    names = [name for name in ends.columns if name != "run_from"]
    bases = logs.join(touched.where("goes_on"), list(PARTITION), "left_semi")
    before = states.as_readings(bases, names).withColumn("run_from", F.lit(None).cast("long"))
    with_runs = ends.where("run_from IS NOT NULL").select(*PARTITION).distinct()
    all_of = ends.unionByName(before).join(with_runs, list(PARTITION), "left_semi")
    log = Window.partitionBy(*PARTITION).orderBy("end_offset")
    previous = F.lag("totals").over(log)
    fell = F.lit(False)
    for at in range(TOTALS):
        fell |= F.coalesce(F.col("totals")[at] < previous[at], F.lit(False))
    nearest = F.max("end_offset").over(log.rangeBetween(Window.unboundedPreceding, -1))
    content = F.struct(*_CONTENT)
    position = Window.partitionBy(*PARTITION, "end_offset")
    problem = (
        fell
        | F.coalesce(F.col("run_from") != nearest, F.lit(False))
        | (F.count("run_from").over(position) > 1)
        | (F.min(content).over(position) != F.max(content).over(position))
    )
    found = (
        all_of.withColumn("problem", problem)
        .groupBy(*PARTITION)
        .agg(
            F.bool_or("problem").alias("problem"),
            F.bool_or(F.col("reading_kind") == GENERATION_START).alias("begins"),
            *(
                (F.min(name) != F.max(name)).alias(f"{name}_differs")
                for name in ("log_generation", "tenant", "topic")
            ),
        )
        .where("problem OR begins OR log_generation_differs OR tenant_differs OR topic_differs")
        .select(*PARTITION)
    )
    late = touched.where("known AND NOT goes_on").join(with_runs, list(PARTITION), "left_semi")
    return found.unionByName(late.select(*PARTITION)).distinct()


def taken_apart(facts: DataFrame, not_holding: DataFrame | None, staged: Staged) -> NewReadings:
    """Of facts that have runs. `not_holding`: as `broken` has them, None when there are none."""
    single = facts.where(_SINGLE).select(*datasets.READING.names)

    def holding(kinds: Sequence[str]) -> DataFrame:
        some = facts.where(F.col("kind").isin(list(kinds)))
        return some if not_holding is None else some.join(not_holding, list(PARTITION), "left_anti")

    apart = single.unionByName(holding(("run_first", "run_last")).select(*datasets.READING.names))
    if not_holding is not None:
        others = staged.rows(runs.STAGED_READINGS).join(
            F.broadcast(not_holding), list(PARTITION), "left_semi"
        )
        apart = apart.unionByName(others)
    return NewReadings(
        single=single,
        apart=apart,
        intervals=_as_intervals(holding(("run_hour",))),
        lasts=holding(("run_last",)).select(*POINT).distinct(),
        broken=not_holding,
        staged=staged,
    )


def _as_intervals(hours: DataFrame) -> DataFrame:
    columns: Sequence[str | Column] = (
        *POINT,
        F.col("log_generation").alias("view"),
        F.lit(True).alias("current"),
        "tenant",
        "topic",
        "totals",
        F.col("base_offset").alias("first_offset"),
        "accepted_ms",
        "messages",
        "bytes",
        F.col("principal_rows").alias("shares"),
    )
    return hours.select(*columns)
