"""Files of bronze's stream that were never finished: a full disk or a failed machine leaves them empty or incomplete.

A batch is in bronze when its entry in the sink's log is whole and the files that this names are there. So the log ends
before its first entry that is not, and the stream's checkpoint follows the log: where the two differ, or a file of the
checkpoint is damaged, the checkpoint is written again and begins where the records of bronze end. The topic still has
all records, so the stream reads again what bronze lost, each record once. Nothing is deleted: files without use are set
aside in a folder of their own.
"""

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from daemon.data_set_store import write_durably
from spark_usage.bronze import BronzeFolders, committed_offsets, ends_of
from spark_usage.sink_log import FOLDER, Damaged, entries_of, read_log, sync_folder

log = logging.getLogger(__name__)
SET_ASIDE = ".set-aside"
_KEPT = 5
"""Times of which the files that were set aside are kept."""
_VERSION = b"v1"
_MERGED = ".compact"
_CHECKSUM_HEAD = b"crc\0"
_OFFSETS_HEAD = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
_METADATA = "metadata"
_LINES_MIN = {_METADATA: 1, "offsets": 2, "commits": 1}
"""Lines with values in a file, by its name or its folder's."""
_COMMIT = {"nextBatchWatermarkMs": 0}


class Irreparable(Exception):
    """Bronze lost records that cannot be read again. Nothing was changed; the message says what is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was done."""

    aside: tuple[str, ...] = ()
    """Files that were set aside, below the folder of the data sets."""
    batches: int = 0
    """Batches that the stream reads again."""
    checkpoint: bool = False
    """Whether another checkpoint was written, or the stream begins without one."""


