"""Samples what a runner uses: its Python, its Java, Spark's Python workers, and its folders."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.soak import java

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that is sampled."""

    name: str
    unit: str
    least: float
    """Growth of less than this in 1,000 rounds is none, however small the quantity is."""
    fed: bool = False
    """It grows with what is written, as it should: it is shown and not judged."""
    full_after: int = 0
    """So many rounds it has to grow: something keeps what the last ones left."""


_SHARE = 0.05
"""Growth of this share of a quantity in 1,000 rounds is none as well: a run of half an hour sees no less."""
_KEPT_ROUNDS = 120
"""Spark keeps the last hundred batches in a stream's checkpoint, and entries of the sink's log for ten minutes after
one with all before them.
"""
QUANTITIES = (
    Quantity(name="python_rss", unit="MiB", least=8),
    Quantity(name="python_threads", unit="", least=1),
    Quantity(name="python_descriptors", unit="", least=2),
    Quantity(name="java_rss", unit="MiB", least=20),
    Quantity(name="java_heap_in_use", unit="MiB", least=20),
    Quantity(name="java_heap_capacity", unit="MiB", least=20),
    Quantity(name="java_metaspace", unit="MiB", least=5),
    Quantity(name="java_code", unit="MiB", least=5),
    Quantity(name="java_class_loaders", unit="", least=200),
    Quantity(name="java_classes", unit="", least=500),
    Quantity(name="java_threads", unit="", least=10),
    Quantity(name="java_descriptors", unit="", least=10),
    Quantity(name="workers_rss", unit="MiB", least=20),
    Quantity(name="workers", unit="", least=1),
    Quantity(name="round_s", unit="s", least=0.5),
    Quantity(name="checkpoint_files", unit="", least=50, full_after=_KEPT_ROUNDS),
    Quantity(name="checkpoint", unit="MiB", least=1, full_after=_KEPT_ROUNDS),
    Quantity(name="sink_log_files", unit="", least=50, full_after=_KEPT_ROUNDS),
    Quantity(name="scratch_files", unit="", least=50),
    Quantity(name="scratch", unit="MiB", least=10),
    Quantity(name="temporary_files", unit="", least=5),
    Quantity(name="temporary", unit="MiB", least=5),
    Quantity(name="other_files", unit="", least=5),
    Quantity(name="log", unit="MiB", least=1),
    Quantity(name="sink_log", unit="MiB", least=1, fed=True),
    Quantity(name="bronze_files", unit="", least=50, fed=True),
    Quantity(name="bronze", unit="MiB", least=1, fed=True),
    Quantity(name="data_sets_files", unit="", least=500, fed=True),
    Quantity(name="data_sets", unit="MiB", least=5, fed=True),
)


def tolerated(quantity: Quantity, level: float) -> float:
    """Growth in 1,000 rounds that is none, for a quantity of this size."""
    return max(quantity.least, _SHARE * level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Folders of a runner."""

    datasets: Path
    temporary: Path
    """Where its Python and its Java make temporary files."""
    java_log: Path
    """Java's log of its collections."""
    output: Path
    """The runner's log."""


def files_by_kind(folders: Folders) -> dict[str, tuple[int, int]]:
    """Kind of folder -> files in it and their bytes. A file that is gone meanwhile is passed over."""
    counted: dict[str, tuple[int, int]] = {}
    for kind, root in (("datasets", folders.datasets), ("temporary", folders.temporary)):
        for file, size in _files_under(root):
            name = kind_of(file.relative_to(root)) if kind == "datasets" else kind
            files, total = counted.get(name, (0, 0))
            counted[name] = files + 1, total + size
    return counted


def kind_of(path: Path) -> str:
    """The kind of a file of the data sets' folder, by its path in it."""
    match path.parts:
        case ("bronze", *folders) if "_spark_metadata" in folders:
            return "sink_log"
        case (".bronze-checkpoint", *_):
            return "checkpoint"
        case ("bronze", *_):
            return "bronze"
        case (".spark", *_):
            return "scratch"
        case (_,):
            return "other"
        case _:
            return "data_sets"


def _files_under(folder: Path) -> Iterator[tuple[Path, int]]:
    for base, _, names in os.walk(folder):
        for name in names:
            file = Path(base, name)
            try:
                yield file, file.lstat().st_size
            except FileNotFoundError:
                continue


class RunnerProcesses:
    """A runner, its Java, and the Python workers below that Java."""

    def __init__(self, pid: int) -> None:
        self._python = psutil.Process(pid)
        self._java = next(child for child in self._python.children(recursive=True) if child.name() == "java")

    @property
    def java_pid(self) -> int:
        return self._java.pid

    def sample(self) -> dict[str, float]:
        """Memory, threads and descriptors. Raises `psutil.NoSuchProcess` and `java.NoAnswer`."""
        values: dict[str, float] = {}
        for name, process in (("python", self._python), ("java", self._java)):
            values[f"{name}_rss"] = process.memory_info().rss / _MIB
            values[f"{name}_threads"] = process.num_threads()
            values[f"{name}_descriptors"] = process.num_fds()
        heap = java.ask(self._java.pid, "GC.heap_info")
        values["java_metaspace"] = java.metaspace_mib(heap)
        values["java_code"] = java.code_mib(java.ask(self._java.pid, "Compiler.codecache"))
        loaders, classes = java.loaders_and_classes(java.ask(self._java.pid, "VM.metaspace"))
        values["java_class_loaders"] = loaders
        values["java_classes"] = classes
        values["workers_rss"] = 0.0
        values["workers"] = 0
        for worker in self._java.children(recursive=True):
            try:
                values["workers_rss"] += worker.memory_info().rss / _MIB
                values["workers"] += 1
            except psutil.NoSuchProcess:
                continue
        return values


def sample(processes: RunnerProcesses, folders: Folders) -> dict[str, float]:
    """Everything but the seconds of a round. Raises as `RunnerProcesses.sample`."""
    values = processes.sample()
    counted = files_by_kind(folders)
    for kind in ("checkpoint", "sink_log", "scratch", "temporary", "other", "bronze", "data_sets"):
        files, size = counted.get(kind, (0, 0))
        values[f"{kind}_files"] = files
        values[kind] = size / _MIB
    values["log"] = folders.output.stat().st_size / _MIB
    collections = java.collections(folders.java_log.read_text(errors="replace"))
    whole = [collection for collection in collections if collection.full]
    if whole:
        values["java_heap_in_use"] = whole[-1].after_mib
        values["java_heap_capacity"] = collections[-1].heap_mib
    return values
