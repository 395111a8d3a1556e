"""One round of the pipeline: all of bronze is folded into all data sets, checked and published."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from daemon.data_set_store import DataSetStore
from spark_usage import bronze, checks, cuts, datasets, evidence, gold, readings, service_levels, silver
from spark_usage.configuration import Asset
from spark_usage.datasets import DataSet
from spark_usage.decode import decode
from spark_usage.manifest import Catalog, Check, Run, run_id_of

Progress = Callable[[str], None]
_SOURCE_ROW = ("src_partition", "src_offset", "row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of a round. `offsets` is the part of `__usage` that it covers: partition -> next offset."""

    offsets: Mapping[str, int]
    records: int
    runs: Mapping[str, Run]
    recomputed: bool
    seconds: float
    rejected: int
    missing: str
    """Offsets of `__usage` that are not there, named; empty when none."""


def fold(
    spark: SparkSession,
    folder: Path,
    assets: Sequence[Asset],
    *,
    again: bool = False,
    progress: Progress = lambda line: None,
    rows: DataFrame | None = None,
    offsets: Mapping[str, int] | None = None,
    store: DataSetStore | None = None,
    number: int = 0,
) -> Round:
    """Fold bronze in `folder` into the data sets in `store`, or in the same folder.

    Nothing is computed when all runs of these inputs are there, unless `again`. `rows` and `offsets` stand for bronze
    and what its stream has committed, `number` is the runner's. Raises `CheckFailed` and `StoreUnavailable`; what was
    published before stays.
    """
    began = time.monotonic()
    source = bronze.read(spark, folder) if rows is None else rows
    ends = dict(bronze.committed_offsets(folder) if offsets is None else offsets)
    work = _Fold(spark, Catalog(folder, store, number), assets, source, ends, progress)
    runs = None if again else work.known()
    recomputed = runs is None
    if runs is None:
        runs = work.compute()
    for name in runs:
        work.catalog.forget_old_runs(name)
    return Round(
        offsets=ends,
        records=work.records,
        runs=runs,
        recomputed=recomputed,
        seconds=time.monotonic() - began,
        rejected=runs["rejected"].rows,
        missing=evidence.named(work.holes),
    )


def inputs_of(
    ends: Mapping[str, int], records: int, holes: Sequence[Sequence[int]], assets: Sequence[Asset]
) -> dict[str, dict[str, Any]]:
    """What each data set is made from, by its name: with the code and the name it gives the run's id."""
    read = {"offsets": dict(ends), "records": records, "holes": [list(hole) for hole in holes], "runs": {}}
    hours = {"usage_hour": run_id_of("usage_hour", read)}
    found: dict[str, dict[str, Any]] = {dataset.name: dict(read) for dataset in datasets.ALL}
    for dataset in (datasets.USAGE_DAY, datasets.COST_HOUR):
        found[dataset.name]["runs"] = hours
    if assets:
        found[datasets.COST_HOUR.name]["assets"] = {asset.name: asset.micro_per_hour for asset in assets}
    return found