def repair(
    datasets: Path, ends: Mapping[str, int], ground: Callable[[], Mapping[str, int]] = dict
) -> Repaired:
    """Let the stream go on from its last whole batch. No stream may run. `ends`: of the topic; `ground`: the offsets up
    to which bronze has expired. Killed at any moment, it is called again. Raises `OSError`, `Irreparable`, and what
    `ground` raises.
    """
    folders = BronzeFolders(datasets)
    checkpoint = folders.checkpoint
    damaged = _after_the_last_whole(folders.data)
    aside: list[Path] = []
    if damaged:
        _require_all_again(datasets, ends)
        # The last one first: at each moment the log is the beginning of what it was.
        for number in sorted(damaged, reverse=True):
            aside += [_checksum_of(damaged[number]), damaged[number]]
    folder = datasets / SET_ASIDE / f"{time.time_ns()}-{os.getpid()}"
    moved = _set_aside(datasets, folder, aside)
    moved += _set_aside(datasets, folder, _useless_checksums(folders.data))
    last = max(entries_of(folders.data), default=-1)
    follows = _follows(checkpoint, last)
    if not follows:
        fresh = _written_again(datasets, last, ground) if last >= 0 else None
        moved += _set_aside(datasets, folder, [checkpoint])
        if fresh is not None:
            fresh.rename(checkpoint)
            sync_folder(datasets)
    if moved:
        log.warning(
            "files of bronze were never finished and are set aside",
            extra={"files": moved[:20], "batches": len(damaged), "folder": str(folder)},
        )
        for old in sorted((datasets / SET_ASIDE).iterdir())[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    return Repaired(aside=tuple(moved), batches=len(damaged), checkpoint=not follows)


# -- the sink's log ------------------------------------------------------------------------------------------


def _after_the_last_whole(data: Path) -> Mapping[int, Path]:
    """Entries of the log from the first damaged one on. Raises `Irreparable` when that stood for expired records."""
    files = entries_of(data)
    merged = sorted((number for number, file in files.items() if file.name.endswith(_MERGED)), reverse=True)
    begin, end = -1, 0
    for begin in (*merged, -1):
        if begin >= 0 and not _entry_is_whole(data, files[begin]):
            continue
        end = begin + 1
        while end in files and _entry_is_whole(data, files[end]):
            end += 1
        break
    if merged and begin != merged[0] and (data.parent / "ground.json").exists():
        raise Irreparable(
            f"{files[merged[0]]}: damaged, or a file that it names is, and older records have expired: "
            "restore the data sets from a backup"
        )
    return {number: file for number, file in files.items() if number >= end}


def _entry_is_whole(data: Path, file: Path) -> bool:
    if not _is_whole(file):
        return False
    try:
        named = read_log(data, only=file).entries
    except Damaged:
        return False
    return all(_size(Path(entry.path)) == entry.size for entry in named if entry.added)


def _require_all_again(datasets: Path, ends: Mapping[str, int]) -> None:
    """Raises `Irreparable` when the topic ends before what was read of it."""
    before = committed_offsets(datasets)
    gone = {name: end for name, end in before.items() if end > ends.get(name, 0)}
    if gone:
        raise Irreparable(
            f"{BronzeFolders(datasets).data / FOLDER}: damaged, and __usage ends before {gone}, which was read of it: "
            "restore the data sets from a backup"
        )


def _useless_checksums(data: Path) -> list[Path]:
    """Checksums of data files that the log names, incomplete: Spark would refuse the files."""
    useless = []
    for file in (Path(entry.path) for entry in read_log(data).fresh if entry.added):
        checksum = _checksum_of(file)
        if 0 <= _size(checksum) != 8 + 4 * -(-_size(file) // 512):
            useless.append(checksum)
    return useless


# -- the checkpoint ------------------------------------------------------------------------------------------


def _follows(checkpoint: Path, last: int) -> bool:
    """Whether the stream goes on from this checkpoint after the last batch of the log (-1: none)."""
    offsets, commits = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    begun, ended = max(offsets, default=-1), max(commits, default=-1)
    if begun not in (last, last + 1) or ended not in (begun, begun - 1) or ended > last:
        return False
    needed = [checkpoint / "offsets" / str(number) for number in (begun - 1, begun) if number >= 0]
    if ended >= 0:
        needed.append(checkpoint / "commits" / str(ended))
    metadata = checkpoint / _METADATA
    if begun >= 0 or metadata.exists():
        needed.append(metadata)
    return all(_is_whole(file) for file in needed)


def _written_again(datasets: Path, last: int, ground: Callable[[], Mapping[str, int]]) -> Path:
    """A checkpoint of a stream that has committed the log's last batch, under a name of its own."""
    folders = BronzeFolders(datasets)
    fresh = datasets / f"{folders.checkpoint.name}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    sink_log = read_log(folders.data)
    ends = ends_of([entry for entry in sink_log.files if entry.added], ground())
    text = _lines(_OFFSETS_HEAD, ends)
    # Spark reads the batch before the last one, too.
    for folder, number, content in (
        ("offsets", last - 1, text),
        ("offsets", last, text),
        ("commits", last, _lines(_COMMIT)),
    ):
        if number >= 0:
            (fresh / folder).mkdir(parents=True, exist_ok=True)
            write_durably(fresh / folder / str(number), content)
    write_durably(fresh / _METADATA, json.dumps({"id": str(uuid4())}).encode())
    for written in (fresh / "offsets", fresh / "commits", fresh):
        sync_folder(written)
    return fresh


def _lines(*values: Mapping[str, object]) -> bytes:
    return b"\n".join([_VERSION, *(json.dumps(value, separators=(",", ":")).encode() for value in values)])


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()] if folder.exists() else []


# -- files ---------------------------------------------------------------------------------------------------


def _is_whole(file: Path) -> bool:
    """Whether a small file of Spark's has all of its lines, as far as it and its checksum say."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return False
    lines = content.split(b"\n")
    if file.name != _METADATA and lines.pop(0) != _VERSION:
        return False
    lines_min = _LINES_MIN.get(file.name) or _LINES_MIN.get(file.parent.name, 0)
    try:
        # The lines of the sink's log are read with the log.
        if len(lines) < lines_min or not all(
            isinstance(json.loads(line), dict) for line in lines[:lines_min]
        ):
            return False
    except ValueError:
        return False
    checksum = _checksum_of(file)
    return not checksum.exists() or checksum.read_bytes() == _checksum(content)


def _checksum_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


def _checksum(content: bytes, piece: int = 512) -> bytes:
    """As Hadoop writes it beside a file."""
    sums = [zlib.crc32(content[at : at + piece]).to_bytes(4, "big") for at in range(0, len(content), piece)]
    return _CHECKSUM_HEAD + piece.to_bytes(4, "big") + b"".join(sums)


def _size(file: Path) -> int:
    """-1 when it is not there."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return -1


def _set_aside(datasets: Path, folder: Path, files: Sequence[Path]) -> list[str]:
    moved = []
    for file in files:
        if file.exists():
            name = file.relative_to(datasets)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            file.rename(folder / name)
            sync_folder(file.parent)
            moved.append(str(name))
    return moved
