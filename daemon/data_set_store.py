"""Where published data sets rest: a folder, or a bucket of S3-style storage. The usage pipeline writes, billing reads.

A run is there once its manifest is there. Its files come first, the manifest once and for good, and a pointer names the
run that counts. A manifest may name files of earlier runs of its data set (`run` of an entry of `files`): they stay as
long as a kept manifest names them. Pointers have the number of the runner that wrote them, and the one with the
greatest counts: a runner that was paused while another took over changes nothing that is read (RL9). In a folder that
number is in the pointer's name, in a bucket in its content, which is replaced on the condition that it is as it was
seen.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol
from urllib.parse import urlsplit

from msgspec import Meta

from daemon.settings import Settings, require
from penstock.rules.addresses import is_loopback

MANIFEST = "manifest.json"
CURRENT = "current.json"
WAKE = "wake"
RUN = "run="
_NUMBERED = re.compile(r"current-(\d{1,18})\.json")
_POINTERS_KEPT = 2
"""In a folder: a reader that has just looked for the greatest one still finds it after a takeover."""
_GONE = ".gone-"


class StoreUnavailable(Exception):
    """The storage did not answer, or refused. What was asked of it may have happened; asking again does no harm."""


class BucketSettings(Settings, frozen=True, kw_only=True):
    """A bucket of S3-style storage, which knows conditional puts (`If-None-Match: *`).

    Keys come from `credentials_file` or else from where AWS's own tools look: variables of the environment, a shared
    file, the machine's role.
    """

    name: Annotated[str, Meta(min_length=3, max_length=63)]
    """The bucket's name."""
    prefix: str = ""
    """What the names of all objects begin with, a slash after it."""
    endpoint_url: str | None = None
    """https://host:port of the storage; AWS of the region unless given. http for this machine only."""
    region: str | None = None
    """Region; where AWS's own tools look unless given."""
    credentials_file: Path | None = None
    """File with the keys, in the form of AWS's shared credentials file."""
    ca_file: Path | None = None
    """Authorities of the storage's certificate, PEM; the public ones unless given."""

    def __post_init__(self) -> None:
        require(not self.prefix.startswith("/"), "prefix", "a name that begins with no slash required")
        if self.endpoint_url is not None:
            parts = urlsplit(self.endpoint_url)
            require(
                parts.scheme in ("http", "https") and bool(parts.hostname),
                "endpoint_url",
                f"https://host:port required, {self.endpoint_url[:80]!r} given",
            )
            require(
                parts.username is None and parts.password is None,
                "endpoint_url",
                "holds a user or a password; put keys into credentials_file",
            )
            require(
                parts.scheme == "https" or is_loopback(parts.hostname or ""),
                "endpoint_url",
                "https required: what leaves this machine is encrypted",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A run that is there. `manifest` is the one that counts: the given one, or one that was there before."""

    manifest: bytes
    folder: Path
    """Its rows on this machine, until old runs are removed."""


class DataSetStore(Protocol):
    """Every method may raise `StoreUnavailable`, and may then be called again. One pipeline at a time writes."""

    look_s: float
    """How often it is worth looking for a wake-up."""

    def current(self, dataset: str) -> bytes | None:
        """The pointer's content; None before the first run."""

    def number(self, dataset: str) -> int:
        """Of the runner that wrote the pointer; 0 before the first run."""

    def manifest(self, dataset: str, run_id: str) -> bytes | None:
        """Of a published run."""

    def file(self, dataset: str, run_id: str, name: str) -> bytes | None:
        """One file of a published run."""

    def has(
        self,
        dataset: str,
        files: Collection[tuple[str, str]],
        sizes: Mapping[tuple[str, str], int] | None = None,
    ) -> bool:
        """Whether all of these files are there, each given as its run and its name; in a folder, which a full disk may
        leave with parts of files, with these sizes where they are named.
        """

    def publish(self, dataset: str, run_id: str, pending: Path, manifest: bytes) -> Published:
        """Make the files in the folder `pending`, which belongs to the store from now on, a run with this manifest,
        unless the run is there already with all files that its manifest names: then nothing changes. Readers see all
        of it or nothing.
        """

    def make_current(self, dataset: str, content: bytes, number: int = 0) -> None:
        """Replace the pointer by `content`, an object with `run_id` and `number` (which may be left out when it is 0),
        unless the present one's number is greater.
        """

    def remove_old_runs(self, dataset: str, current: str, kept: int, pinned: Collection[str] = ()) -> None:
        """Remove all runs but the newest `kept`, the current and the `pinned` ones, and what was never published. Files
        of a removed run stay that a kept run names.
        """

    def published(self, datasets: Sequence[str]) -> object | None:
        """Another value after each `make_current` of one of them; None where only reading the pointers shows it."""

    def wake(self) -> None:
        """Ask the pipeline for a round now."""

    def woken(self) -> str:
        """Another text after each wake-up."""


class FolderStore:
    """A folder: of this machine, or of a file system that pipeline and billing share."""

    look_s = 0.2

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_folder(self, dataset: str, run_id: str) -> Path:
        return self.folder / dataset / f"{RUN}{run_id}"

    def current(self, dataset: str) -> bytes | None:
        found = self._pointers(dataset)
        return _content(found[-1][1]) if found else None

    def number(self, dataset: str) -> int:
        found = self._pointers(dataset)
        return found[-1][0] if found else 0

    def manifest(self, dataset: str, run_id: str) -> bytes | None:
        return self.file(dataset, run_id, MANIFEST)

    def file(self, dataset: str, run_id: str, name: str) -> bytes | None:
        return _content(self.run_folder(dataset, run_id) / name)

    def has(
        self,
        dataset: str,
        files: Collection[tuple[str, str]],
        sizes: Mapping[tuple[str, str], int] | None = None,
    ) -> bool:
        sizes = sizes or {}
        for run, name in files:
            try:
                size = (self.run_folder(dataset, run) / name).stat().st_size
            except OSError:
                return False
            if size != sizes.get((run, name), size):
                return False
        return True

    def publish(self, dataset: str, run_id: str, pending: Path, manifest: bytes) -> Published:
        with _unavailable(self.folder / dataset):
            return self._publish(dataset, run_id, pending, manifest)

    def _publish(self, dataset: str, run_id: str, pending: Path, manifest: bytes) -> Published:
        final = self.run_folder(dataset, run_id)
        earlier = self._whole(dataset, run_id)
        if earlier is not None:
            shutil.rmtree(pending)
            return Published(manifest=earlier, folder=final)
        write_durably(pending / MANIFEST, manifest)
        try:
            pending.rename(final)
        except OSError:
            # There is something: another writer's run, what is left of one that was being removed, or one whose files
            # are gone.
            earlier = self._whole(dataset, run_id)
            if earlier is not None:
                shutil.rmtree(pending)
                return Published(manifest=earlier, folder=final)
            _fill(final, pending)
        return Published(manifest=manifest, folder=final)

    def _whole(self, dataset: str, run_id: str) -> bytes | None:
        """The manifest of a run whose files are there."""
        manifest = self.manifest(dataset, run_id)
        if not manifest or not is_object(manifest):
            return None
        whole = self.has(dataset, files_of(manifest, run_id), sizes_of(manifest, run_id))
        return manifest if whole else None

    def make_current(self, dataset: str, content: bytes, number: int = 0) -> None:
        with _unavailable(self.folder / dataset):
            (self.folder / dataset).mkdir(parents=True, exist_ok=True)
            write_durably(self.folder / dataset / _pointer_name(number), content)
            earlier = [found for found in self._pointers(dataset) if found[0] < number]
            for _, old in earlier[: 1 - _POINTERS_KEPT]:
                old.unlink(missing_ok=True)

    def _pointers(self, dataset: str) -> list[tuple[int, Path]]:
        """By number, the greatest last."""
        found = ((_pointer_number(file.name), file) for file in (self.folder / dataset).glob("current*.json"))
        return sorted((number, file) for number, file in found if number is not None)

    def remove_old_runs(self, dataset: str, current: str, kept: int, pinned: Collection[str] = ()) -> None:
        stays = {f"{RUN}{run}" for run in (current, *pinned)}
        try:
            with _unavailable(self.folder / dataset):
                folders = list((self.folder / dataset).glob(f"{RUN}*"))
                made = {run: _made_ns(run / MANIFEST) for run in folders}
                runs = sorted((run for run in folders if made[run]), key=lambda run: made[run], reverse=True)
                left = [run for run in runs if run in runs[:kept] or run.name in stays]
                if len(left) == len(folders):
                    return
                named = named_files(_content(run / MANIFEST) for run in left)
                for run in folders:
                    if run not in left:
                        _remove_but(run, {name for of, name in named if f"{RUN}{of}" == run.name})
        finally:  # also what a process that ended left, and what went before a run that cannot be removed
            for gone in (self.folder / dataset).glob(f"{_GONE}*"):
                shutil.rmtree(gone, ignore_errors=True)

    def published(self, datasets: Sequence[str]) -> object | None:
        return tuple(
            (file.name, file.stat().st_mtime_ns)
            for dataset in datasets
            for _, file in self._pointers(dataset)[-1:]
        )

    def wake(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / WAKE).touch()
        except OSError as error:
            raise StoreUnavailable(f"{self.folder / WAKE}: {error.strerror}") from error

    def woken(self) -> str:
        try:
            return str((self.folder / WAKE).stat().st_mtime_ns)
        except OSError:
            return ""


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    """What the file system refuses is `StoreUnavailable`."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"{error.filename or path}: {error.strerror or error}") from error


def write_durably(file: Path, content: bytes) -> None:
    """By rename: a reader sees the old file or the new one."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}.new")
    with fresh.open("wb") as output:
        output.write(content)
        output.flush()
        os.fsync(output.fileno())
    fresh.replace(file)