class _Fold:
    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        assets: Sequence[Asset],
        source: DataFrame,
        ends: dict[str, int],
        progress: Progress,
    ) -> None:
        self.spark, self.catalog, self.assets, self.source, self._progress = (
            spark, catalog, tuple(assets), source, progress,
        )  # fmt: skip
        there = evidence.extent(source, ends)
        self.records, self._distinct, self.holes = there.records, there.distinct, there.holes
        self._inputs_of = inputs_of(ends, self.records, [list(hole) for hole in self.holes], self.assets)
        self._runs: dict[str, Run] = {}

    def known(self) -> dict[str, Run] | None:
        """The runs of these inputs when all of them are there."""
        if any(
            self.catalog.manifest(d.name, run_id_of(d.name, self._inputs_of[d.name])) is None
            for d in datasets.ALL
        ):
            return None
        return {d.name: run for d in datasets.ALL if (run := self.catalog.known(d, self._inputs_of[d.name]))}

    def compute(self) -> dict[str, Run]:
        """Fold, check and publish all data sets. Raises `CheckFailed`."""
        facts = self._keep(decode(self.source))
        records = self._keep(silver.with_copies(facts))
        read = facts.where("kind = 'reading'")
        points = readings.points_of(read)
        seen = self._keep(readings.viewed(points))
        intervals = self._keep(readings.intervals_of(seen))
        delivered = silver.counted_once(facts, records, "delivered")
        requests = silver.counted_once(facts, records, "requests")
        seals, seal_conflicts = evidence.seals(facts)

        rejections = self._rejections(facts, records, read, points, seen, seal_conflicts)
        accounted = checks.records_accounted(facts, self.records, self._distinct)
        self._write(
            datasets.REJECTED,
            rejections,
            lambda written: [accounted, checks.readings_accounted(read, seen, written)],
        )
        issues = [dict(zip(evidence.HOLES.names, hole, strict=True)) for hole in self.holes]
        waived = self._write(datasets.WAIVED, silver.waived(records))
        self._write(
            datasets.COVERAGE_ISSUE,
            # As Arrow: rows of Python would go through a Python worker.
            self.spark.createDataFrame(pa.Table.from_pylist(issues, evidence.HOLES)),
        )
        by_minute = silver.usage_by_minute(intervals, delivered)
        hours = self._write(
            datasets.USAGE_HOUR,
            silver.usage_hour(by_minute),
            lambda written: [
                checks.hours_equal_totals(written, seen),
                checks.increments_equal(written, delivered),
            ],
        )
        self._write(
            datasets.USAGE_DAY,
            gold.usage_day(hours),
            lambda written: [checks.sums_equal("sums equal those of usage_hour", hours, written)],
        )
        self._write(datasets.USAGE_MINUTE, gold.usage_minute(by_minute))
        windows = self._write(datasets.SLA_5M, silver.sla_5m(requests))
        self._write(
            datasets.SLA_MINUTE,
            service_levels.sla_minute(requests),
            lambda written: [service_levels.failures_equal(written, windows)],
        )
        self._write(datasets.SLA_SLOW_5M, service_levels.sla_slow_5m(requests))
        self._write(datasets.LATENCY_DAY, service_levels.latency_day(requests))
        self._write(
            datasets.COST_HOUR,
            gold.cost_hour(self.spark, hours, self.assets),
            lambda written: [checks.costs_equal_prices(written, self.assets)],
        )
        self._write(datasets.SEAL, seals)
        self._write(datasets.CHAIN, evidence.chain(self.source))
        marks = self._keep(cuts.cut_marks(read, seen))
        starts = seen.where("is_start AND view = log_generation AND NOT below")
        self._write(
            datasets.CUT_USAGE,
            cuts.cut_usage(marks, intervals, starts),
            lambda written: [checks.cuts_equal_differences(written, marks)],
        )
        self._write(datasets.CUT_COVERAGE, cuts.cut_coverage(marks, self._missing(waived)))
        return self._runs

    def _rejections(
        self,
        facts: DataFrame,
        records: DataFrame,
        read: DataFrame,
        points: DataFrame,
        seen: DataFrame,
        seal_conflicts: DataFrame,
    ) -> DataFrame:
        """The data set `rejected`; what is found beside decoding gets its record from bronze."""
        repeated = records.where("conflict").select(
            *_SOURCE_ROW, F.lit("another record with the same boot and sequence").alias("reason")
        )
        found = (
            readings.contradicting(read, points)
            .unionByName(readings.fallen(read, seen))
            .unionByName(repeated)
            .unionByName(seal_conflicts)
        )
        recorded = found.join(
            self.source.select("src_partition", "src_offset", "record"), ["src_partition", "src_offset"]
        )
        return (
            facts.where("kind = 'rejected'")
            .select(*_SOURCE_ROW, "reason", "record")
            .unionByName(recorded.select(*_SOURCE_ROW, "reason", "record"))
        )

    def _missing(self, waived: DataFrame) -> str:
        """Possible causes of a gap: missing offsets, else missing sequences of a broker's boot."""
        if self.holes:
            return evidence.named(self.holes)
        boots = waived.where("missing > 0").orderBy("broker_id", "boot_id").limit(20).collect()
        return ", ".join(
            f"broker {boot['broker_id']} boot {boot['boot_id']} sequence {boot['first_missing']}"
            for boot in boots
        )

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The rows, computed once and without their plan, so that plans of later steps stay small. On a cluster they
        are in its folder of checkpoints: on an executor's own disk they would be lost with it, and the round too.
        """
        if self.spark.sparkContext.getCheckpointDir() is None:
            return frame.localCheckpoint()
        return frame.checkpoint()

    def _write(
        self,
        dataset: DataSet,
        rows: DataFrame,
        checked: Callable[[DataFrame], list[Check]] = lambda written: [],
    ) -> DataFrame:
        began = time.monotonic()
        pending = self.catalog.write(dataset, rows, self._inputs_of[dataset.name])
        written = self.catalog.read_folder(self.spark, dataset, pending.folder)
        run = pending.publish(checked(written))
        self._runs[dataset.name] = run
        seconds = time.monotonic() - began
        self._progress(f"{dataset.name:15} {run.rows:8} rows  run {run.run_id[:8]}  {seconds:5.1f} s")
        assert run.folder is not None
        return self.catalog.read_folder(self.spark, dataset, run.folder)
