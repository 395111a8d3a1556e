"""Runs of data sets: written by Spark, checked, given a digest, and published with a manifest.

A catalog writes in the name of one runner, by its number: what counts is what the latest one made current (RL9).
"""

import base64
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from daemon.data_set_store import DataSetStore, FolderStore
from spark_usage import datasets
from spark_usage.datasets import DataSet

FORMAT = 1
RUN_ID_DIGITS = 32
KEPT_RUNS = 5
"""Runs of a data set that are kept, so that a reader has several rounds of time."""
_PENDING = ".pending-"
_PENDING_OF = re.compile(r"\.pending-(\d+)-")
_BATCH_ROWS = 10_000
_NUMBER_DIGITS = 18
"""Of a runner's number; pending runs of older versions begin with a run id of 32 hex digits."""


class CheckFailed(Exception):
    """A run contradicts its inputs. This is a fault of the pipeline; the run was not published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One conservation check with the numbers it compared."""

    name: str
    numbers: Mapping[str, int]
    holds: bool

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "numbers": dict(self.numbers), "holds": self.holds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A published run."""

    dataset: str
    run_id: str
    rows: int
    digest: str
    folder: Path | None = field(compare=False)
    """Where this round reads its rows; None when it was published before. The run is the same either way."""


@cache
def code_version() -> str:
    """Twelve hex digits of SHA-256 over this package's source."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def run_id_of(dataset: str, inputs: Mapping[str, Any]) -> str:
    """The same for the same code, data set and inputs."""
    canonical = json.dumps([code_version(), dataset, inputs], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:RUN_ID_DIGITS]


class Catalog:
    """All data sets: `folder` is what the pipeline works in, `store` where published runs rest, the same folder unless
    given.
    """

    def __init__(self, folder: Path, store: DataSetStore | None = None, number: int = 0) -> None:
        """`number`: of the runner that writes. Readers need none."""
        self.folder, self._number = folder, number
        self.store = FolderStore(folder) if store is None else store

    def greatest_number(self) -> int:
        """Of the runners that have made a run current; 0 before the first. Raises `StoreUnavailable`."""
        return max(self.store.number(dataset.name) for dataset in datasets.ALL)

    def take_over(self) -> None:
        """From now on nothing counts that an earlier runner makes current. What counts now goes on counting."""
        for dataset in datasets.ALL:
            current = self.store.current(dataset.name)
            if current is not None:
                self.make_current(dataset.name, json.loads(current)["run_id"])

    def manifest(self, dataset: str, run_id: str) -> dict[str, Any] | None:
        """Of a published run, else None."""
        content = self.store.manifest(dataset, run_id)
        if content is None:
            return None
        found: dict[str, Any] = json.loads(content)
        return found

    def current(self, dataset: str) -> dict[str, Any] | None:
        """The manifest of the run that counts, None before the first."""
        content = self.store.current(dataset)
        return None if content is None else self.manifest(dataset, json.loads(content)["run_id"])

    def read_folder(self, spark: SparkSession, dataset: DataSet, folder: Path) -> DataFrame:
        """The rows in the folder of a run."""
        return spark.read.schema(dataset.struct).parquet(str(folder / "*.parquet"))

    def write(self, dataset: DataSet, rows: DataFrame, inputs: Mapping[str, Any]) -> "PendingRun":
        """Write the rows in the order of their key, under a name that readers do not know yet."""
        run_id = run_id_of(dataset.name, inputs)
        folder = self.folder / dataset.name / f"{_PENDING}{self._number}-{run_id}-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        ordered = rows.select(*(f"`{name}`" for name in dataset.names)).to(dataset.struct)
        ordered = ordered.repartition(1).sortWithinPartitions(*(f"`{name}`" for name in dataset.key_names))
        ordered.write.mode("overwrite").parquet(str(folder))
        for leftover in folder.iterdir():
            if leftover.suffix != ".parquet":
                leftover.unlink()
        return PendingRun(self, dataset, run_id, folder, inputs)

    def known(self, dataset: DataSet, inputs: Mapping[str, Any]) -> Run | None:
        """The published run of these inputs; it becomes the current one."""
        run_id = run_id_of(dataset.name, inputs)
        manifest = self.manifest(dataset.name, run_id)
        if manifest is None:
            return None
        self.make_current(dataset.name, run_id)
        return Run(
            dataset=dataset.name, run_id=run_id, rows=manifest["rows"], digest=manifest["digest"], folder=None
        )

    def make_current(self, dataset: str, run_id: str) -> None:
        content = _json({"run_id": run_id, "number": self._number})
        self.store.make_current(dataset, content, self._number)

    def forget_old_runs(self, dataset: str, kept: int = KEPT_RUNS) -> None:
        """Remove all but the newest runs, and what ended rounds left unpublished: not what a later runner writes."""
        current = self.store.current(dataset)
        if current is not None:
            self.store.remove_old_runs(dataset, json.loads(current)["run_id"], kept)
        for pending in (self.folder / dataset).glob(f"{_PENDING}*"):
            of = _PENDING_OF.match(pending.name)
            if of is None or len(of[1]) > _NUMBER_DIGITS or int(of[1]) <= self._number:
                shutil.rmtree(pending, ignore_errors=True)


