"""One round of the pipeline: what is new in bronze is folded into the windows that it changes, checked, published.

A round goes on from the last whole one (`states.Base`) and publishes what a fold of all of bronze would, digest by
digest. It folds all of bronze when there is no such round: the first time, with another version of the code, when
bronze's files are not those that were read, with `again`, and for news that contradict earlier records
(`states.Irregular`). Where bronze has expired, all of it is what came after the ground (`states.find_ground`).
"""

import logging
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from daemon.data_set_store import DataSetStore
from spark_usage import (
    bronze,
    checks,
    cuts,
    datasets,
    evidence,
    gold,
    leaderships,
    minutes,
    orderly,
    readings,
    runs,
    service_levels,
    silver,
    states,
)
from spark_usage.datasets import QUANTITY
from spark_usage.frames import is_nothing
from spark_usage.inputs import inputs_of, states_inputs
from spark_usage.leaderships import Kept
from spark_usage.manifest import Catalog, Run, Window, run_id_of, windows_of
from spark_usage.news import News, news_of
from spark_usage.orderly import NewReadings
from spark_usage.readings import PARTITION, POINT, Folded
from spark_usage.records_read import BronzeSource, GivenSource, Source
from spark_usage.repeats import came_again
from spark_usage.round_frames import Decoded, PartitionFrames
from spark_usage.session import suit
from spark_usage.states import Base, Irregular, find_base, find_ground
from spark_usage.windowed import Progress, Windowed, added, names_of

log = logging.getLogger(__name__)
_NAMED_MAX = 1_000
"""Topics that are named to Spark, so that it reads the parts of files that have them."""
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
    *,
    again: bool = False,
    progress: Progress = lambda line: None,
    rows: DataFrame | None = None,
    offsets: Mapping[str, int] | None = None,
    store: DataSetStore | None = None,
    number: int = 0,
    catalog: Catalog | None = None,
) -> Round:
    """Fold what is new in bronze in `folder` into the data sets in `store`, or in the same folder.

    Nothing is computed when all runs of these inputs are there, unless `again`, which folds all of bronze. `rows` and
    `offsets` stand for bronze and what its stream has committed, `number` is the runner's; `catalog` stands for `store`
    and `number`. Raises `CheckFailed`, `Unrepeatable` and `StoreUnavailable`; what was published before stays.
    """
    began = time.monotonic()
    source: Source = BronzeSource(spark, folder) if rows is None else GivenSource(rows)
    ends = dict(bronze.committed_offsets(folder) if offsets is None else offsets)
    catalog = Catalog(folder, store, number) if catalog is None else catalog
    base = None if again else find_base(catalog, ends)
    if base is None or not source.follows(base.inputs.get("bronze")):
        base = find_ground(catalog, source.expired, ends)
    work = _Fold(spark, catalog, source, ends, progress, base)
    runs = None if again else work.known()
    recomputed = runs is None
    if runs is None:
        try:
            runs = work.compute()
        except Irregular as reason:
            log.warning("all of bronze is folded again", extra={"reason": str(reason)})
            source.follows(None)
            ground = find_ground(catalog, source.expired, ends)
            work = _Fold(spark, catalog, source, ends, progress, ground)
            runs = work.compute()
    forget_old_runs(catalog, source.expired)
    catalog.forget_fetched()
    return Round(
        offsets=ends,
        records=work.records,
        runs={dataset.name: runs[dataset.name] for dataset in datasets.ALL},
        recomputed=recomputed,
        seconds=time.monotonic() - began,
        rejected=runs["rejected"].rows,
        missing=evidence.named(work.holes),
    )


def forget_old_runs(catalog: Catalog, expired: int) -> None:
    """Remove old runs of all data sets; none while bronze has expired (`expired` of its files) onto a ground that
    nothing names now.
    """
    if expired and not catalog.pinned():
        log.warning("no old run is removed: ground.json is not there; restore it from a backup")
        return
    for dataset in datasets.EVERY:
        catalog.forget_old_runs(dataset.name)


