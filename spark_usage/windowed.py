"""Publishes the data sets of a round in windows: what it changes is written, what it does not is named again."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_usage import checks
from spark_usage.datasets import DataSet
from spark_usage.frames import is_nothing, nothing
from spark_usage.manifest import Catalog, Check, Run, Window, windows_of
from spark_usage.states import Base

Progress = Callable[[str], None]


class Windowed:
    """What is there in `base` (None: nothing), and what is published on top of it."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: Catalog,
        progress: Progress,
        base: Base | None,
        inputs_of: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.spark = spark
        self.catalog = catalog
        self._progress = progress
        self._base = base
        self._inputs_of = inputs_of
        self._runs: dict[str, Run] = {}

    def _before(self, dataset: DataSet, windows: Collection[str] | None = None) -> DataFrame:
        """Rows of the base; none without one."""
        manifest = None if self._base is None else self._base.manifests[dataset.name]
        return self.catalog.read(self.spark, dataset, manifest, windows)

    def _windows(self, dataset: DataSet, touched: Collection[str]) -> tuple[DataFrame, list[Window]]:
        """The base's rows of the windows with these names, and its other windows."""
        if self._base is None:
            return self._before(dataset), []
        windows = windows_of(self._base.manifests[dataset.name]).values()
        return self._before(dataset, touched), [one for one in windows if one.name not in touched]

    def _touched(self, dataset: DataSet, rows: DataFrame) -> set[str]:
        """The windows that these rows are in; not looked for without a base, which has none to carry over."""
        return set() if self._base is None else names_of(dataset, rows)

    def _carry(self, dataset: DataSet, found: Sequence[Check] = ()) -> DataFrame:
        """Publish what the base has. Returns no rows: none of a window that changed."""
        windows = windows_of(None if self._base is None else self._base.manifests[dataset.name]).values()
        rows = nothing(self.spark, dataset.struct)
        self._write(dataset, rows, found=found, carried=[*windows], changed=())
        return rows

    def _write_added(
        self,
        dataset: DataSet,
        new: DataFrame,
        sums: Sequence[str],
        kind: str,
        found: Sequence[Check] = (),
        *,
        bits: Sequence[str] = (),
    ) -> tuple[DataFrame, set[str] | None]:
        """Add to what the base says. Returns the rows of the windows that changed, and their names (None: all)."""
        if self._base is None:
            self._write(dataset, new, found=found)
            return self._written(dataset), None
        new = self._keep(new)
        changed = names_of(dataset, new)
        if not changed and not found:
            return self._carry(dataset), changed
        earlier, carried = self._windows(dataset, changed)
        rows = added(dataset, earlier, new, sums, kind, bits)
        label = "what changed is the sum of what was there and what is new"

        def checked(written: DataFrame) -> list[Check]:
            return [checks.sums_equal(label, earlier.unionByName(new), written)]

        self._write(
            dataset,
            rows,
            checked if "quantity" in sums else None,
            found=found,
            carried=carried,
            changed=changed,
        )
        return self._written(dataset, changed), changed

    def _write_of_windows(
        self,
        dataset: DataSet,
        rows: DataFrame,
        changed: set[str] | None,
        checked: Callable[[DataFrame], list[Check]],
    ) -> None:
        """Rows of the windows that changed (None: of all)."""
        carried: list[Window] = []
        if self._base is not None and changed is not None:
            windows = windows_of(self._base.manifests[dataset.name]).values()
            carried = [window for window in windows if window.name not in changed]
        self._write(dataset, rows, checked, carried=carried, changed=changed)

    def _write_of_tenants(
        self, dataset: DataSet, rows: DataFrame, tenants: Sequence[str] | None, found: Sequence[Check] = ()
    ) -> None:
        """All rows of these tenants (None: of all)."""
        carried: list[Window] = []
        if tenants is not None:
            rows = self._keep(rows.select(*(f"`{name}`" for name in dataset.names)).to(dataset.struct))
            theirs = self._before(dataset).where(F.col("tenant").isin(list(tenants)))
            touched = names_of(dataset, rows) | names_of(dataset, theirs)
            assert self._base is not None
            windows = windows_of(self._base.manifests[dataset.name]).values()
            carried = [window for window in windows if window.name not in touched]
            others = self._before(dataset, touched).where(~F.col("tenant").isin(list(tenants)))
            rows = rows.unionByName(others)
        self._write(dataset, rows, found=found, carried=carried)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The rows, computed once and without their plan, so that plans of later steps stay small. On a cluster they
        are in its folder of checkpoints: on an executor's own disk they would be lost with it, and the round too.
        """
        if is_nothing(frame):
            return nothing(self.spark, frame.schema)
        if self.spark.sparkContext.getCheckpointDir() is None:
            return frame.localCheckpoint()
        return frame.checkpoint()

    def _write(
        self,
        dataset: DataSet,
        rows: DataFrame,
        checked: Callable[[DataFrame], list[Check]] | None = None,
        *,
        found: Sequence[Check] = (),
        carried: Sequence[Window] = (),
        changed: Collection[str] | None = None,
        staged: Mapping[str, Sequence[Path]] | None = None,
    ) -> None:
        """Publish. `checked` compares the written rows of the windows that `changed` names (None: of all)."""
        began = time.monotonic()
        pending = self.catalog.write(dataset, rows, self._inputs_of[dataset.name], carried, staged or {})
        compared = [] if checked is None else checked(pending.read(self.spark, changed))
        run = pending.publish([*found, *compared])
        self._runs[dataset.name] = run
        seconds = time.monotonic() - began
        self._progress(f"{dataset.name:15} {run.rows:8} rows  run {run.run_id[:8]}  {seconds:5.1f} s")

    def _written(self, dataset: DataSet, windows: Collection[str] | None = None) -> DataFrame:
        """The published rows of these windows (None: of all). Spark looks at each file, so name few."""
        return self.catalog.read(self.spark, dataset, self._runs[dataset.name].manifest, windows)


def names_of(dataset: DataSet, rows: DataFrame) -> set[str]:
    """The windows that these rows are in."""
    if is_nothing(rows):
        return set()
    return {row[0] for row in rows.select(F.expr(dataset.window)).distinct().collect()}


def added(
    dataset: DataSet,
    earlier: DataFrame,
    new: DataFrame,
    sums: Sequence[str],
    kind: str,
    bits: Sequence[str] = (),
) -> DataFrame:
    """Rows summed up by key, and `bits` set where any has them; without those whose sums are all 0."""
    summed = (
        earlier.unionByName(new.select(*(f"`{name}`" for name in dataset.names)))
        .groupBy(*(f"`{name}`" for name in dataset.key_names))
        .agg(
            *(F.sum(name).cast(kind).alias(name) for name in sums),
            *(F.bit_or(name).alias(name) for name in bits),
        )
    )
    # What a late log takes back may leave nothing.
    return summed.where("quantity != 0") if "quantity" in sums else summed