def _pointer_name(number: int) -> str:
    return CURRENT if number == 0 else f"current-{number:010}.json"


def _pointer_number(name: str) -> int | None:
    """None for any other file."""
    if name == CURRENT:
        return 0
    found = _NUMBERED.fullmatch(name)
    return None if found is None else int(found[1])


def files_of(manifest: bytes, run_id: str) -> set[tuple[str, str]]:
    """(run id, name) of the files that the manifest of a run names."""
    return {
        (str(file.get("run", run_id)), str(file["name"]))
        for file in json.loads(manifest).get("files", ())
        if isinstance(file, dict)
    }


def is_object(content: bytes) -> bool:
    """Whether a manifest or a pointer was written to its end."""
    try:
        return isinstance(json.loads(content), dict)
    except ValueError:
        return False


def sizes_of(manifest: bytes, run_id: str) -> dict[tuple[str, str], int]:
    """(run id, name) -> bytes of the files that the manifest of a run names, as far as it says."""
    return {
        (str(file.get("run", run_id)), str(file["name"])): int(file["bytes"])
        for file in json.loads(manifest).get("files", ())
        if isinstance(file, dict) and "bytes" in file
    }


def named_files(manifests: Iterable[bytes | None]) -> set[tuple[str, str]]:
    """(run id, name) of the files of other runs that these manifests name."""
    return {
        (str(file["run"]), str(file["name"]))
        for manifest in manifests
        if manifest and is_object(manifest)
        for file in json.loads(manifest).get("files", ())
        if isinstance(file, dict) and "run" in file
    }


def _made_ns(manifest: Path) -> int:
    """When a manifest was written; 0 for none."""
    try:
        return manifest.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _fill(run: Path, pending: Path) -> None:
    """Make a run of a folder that has none, and may have files that other runs name: its manifest comes last."""
    for file in sorted(pending.iterdir(), key=lambda file: file.name == MANIFEST):
        file.rename(run / file.name)
    pending.rmdir()


def _remove_but(run: Path, kept: set[str]) -> None:
    """All files but these; the manifest first: what has none is no run."""
    if not kept:
        _remove_whole(run)
        return
    (run / MANIFEST).unlink(missing_ok=True)
    for file in run.iterdir():
        if file.name not in kept:
            file.unlink(missing_ok=True)


def _remove_whole(run: Path) -> None:
    """Rename it, so that it is never seen in part. All that was renamed is deleted together."""
    gone = run.with_name(f"{_GONE}{run.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        run.rename(gone)
    except FileNotFoundError:
        pass  # another runner did it


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(f"{file}: {error.strerror}") from error