class _Fold(Windowed):
    """One round: from `base` on, or over all of bronze without one."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        source: Source,
        ends: dict[str, int],
        progress: Progress,
        base: Base | None,
    ) -> None:
        self._source = source
        self._expired = bool(source.expired) or (base is not None and base.lowest)
        self._begins = begins = {} if base is None else base.offsets
        before: Mapping[str, Any] = (
            {"records": 0, "holes": [], "read_until": ""} if base is None else base.inputs
        )
        self._new = source.after(begins)
        there = evidence.extent(self._new, ends, begins)
        self._counted = there
        self.records = before["records"] + there.records
        self.holes = evidence.joined(
            [(partition, first, count) for partition, first, count in before["holes"]] + there.holes
        )
        self._read_until = max(before["read_until"], there.read_until)
        made_from = inputs_of(ends, self.records, self.holes, self._read_until)
        super().__init__(spark, catalog, progress, base, made_from | states_inputs(made_from, source.mark))

    def known(self) -> dict[str, Run] | None:
        """The runs of these inputs when all of them are there, with their files."""
        for dataset in datasets.ALL:
            manifest = self.catalog.manifest(
                dataset.name, run_id_of(dataset.name, self._inputs_of[dataset.name])
            )
            if manifest is None or not self.catalog.is_whole(dataset.name, manifest):
                return None
        return {d.name: run for d in datasets.ALL if (run := self.catalog.known(d, self._inputs_of[d.name]))}

    def compute(self) -> dict[str, Run]:
        """Fold, check and publish all data sets. Raises `CheckFailed`, and `Irregular` when it began from a base."""
        staging = self.catalog.staging(datasets.READING)
        boots = self._before(datasets.BOOT)
        decoded = self._decode(staging, boots)
        partitions = self._read_partitions(decoded, staging)
        kept = self._keeping(self._with_points(decoded))
        new_seals, seal_conflicts = evidence.seals(
            decoded.facts if decoded.news.seals else decoded.facts.limit(0)
        )
        seals, seal_conflicts, kept_seals = self._seals(new_seals, seal_conflicts)

        self._write_rejected(decoded, partitions, seal_conflicts)
        issues = [dict(zip(evidence.HOLES.names, hole, strict=True)) for hole in self.holes]
        ranges = self._keep(silver.boots(decoded.records, boots))
        self._write(datasets.WAIVED, silver.waived(ranges))
        self._write(
            datasets.COVERAGE_ISSUE,
            # As Arrow: rows of Python would go through a Python worker.
            self.spark.createDataFrame(pa.Table.from_pylist(issues, evidence.HOLES)),
        )
        self._write_usage(decoded, partitions, kept)
        self._write_service_levels(decoded.requests)
        self._write(datasets.SEAL, seals, carried=kept_seals)
        self._write_chain()
        self._write_cuts(decoded.news, partitions)
        self._write_states(partitions, kept, ranges)
        return self._runs

    # -- what is new ---------------------------------------------------------------------------------------

    def _decode(self, staging: Path, boots: DataFrame) -> Decoded:
        """Decode what is new. Long runs of readings are condensed into files of `staging`."""
        facts = self._keep(runs.condense(self._source, self._begins, staging))
        news = news_of(facts)
        suit(self.spark, news.facts)
        records = self._keep(self._with_copies(facts, boots))
        none = facts.limit(0)
        return Decoded(
            facts=facts,
            news=news,
            records=records,
            delivered=silver.counted_once(facts if news.delivered else none, records, "delivered"),
            requests=silver.counted_once(facts if news.requests else none, records, "requests"),
            elapsed=silver.counted_once(facts if news.elapsed else none, records, "elapsed"),
        )

    def _read_partitions(self, decoded: Decoded, staging: Path) -> PartitionFrames:
        """Fold new readings, after the states of logs that go on, or with all earlier readings of the others."""
        logs = self._keep(self._before(datasets.LOG))
        new = orderly.without_runs(decoded.facts, staging)
        if decoded.news.runs:
            new = orderly.with_runs(decoded.facts, staging, logs, self._keep)
        touched = self._keep(states.go_on(new.apart, logs))
        late = self._earlier(touched.where("known AND NOT goes_on"))
        bases = self._keep(logs.join(touched.where("goes_on"), list(PARTITION), "left_semi"))
        return PartitionFrames(
            new=new,
            logs=logs,
            touched=touched,
            bases=bases,
            now=self._side(new.apart.unionByName(late) if late is not None else new.apart, bases, new.lasts),
            then=None if late is None else self._side(late),
        )

    def _with_points(self, decoded: Decoded) -> DataFrame:
        """New readings of brokers that count what leaderships keep."""
        facts = decoded.facts
        counted = facts.where("kind IN ('reading', 'kept')") if decoded.news.retained else facts.limit(0)
        return counted.select(*datasets.READING.names)

    def _with_copies(self, facts: DataFrame, boots: DataFrame) -> DataFrame:
        """`silver.with_copies`, also of records of earlier rounds. Raises `Irregular` when one of these differs."""
        records = silver.with_copies(facts)
        if self._base is None:
            return records
        more = self._keep(came_again(self.spark, self._source, self._base, records, boots))
        if is_nothing(more):
            return records
        return (
            records.join(more, list(silver.SOURCE), "left")
            .withColumn("copy", F.col("copy") + F.coalesce("more", F.lit(0)))
            .drop("more")
        )

    def _earlier(self, again: DataFrame) -> DataFrame | None:
        """Earlier readings of these partitions; None when there are none."""
        again = again.select(*PARTITION)
        ids = sorted({row["topic_id"] for row in again.select("topic_id").distinct().collect()})
        if not ids:
            return None
        stored = self._of_topics(self._before(datasets.READING), ids)
        return self._keep(stored.join(F.broadcast(again), list(PARTITION), "left_semi"))

    def _of_topics(self, stored: DataFrame, ids: list[str]) -> DataFrame:
        """Stored readings of these topics, and perhaps of others: Spark passes over the parts of files without them."""
        return stored.where(F.col("topic_id").isin(ids)) if len(ids) <= _NAMED_MAX else stored

    def _side(
        self, read: DataFrame, bases: DataFrame | None = None, lasts: DataFrame | None = None
    ) -> Folded:
        """Readings folded, after the states in `bases`, without the intervals that end at `lasts`."""
        with_bases = read
        if bases is not None:
            with_bases = read.unionByName(states.as_readings(bases, read.columns))
        points = readings.points_of(with_bases)
        viewed = self._keep(readings.viewed(points))
        intervals = readings.intervals_of(viewed)
        if bases is not None:
            intervals = intervals.join(bases.select(*POINT), list(POINT), "left_anti")
        if lasts is not None:
            intervals = intervals.join(lasts, list(POINT), "left_anti")
        return Folded(read=read, points=points, seen=viewed, intervals=self._keep(intervals))

    def _keeping(self, new: DataFrame) -> Kept:
        """Bytes that leaderships kept, by new readings."""
        states_before = self._keep(self._before(datasets.LEADERSHIP))
        points = self._keep(leaderships.points_of(new))
        late = self._keep(leaderships.late(points, states_before))
        earlier = self._earlier(late)
        bases = states_before.join(points.select(*PARTITION).distinct(), list(PARTITION), "left_semi")
        bases = self._keep(bases.join(late, list(PARTITION), "left_anti"))
        then = None
        if earlier is not None:
            points = leaderships.points_of(new.unionByName(earlier))
            then = self._keep(silver.kept(leaderships.points_of(earlier)))
        if self._base is not None:
            points = points.unionByName(leaderships.as_points(bases))
        points = self._keep(points)
        now = self._keep(leaderships.without(silver.kept(points), bases))
        return Kept(points=points, bases=bases, now=now, then=then, before=states_before)

    def _seals(self, new: DataFrame, conflicts: DataFrame) -> tuple[DataFrame, DataFrame, list[Window]]:
        """New seals with the earlier ones of their windows, conflicts, and the other windows. Raises `Irregular`."""
        if self._base is None:
            return new, conflicts, []
        if is_nothing(new):
            earlier, carried = self._windows(datasets.SEAL, ())
            return earlier, conflicts, carried
        if self._base.lowest:
            was = self._before(datasets.SEAL)
            new, conflicts = map(self._keep, evidence.first_stand(new, conflicts, was))
        elif not conflicts.isEmpty():
            raise Irregular(evidence.ANOTHER_SEAL)
        others = self._before(datasets.SEAL).select(*evidence.SEAL_KEY, F.col("seal").alias("was"))
        again = new.select(*evidence.SEAL_KEY, "seal").join(others, list(evidence.SEAL_KEY))
        if not again.where("seal != was").isEmpty():
            raise Irregular(evidence.ANOTHER_SEAL)
        named = self._keep(new.select(*datasets.SEAL.names))
        earlier, carried = self._windows(datasets.SEAL, names_of(datasets.SEAL, named))
        values = F.struct(*(name for name in datasets.SEAL.names if name not in evidence.SEAL_KEY))
        both = self._keep(
            earlier.unionByName(new.select(*datasets.SEAL.names))
            .groupBy(*evidence.SEAL_KEY)
            .agg(
                F.min_by(values, F.struct(*silver.SOURCE)).alias("first"),
                (F.min("seal") != F.max("seal")).alias("differs"),
            )
        )
        if not both.where("differs").isEmpty():
            raise Irregular(evidence.ANOTHER_SEAL)
        return both.select(*evidence.SEAL_KEY, "first.*"), conflicts, carried

    # -- the data sets -------------------------------------------------------------------------------------

    def _write_rejected(
        self, decoded: Decoded, partitions: PartitionFrames, seal_conflicts: DataFrame
    ) -> None:
        """The data set `rejected`; what is found beside decoding gets its record from bronze."""
        facts, news, now, then = decoded.facts, decoded.news, partitions.now, partitions.then
        repeated = decoded.records.where("conflict").select(
            *_SOURCE_ROW, F.lit("another record with the same boot and sequence").alias("reason")
        )
        beside = self._keep(now.rejections().unionByName(repeated).unionByName(seal_conflicts))
        if beside.isEmpty():
            beside = beside.limit(0)
        position = ["src_partition", "src_offset"]
        source = self._new if then is None else self._source.at(beside.select(*position))
        sourced = source.select(*position, "record")
        if then is not None and self._expired:
            # Of records that have expired those are left that were rejected before; others' content is gone.
            sourced = sourced.unionByName(
                self._before(datasets.REJECTED).select(*position, "record")
            ).distinct()
        recorded = beside.join(sourced, position, "left" if self._expired else "inner")
        new = self._keep(
            (facts.where("kind = 'rejected'") if news.rejected else facts.limit(0))
            .select(*_SOURCE_ROW, "reason", "record")
            .unionByName(recorded.select(*_SOURCE_ROW, "reason", "record"))
        )
        gone = None if then is None else self._keep(then.rejections().select(*_SOURCE_ROW))
        changed = (
            new.select(*position)
            if gone is None
            else new.select(*position).unionByName(gone.select(*position))
        )
        touched = self._touched(datasets.REJECTED, changed)
        earlier, carried = self._windows(datasets.REJECTED, touched)
        if gone is not None:
            earlier = earlier.join(gone, list(_SOURCE_ROW), "left_anti")
        accounted = news.check(self._counted.records, self._counted.distinct)
        self._write(
            datasets.REJECTED,
            earlier.unionByName(new.select(*datasets.REJECTED.names)),
            lambda written: [checks.readings_accounted(now.read, now.seen, written)],
            found=[accounted],
            carried=carried,
            changed=None if self._base is None else touched,
        )

    def _write_usage(self, decoded: Decoded, partitions: PartitionFrames, kept: Kept) -> None:
        """Usage by hour, day and minute."""
        new, now, then = partitions.new, partitions.now, partitions.then
        delivered, requests, elapsed = decoded.delivered, decoded.requests, decoded.elapsed
        by_minute = self._keep(silver.usage_by_minute(now.intervals, delivered, kept.now, requests, elapsed))
        of_runs = self._keep(silver.produced(new.intervals))
        everything = by_minute.unionByName(of_runs)
        quantities = checks.quantities(everything)
        came = [
            checks.hours_equal_totals(everything, now.seen, partitions.bases),
            checks.increments_equal(quantities, delivered),
            checks.requests_equal(quantities, requests),
            checks.elapsed_equal(quantities, elapsed),
            checks.kept_equals_readings(quantities, by_minute, kept.now, kept.points, kept.bases),
        ]
        late = then is not None or kept.then is not None
        if late:
            before = silver.usage_by_minute(
                now.intervals.limit(0) if then is None else then.intervals,
                delivered.limit(0),
                kept.now.limit(0) if kept.then is None else kept.then,
                requests.limit(0),
                elapsed.limit(0),
            )
            by_minute = self._keep(silver.differences(by_minute, before))
        by_hour = silver.usage_hour(by_minute.unionByName(of_runs))
        hours, changed = self._write_added(datasets.USAGE_HOUR, by_hour, ("quantity",), QUANTITY, came)
        self._write_of_windows(
            datasets.USAGE_DAY,
            gold.usage_day(hours),
            changed,
            lambda written: [checks.sums_equal("sums equal those of usage_hour", hours, written)],
        )
        theirs = gold.of_principals(hours)
        self._write_of_windows(
            datasets.PRINCIPAL_DAY,
            gold.principal_day(hours),
            changed,
            lambda written: [checks.sums_equal("sums equal those of principals by hour", theirs, written)],
        )
        self._write_minutes(by_minute, new, late=late)

    def _write_service_levels(self, requests: DataFrame) -> None:
        windows, _ = self._write_added(datasets.SLA_5M, silver.sla_5m(requests), ("valid", "bad"), "bigint")
        minutes, changed = self._write_added(
            datasets.REQUEST_MINUTE,
            service_levels.request_minute(requests),
            ("valid", "bad"),
            "bigint",
            bits=("succeeded_seconds", "failed_seconds"),
        )
        self._write_of_windows(
            datasets.SLA_MINUTE,
            minutes.where("bad > 0"),
            changed,
            lambda written: [service_levels.failures_equal(written, windows)],
        )
        self._write_added(datasets.SLA_SLOW_5M, service_levels.sla_slow_5m(requests), ("slow",), "bigint")
        self._write_added(datasets.LATENCY_DAY, service_levels.latency_day(requests), ("requests",), "bigint")

    def _write_minutes(self, by_minute: DataFrame, of: NewReadings, *, late: bool) -> None:
        dataset = datasets.USAGE_MINUTE
        new = self._keep(gold.usage_minute(by_minute))
        touched = names_of(dataset, new)
        of_runs = of.staged.of(runs.STAGED_MINUTES)
        if of_runs and of.broken is not None:
            holding = names_of(dataset, of.minutes())
            of_runs = {name: files for name, files in of_runs.items() if name in holding}
        earlier, carried = self._windows(dataset, touched | of_runs.keys())
        rows = self._keep(added(dataset, earlier, new, ("quantity",), QUANTITY))
        # Only what a late log takes back may leave a window empty.
        names = names_of(dataset, rows) if late else touched
        names |= of_runs.keys() | {window.name for window in carried}
        newest = max(names, default="")
        if self._base is not None and late and not self._base.lowest:
            before = windows_of(self._base.manifests[dataset.name])
            if newest < max(before, default=""):
                raise Irregular("the newest usage is gone")
        if names:
            oldest = self._oldest_minutes(newest)
            rows = rows.where(F.expr(dataset.window) >= oldest)
            carried = [window for window in carried if window.name >= oldest]
            of_runs = {name: files for name, files in of_runs.items() if name >= oldest}
        written: dict[str, list[Path]] = {}
        if of_runs:
            with_runs = F.expr(dataset.window).isin(sorted(of_runs))
            others = self._keep(rows.where(with_runs))
            written = minutes.folded(self.spark, of.staged.folder, of_runs, others, of.broken)
            rows = rows.where(~with_runs)
        self._write(dataset, rows, carried=carried, staged=written)

    def _oldest_minutes(self, newest: str) -> str:
        """The oldest window that is kept. The minutes of a broker whose clock is ahead must not push out today's."""
        return gold.oldest_minute_window(min(newest, self._read_until))

    def _write_chain(self) -> None:
        dataset = datasets.CHAIN
        ends: dict[int, tuple[int, bytes]] = {}
        if self._base is not None:
            manifest = self._base.manifests[dataset.name]
            newest = {name.partition("-")[0]: name for name in sorted(windows_of(manifest))}
            ends = evidence.chain_ends(self.catalog.read(self.spark, dataset, manifest, set(newest.values())))
        new = evidence.chain(self._new, ends)
        if self._base is not None:
            new = self._keep(new)
        earlier, carried = self._windows(dataset, self._touched(dataset, new))
        self._write(dataset, earlier.unionByName(new), carried=carried)

    def _write_cuts(self, news: News, partitions: PartitionFrames) -> None:
        """The cuts of tenants whose cuts may have changed are folded from all readings of their logs."""
        new, now, logs = partitions.new, partitions.now, partitions.logs
        read, viewed = now.read, now.seen
        intervals = now.intervals.unionByName(new.intervals)
        tenants: list[str] | None = None if news.ends else []
        if self._base is not None:
            coverage = self._keep(self._before(datasets.CUT_COVERAGE).select("tenant", "status").distinct())
            ends = new.single if news.ends else new.single.limit(0)
            late = new.apart.join(partitions.touched.where("NOT goes_on"), list(PARTITION), "left_semi")
            tenants = cuts.tenants_to_fold(ends, late, coverage)
        if tenants == []:
            self._carry(datasets.CUT_USAGE, [checks.no_cuts()])
            self._carry(datasets.CUT_COVERAGE)
            return
        if tenants is not None:
            earlier = self._before(datasets.READING).where(F.col("tenant").isin(tenants))
            read = self._of_topics(earlier, cuts.topics_of(tenants, logs)).unionByName(
                new.of_tenants(tenants)
            )
            viewed = self._keep(readings.viewed(readings.points_of(read)))
            intervals = self._keep(readings.intervals_of(viewed))
        marks = self._keep(cuts.cut_marks(read, viewed))
        starts = viewed.where("is_start AND view = log_generation AND NOT below")
        usage = cuts.cut_usage(marks, intervals, starts)
        equal = checks.cuts_equal_differences(usage, marks)
        if not equal.holds:
            marks = self._keep(cuts.without_unclear(marks, checks.cuts_that_differ(usage, marks), viewed))
            usage = cuts.cut_usage(marks, intervals, starts)
            equal = checks.cuts_equal_differences(usage, marks)
        self._write_of_tenants(datasets.CUT_USAGE, usage, tenants, [equal])
        missing = ""
        if not is_nothing(marks):
            missing = evidence.causes(self.holes, self._written(datasets.WAIVED))
        self._write_of_tenants(datasets.CUT_COVERAGE, cuts.cut_coverage(marks, missing), tenants)

    def _write_states(self, partitions: PartitionFrames, kept: Kept, ranges: DataFrame) -> None:
        new, logs, dataset = partitions.new, partitions.logs, datasets.READING
        rows = states.kept_readings(new.single, partitions.touched, logs)
        windows = {} if self._base is None else windows_of(self._base.manifests[dataset.name])
        full = {name for name, window in windows.items() if window.in_small_files}
        full &= names_of(dataset, rows) if full else set()
        if full:
            rows = rows.unionByName(self._before(dataset, full))
        self._write(
            dataset,
            rows,
            carried=[window for window in windows.values() if window.name not in full],
            staged=new.staged.of(runs.STAGED_READINGS),
        )
        shutil.rmtree(new.staged.folder, ignore_errors=True)
        self._write(datasets.LOG, states.of_logs(partitions.now.seen, logs))
        if self._base is not None and is_nothing(kept.points):
            self._carry(datasets.LEADERSHIP)
        else:
            self._write(datasets.LEADERSHIP, leaderships.states_of(kept.points, kept.before))
        self._write(datasets.BOOT, ranges)