class PendingRun:
    """Rows that are written and not yet published."""

    def __init__(
        self, catalog: Catalog, dataset: DataSet, run_id: str, folder: Path, inputs: Mapping[str, Any]
    ) -> None:
        self._catalog, self._dataset, self._run_id, self._inputs = catalog, dataset, run_id, inputs
        self.folder = folder
        self.files = sorted(folder.glob("*.parquet"))
        self.rows, self.digest = digest_of(dataset, self.files)

    def publish(self, checks: Sequence[Check]) -> Run:
        """Make the rows the data set's current run. Raises `CheckFailed`, and then nothing has changed."""
        name = self._dataset.name
        for check in checks:
            if not check.holds:
                shutil.rmtree(self.folder, ignore_errors=True)
                numbers = ", ".join(f"{what} {number}" for what, number in check.numbers.items())
                raise CheckFailed(f"{name}: {check.name} does not hold: {numbers}")
        published = self._catalog.store.publish(
            name, self._run_id, self.folder, _json(self._manifest(checks))
        )
        digest = json.loads(published.manifest)["digest"]
        if digest != self.digest:
            raise CheckFailed(
                f"{name}: run {self._run_id} has the digest {digest}, now {self.digest}: "
                "the same inputs gave other rows"
            )
        self._catalog.make_current(name, self._run_id)
        return Run(
            dataset=name, run_id=self._run_id, rows=self.rows, digest=self.digest, folder=published.folder
        )

    def _manifest(self, checks: Sequence[Check]) -> dict[str, Any]:
        return {
            "dataset": self._dataset.name,
            "format": FORMAT,
            "run_id": self._run_id,
            "code_version": code_version(),
            "inputs": dict(self._inputs),
            "schema": [{"name": name, "type": kind} for name, kind in self._dataset.columns],
            "key": self._dataset.key_names,
            "rows": self.rows,
            "digest": self.digest,
            "files": [
                {"name": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file)}
                for file in self.files
            ],
            "conservation": [check.to_dict() for check in checks],
            "made_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }


def digest_of(dataset: DataSet, files: Iterable[Path]) -> tuple[int, str]:
    """(rows, SHA-256 over them) of files that hold the rows in the order of the key.

    Raises `CheckFailed` when two rows have the same key.
    """
    digest, rows = hashlib.sha256(), 0
    previous: list[Any] | None = None
    names = dataset.names
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                key = list(row[: dataset.key])
                if key == previous:
                    raise CheckFailed(f"{dataset.name}: two rows have the key {key}")
                previous = key
                digest.update(canonical_line(dataset, row))
                rows += 1
    return rows, digest.hexdigest()


def canonical_line(dataset: DataSet, row: Sequence[Any]) -> bytes:
    """One row as its digest sees it: compact JSON in the order of the schema, and a line feed."""
    values = {name: _canonical(kind, value) for (name, kind), value in zip(dataset.columns, row, strict=True)}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _canonical(kind: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if kind == "bigint" else value


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
