"""Runs of data sets: written by Spark, checked, given a digest, and published with a manifest.

A catalog writes in the name of one runner, by its number: what counts is what the latest one made current (RL9).
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from daemon.data_set_store import DataSetStore, FolderStore, StoreUnavailable, is_object, write_durably
from spark_usage import datasets
from spark_usage.canonical import canonical_lines, repeated_key, text_bytes
from spark_usage.datasets import DataSet
from spark_usage.frames import is_nothing, nothing
from spark_usage.sink_log import sync_folder

FORMAT = 2
RUN_ID_DIGITS = 32
KEPT_RUNS = 5
"""Runs of a data set that are kept, so that a reader has several rounds of time."""
_FILES_A_WINDOW, _ROWS_A_FILE = 16, 20_000
_PENDING = ".pending-"
_PENDING_OF = re.compile(r"\.pending-(\d+)-")
_FETCHED = ".fetched"
_PINNED = "ground.json"
EXPIRED = "expired"
"""In `ground.json` beside the names of data sets: how many files of bronze have expired onto it."""
_BATCH_ROWS = 10_000
_WINDOW = "_window"
"""The column that rows are put into windows by."""
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
    manifest: Mapping[str, Any] = field(compare=False)


@cache
def code_version() -> str:
    """Twelve hex digits of SHA-256 over this package's source, and over what else decides what its rows are."""
    digest = hashlib.sha256()
    root = Path(__file__).parent.parent
    for file in (*sorted(Path(__file__).parent.glob("*.py")), *(root / name for name in _DECIDES_TOO)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def run_id_of(dataset: str, inputs: Mapping[str, Any]) -> str:
    """The same for the same code, data set and inputs."""
    canonical = json.dumps([code_version(), dataset, inputs], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:RUN_ID_DIGITS]


_DECIDES_TOO = (
    "data_plane/contract/usage_pb2.py",
    "penstock/contract/ids.py",
    "penstock/records/seal.py",
    "penstock/records/usage.py",
    "penstock/rules/latency_buckets.py",
    "penstock/rules/service_levels.py",
)


class Catalog:
    """All data sets: `folder` is what the pipeline works in, `store` where published runs rest, the same folder unless
    given.
    """

    def __init__(self, folder: Path, store: DataSetStore | None = None, number: int = 0) -> None:
        """`number`: of the runner that writes. Readers need none."""
        self.folder = folder
        self._number = number
        self.store = FolderStore(folder) if store is None else store
        self._here: dict[tuple[str, str], Path] = {}
        """Where the rows of runs are that this catalog has published, by data set and run."""

    def greatest_number(self) -> int:
        """Of the runners that have made a run current; 0 before the first. Raises `StoreUnavailable`."""
        return max(self.store.number(dataset.name) for dataset in datasets.EVERY)

    def take_over(self) -> None:
        """From now on nothing counts that an earlier runner makes current. What counts now goes on counting."""
        for dataset in datasets.EVERY:
            run_id = self._current_run(dataset.name)
            if run_id is not None:
                self.make_current(dataset.name, run_id)

    def pinned(self) -> dict[str, str]:
        """Data set -> run that is kept as the ground of later rounds: bronze before it has expired. And `EXPIRED`."""
        try:
            content = (self.folder / _PINNED).read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreUnavailable(f"{self.folder / _PINNED}: {error.strerror}") from error
        if not is_object(content):
            raise StoreUnavailable(f"{self.folder / _PINNED}: damaged; restore it from a backup")
        return {str(name): str(run) for name, run in json.loads(content).items()}

    def pin(self, runs: Mapping[str, str]) -> None:
        """Keep these runs, of each data set one, instead of those before; with `EXPIRED`. Durable."""
        write_durably(self.folder / _PINNED, _json(runs))
        sync_folder(self.folder)

    def manifest(self, dataset: str, run_id: str) -> dict[str, Any] | None:
        """The manifest of a published run, else None: a run whose manifest is damaged is not there, and is published
        again.
        """
        content = self.store.manifest(dataset, run_id)
        if content is None or not is_object(content):
            return None
        found: dict[str, Any] = json.loads(content)
        return found

    def current(self, dataset: str) -> dict[str, Any] | None:
        """The manifest of the run that counts, None before the first."""
        run_id = self._current_run(dataset)
        return None if run_id is None else self.manifest(dataset, run_id)

    def _current_run(self, dataset: str) -> str | None:
        """None also of a damaged pointer: the next round writes it again."""
        content = self.store.current(dataset)
        if content is None or not is_object(content):
            return None
        run_id = json.loads(content).get("run_id")
        return None if run_id is None else str(run_id)

    def read(
        self,
        spark: SparkSession,
        dataset: DataSet,
        manifest: Mapping[str, Any] | None,
        windows: Collection[str] | None = None,
    ) -> DataFrame:
        """The rows of a published run, or of these windows of it; none without a run."""
        files = () if manifest is None else manifest["files"]
        paths = [
            self.path(dataset.name, manifest["run_id"] if manifest else "", file)
            for file in files
            if windows is None or file["window"] in windows
        ]
        return read_files(spark, dataset, paths)

    def path(self, dataset: str, run_id: str, file: Mapping[str, Any]) -> Path:
        """A file of a run on a disk that Spark's workers see. Raises `StoreUnavailable`."""
        run, name = str(file.get("run", run_id)), str(file["name"])
        if (dataset, run) in self._here and (self._here[dataset, run] / name).exists():
            return self._here[dataset, run] / name
        if isinstance(self.store, FolderStore):
            return self.store.run_folder(dataset, run) / name
        here = self.folder / _FETCHED / dataset / f"{run}-{name}"
        if not here.exists():
            content = self.store.file(dataset, run, name)
            if content is None:
                raise StoreUnavailable(f"{dataset} run {run}: file {name} is not there")
            here.parent.mkdir(parents=True, exist_ok=True)
            write_durably(here, content)
        return here

    def is_whole(self, dataset: str, manifest: Mapping[str, Any]) -> bool:
        """Whether the files that the manifest names are there."""
        files = [(str(file.get("run", manifest["run_id"])), str(file["name"])) for file in manifest["files"]]
        sizes = {
            pair: int(file["bytes"])
            for pair, file in zip(files, manifest["files"], strict=True)
            if "bytes" in file
        }
        return self.store.has(dataset, files, sizes)

    def forget_fetched(self) -> None:
        """Remove copies of published files."""
        shutil.rmtree(self.folder / _FETCHED, ignore_errors=True)

    def staging(self, dataset: DataSet) -> Path:
        """An empty place for files that workers write and `write` takes; it goes with what ended rounds left."""
        folder = self.folder.absolute() / dataset.name / f"{_PENDING}{self._number}-staged-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def write(
        self,
        dataset: DataSet,
        rows: DataFrame,
        inputs: Mapping[str, Any],
        carried: Sequence["Window"] = (),
        staged: Mapping[str, Sequence[Path]] | None = None,
    ) -> "PendingRun":
        """Write the rows by window in the order of their key, under a name that readers do not know yet. `carried`:
        windows of earlier runs that are windows of this one, too. `staged`: window -> files with further rows, which
        are moved. Only an internal data set, which has no digest, may have several, or other rows of that window.
        """
        run_id = run_id_of(dataset.name, inputs)
        folder = self.folder / dataset.name / f"{_PENDING}{self._number}-{run_id}-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        if is_nothing(rows):
            folder.mkdir(parents=True)
        else:
            self._write_rows(dataset, rows, folder)
        for name, files in (staged or {}).items():
            window = folder / f"{_WINDOW}={name}"
            window.mkdir(exist_ok=True)
            for file in files:
                file.rename(window / file.name)
        return PendingRun(self, dataset, run_id, folder, inputs, carried)

    def _write_rows(self, dataset: DataSet, rows: DataFrame, folder: Path) -> None:
        ordered = rows.select(*(f"`{name}`" for name in dataset.names)).to(dataset.struct)
        ordered = (
            ordered.withColumn(_WINDOW, F.expr(dataset.window))
            .repartition(_WINDOW)
            .sortWithinPartitions(_WINDOW, *(f"`{name}`" for name in dataset.key_names))
        )
        ordered.write.mode("overwrite").partitionBy(_WINDOW).parquet(str(folder))

    def known(self, dataset: DataSet, inputs: Mapping[str, Any]) -> Run | None:
        """The published run of these inputs; it becomes the current one."""
        run_id = run_id_of(dataset.name, inputs)
        manifest = self.manifest(dataset.name, run_id)
        if manifest is None:
            return None
        self.make_current(dataset.name, run_id)
        return Run(
            dataset=dataset.name,
            run_id=run_id,
            rows=manifest["rows"],
            digest=manifest["digest"],
            manifest=manifest,
        )

    def published(self, dataset: str, run_id: str, folder: Path) -> None:
        """A run is there, and its rows are in this folder until old runs are removed; it becomes the current one."""
        self._here[dataset, run_id] = folder
        self.make_current(dataset, run_id)

    def make_current(self, dataset: str, run_id: str) -> None:
        content = _json({"run_id": run_id, "number": self._number})
        self.store.make_current(dataset, content, self._number)

    def forget_old_runs(self, dataset: str, kept: int = KEPT_RUNS) -> None:
        """Remove all but the newest runs, and what ended rounds left unpublished: not what a later runner writes."""
        current = self._current_run(dataset)
        if current is not None:
            pinned = [self.pinned()[dataset]] if dataset in self.pinned() else []
            self.store.remove_old_runs(dataset, current, kept, pinned)
        for pending in (self.folder / dataset).glob(f"{_PENDING}*"):
            of = _PENDING_OF.match(pending.name)
            if of is None or len(of[1]) > _NUMBER_DIGITS or int(of[1]) <= self._number:
                shutil.rmtree(pending, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a data set: its name, its rows and their digest, and the files that hold them in order."""

    name: str
    rows: int
    digest: str
    files: tuple[Mapping[str, Any], ...]

    @property
    def in_small_files(self) -> bool:
        """Whether it is worth while to make one file of them: of data sets that files are added to."""
        return len(self.files) >= _FILES_A_WINDOW and self.rows < len(self.files) * _ROWS_A_FILE


def windows_of(manifest: Mapping[str, Any] | None) -> dict[str, Window]:
    """The windows of a published run by name, their files with the run that they rest in."""
    if manifest is None:
        return {}
    files: dict[str, list[Mapping[str, Any]]] = {}
    for file in manifest["files"]:
        files.setdefault(file["window"], []).append({"run": manifest["run_id"], **file})
    return {
        one["window"]: Window(
            name=one["window"], rows=one["rows"], digest=one["digest"], files=tuple(files[one["window"]])
        )
        for one in manifest["windows"]
    }


class PendingRun:
    """Rows that are written and not yet published."""

    def __init__(
        self,
        catalog: Catalog,
        dataset: DataSet,
        run_id: str,
        folder: Path,
        inputs: Mapping[str, Any],
        carried: Sequence[Window] = (),
    ) -> None:
        self._catalog = catalog
        self._dataset = dataset
        self._run_id = run_id
        self._inputs = inputs
        self.folder = folder
        self.files: list[Path] = []
        windows: dict[str, Window] = {}
        for part in sorted(folder.glob(f"{_WINDOW}=*")):
            name = part.name.removeprefix(f"{_WINDOW}=")
            files = [self._taken(file, name) for file in sorted(part.glob("*.parquet"))]
            rows, digest = digest_of(dataset, files)
            entries = tuple(
                {"window": name, "name": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file)}
                for file in files
            )
            windows[name] = Window(name=name, rows=rows, digest=digest, files=entries)
            self.files += files
        for leftover in folder.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            elif leftover.suffix != ".parquet":
                leftover.unlink()
        for one in carried:
            self._carry(windows, one)
        self._windows = [windows[name] for name in sorted(windows)]
        self.rows = sum(window.rows for window in self._windows)
        self.digest = digest_of_windows(self._windows)

    def read(self, spark: SparkSession, windows: Collection[str] | None = None) -> DataFrame:
        """The rows, or those of these windows."""
        name = self._dataset.name
        paths = [
            self._catalog.path(name, "", file) if "run" in file else self.folder / str(file["name"])
            for window in self._windows
            if windows is None or window.name in windows
            for file in window.files
        ]
        return read_files(spark, self._dataset, paths)

    def _taken(self, file: Path, window: str) -> Path:
        return file.rename(self.folder / f"{window}-{file.name}")

    def _carry(self, windows: dict[str, Window], old: Window) -> None:
        """A window as it is in an earlier run, unless this run has another of its name: then the files of both hold an
        internal data set's rows, and only the new ones any other's.
        """
        new = windows.get(old.name)
        if new is None:
            windows[old.name] = old
        elif self._dataset.internal:
            windows[old.name] = Window(
                name=old.name, rows=old.rows + new.rows, digest="", files=(*old.files, *new.files)
            )
        elif new.digest == old.digest:
            for file in new.files:
                (self.folder / str(file["name"])).unlink()
            self.files = [file for file in self.files if file.exists()]
            windows[old.name] = old

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
        if digest != self.digest and not self._dataset.internal:
            raise CheckFailed(
                f"{name}: run {self._run_id} has the digest {digest}, now {self.digest}: "
                "the same inputs gave other rows"
            )
        self._catalog.published(name, self._run_id, published.folder)
        return Run(
            dataset=name,
            run_id=self._run_id,
            rows=self.rows,
            digest=self.digest,
            manifest=json.loads(published.manifest),
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
            "windows": [
                {"window": window.name, "rows": window.rows, "digest": window.digest}
                for window in self._windows
            ],
            "files": [file for window in self._windows for file in window.files],
            "conservation": [check.to_dict() for check in checks],
            "made_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }


def read_files(spark: SparkSession, dataset: DataSet, paths: Sequence[Path]) -> DataFrame:
    """The rows of these files."""
    if not paths:
        return nothing(spark, dataset.struct)
    return spark.read.schema(dataset.struct).parquet(*(str(path) for path in paths))


def digest_of_windows(windows: Iterable[Window]) -> str:
    """SHA-256 over a line for each window in order: its name, rows and digest with a space between."""
    digest = hashlib.sha256()
    for window in windows:
        digest.update(f"{window.name} {window.rows} {window.digest}\n".encode())
    return digest.hexdigest()


def digest_of(dataset: DataSet, files: Iterable[Path]) -> tuple[int, str]:
    """(rows, SHA-256 over them) of files that hold the rows in the order of the key.

    Raises `CheckFailed` when two rows have the same key. An internal data set has no digest.
    """
    if dataset.internal:
        return sum(pq.ParquetFile(file).metadata.num_rows for file in files), ""
    digest, rows = hashlib.sha256(), 0
    last: pa.RecordBatch | None = None
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=dataset.names):
            seam = batch if last is None else pa.concat_batches([last, batch])
            key = repeated_key(dataset, seam)
            if key is not None:
                raise CheckFailed(f"{dataset.name}: two rows have the key {key}")
            last = batch.slice(batch.num_rows - 1)
            digest.update(text_bytes(canonical_lines(dataset, batch)))
            rows += batch.num_rows
    return rows, digest.hexdigest()


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, indent=1).encode() + b"\n"


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
