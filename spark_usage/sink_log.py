"""The log that Spark's file sink keeps of bronze's files: what it names, how much of it was read, its replacement.

The log only grows at its end, by a batch of the stream at a time. Now and then Spark writes an entry with all of those
before it (`.compact`). Between two streams that entry may be replaced by one that names other files with the same
records: Spark takes it over when it writes the next. Then the first file that it names is a *head*, an empty file whose
name says how many of the named files are *settled*, how many files the stream has written that they stand for, and the
digest over the names of those. So a mark that was taken before holds after.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from daemon.data_set_store import write_durably

FOLDER = "_spark_metadata"
_MERGED = ".compact"
_VERSION = b"v1"
_HEAD = re.compile(r"head-(\d+)-(\d+)-(\d+)-([0-9a-f]{64})\.parquet")
_PART = re.compile(r"day-(\d{4}-\d\d-\d\d)-(\d{5})-(\d{12,})-(\d{12,})-[0-9a-f]{8}\.parquet")
_BLOCK = 33_554_432


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the name of a merged file says: its records are of one day and partition, within these offsets."""

    day: date
    partition: int
    first: int
    end: int

    def name(self, token: str) -> str:
        """`token`: eight hex digits."""
        return (
            f"day-{self.day.isoformat()}-{self.partition:05}-{self.first:012}-{self.end:012}-{token}.parquet"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file that the log names."""

    path: str
    size: int
    added: bool
    written_ms: int
    line: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def part(self) -> Part | None:
        """None of a file as the stream wrote it."""
        found = _PART.fullmatch(self.name)
        if found is None:
            return None
        day, partition, first, end = found.groups()
        return Part(day=date.fromisoformat(day), partition=int(partition), first=int(first), end=int(end))

    @property
    def day(self) -> date:
        """No record of it was appended later."""
        part = self.part
        return datetime.fromtimestamp(self.written_ms / 1000, UTC).date() if part is None else part.day


def entry_of(file: Path) -> Entry:
    """To name a file that is there."""
    size, now_ms = file.stat().st_size, time.time_ns() // 1_000_000
    values: dict[str, Any] = {
        "path": file.absolute().as_uri(), "size": size, "isDir": False, "modificationTime": now_ms,
        "blockReplication": 1, "blockSize": _BLOCK, "action": "add",
    }  # fmt: skip
    line = json.dumps(values, separators=(",", ":")).encode()
    return Entry(path=str(file.absolute()), size=size, added=True, written_ms=now_ms, line=line)


class _Line(msgspec.Struct):
    """What is read of a line of the log."""

    path: str
    """A URL."""
    size: int
    action: str
    modification_time: int = msgspec.field(name="modificationTime", default=0)


_decoder = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How much of what the stream wrote was read: its first files, and a chain of SHA-256 over names and sizes."""

    files: int = 0
    sha256: str = hashlib.sha256().hexdigest()

    def after(self, entries: Iterable[Entry]) -> "Mark":
        """The mark after these further files."""
        files, link = self.files, bytes.fromhex(self.sha256)
        for entry in entries:
            link = hashlib.sha256(link + f"{entry.name} {entry.size} {entry.added}".encode()).digest()
            files += 1
        return Mark(files=files, sha256=link.hex())


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkLog:
    """What the log names, the oldest first."""

    head: Entry | None
    settled: tuple[Entry, ...]
    """Stand for the files up to `mark`."""
    mark: Mark
    expired: int
    """Settled files that were removed with their records."""
    fresh: tuple[Entry, ...]
    """As the stream wrote them, after `mark`."""
    merged: int
    """The number of the last entry with all before it, which `replace` replaces; -1 before the first."""
    replaceable: int
    """So many of the fresh files stand in that entry."""
    newest: str
    """The name of the log's last entry; it is another after each batch."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (*(() if self.head is None else (self.head,)), *self.files)

    @property
    def files(self) -> tuple[Entry, ...]:
        """Those with records."""
        return (*self.settled, *self.fresh)

    @property
    def end(self) -> Mark:
        """The mark after all files."""
        return self.mark.after(self.fresh)

    def since(self, mark: Mark) -> Sequence[Entry] | None:
        """What came after this mark; None when the log does not go on from it, as far as it can be seen: what was
        settled is one.
        """
        count = mark.files - self.mark.files
        if not 0 <= count <= len(self.fresh) or self.mark.after(self.fresh[:count]) != mark:
            return None
        return self.fresh[count:]


class Damaged(Exception):
    """An entry of the log was never finished, or is incomplete; the next round repairs it (`stream_repair`)."""


def read_log(data: Path, only: Path | None = None) -> SinkLog:
    """The log of the folder `data`, or this entry of it alone; it names nothing before the first batch. Raises
    `Damaged`.
    """
    folder = data / FOLDER
    files = _files(folder) if only is None else {only.name: only}
    merged = _last_merged(files)
    found: list[Entry] = []
    in_merged = 0
    for name in sorted(files, key=_number):
        if _number(name) < merged or (_number(name) == merged and name.isdigit()):
            continue
        version, _, lines = files[name].read_bytes().partition(b"\n")
        for line, one in zip(lines.splitlines(), _decoded(files[name], version, lines), strict=True):
            found.append(
                Entry(
                    path=_path_of(one.path),
                    size=one.size,
                    added=one.action == "add",
                    written_ms=one.modification_time,
                    line=line,
                )
            )
        if name.endswith(_MERGED):
            in_merged = len(found)
    newest = newest_entry(data)
    head = _HEAD.fullmatch(found[0].name) if found else None
    if head is None:
        return SinkLog(
            head=None, settled=(), mark=Mark(), expired=0, fresh=tuple(found), merged=merged,
            replaceable=in_merged, newest=newest,
        )  # fmt: skip
    settled, stand_for, expired = (int(head[at]) for at in (1, 2, 3))
    return SinkLog(
        head=found[0],
        settled=tuple(found[1 : 1 + settled]),
        mark=Mark(files=stand_for, sha256=head[4]),
        expired=expired,
        fresh=tuple(found[1 + settled :]),
        merged=merged,
        replaceable=max(0, in_merged - 1 - settled),
        newest=newest,
    )


def _decoded(file: Path, version: bytes, lines: bytes) -> list[_Line]:
    if version != _VERSION:
        raise Damaged(f"{file}: {version[:20]!r} at its beginning, {_VERSION!r} expected")
    try:
        return _decoder.decode_lines(lines)
    except msgspec.MsgspecError as error:
        raise Damaged(f"{file}: {error}") from error


def entries_of(data: Path) -> dict[int, Path]:
    """The files of the log by number; of two with one number the one with all before it."""
    files = _files(data / FOLDER)
    return {_number(name): files[name] for name in sorted(files, key=lambda name: name.endswith(_MERGED))}


def newest_entry(data: Path) -> str:
    """The name of the log's last entry; empty before the first."""
    return max(_files(data / FOLDER), key=_number, default="")


def head_name(settled: int, mark: Mark, expired: int) -> str:
    """The name of the head before so many settled files that stand for those up to `mark`."""
    return f"head-{settled}-{mark.files}-{expired}-{mark.sha256}.parquet"


class Changed(Exception):
    """The log is not what it was when it was read: another runner has worked meanwhile. Nothing was replaced."""


def replace(data: Path, log: SinkLog, entries: Sequence[Entry]) -> None:
    """Let the entry of this `log` with all before it name these files instead; the entries after it stay. No stream may
    run. Durable, and at once for every reader. The files must be durable. Raises `OSError` and `Changed`.

    A runner that is paused here while another one works changes no newer entry: it would lose what that names.
    """
    folder = data / FOLDER
    if log.merged < 0:
        raise ValueError(f"{folder}: no entry with all before it yet")
    check_same(data, log)
    name = f"{log.merged}{_MERGED}"
    # A checksum of the old content would make Spark refuse the new one; without one it asks for none.
    (folder / f".{name}.crc").unlink(missing_ok=True)
    write_durably(folder / name, b"\n".join([_VERSION, *(entry.line for entry in entries)]))
    sync_folder(folder)


def check_same(data: Path, log: SinkLog) -> None:
    """Raises `Changed`."""
    if read_log(data) != log:
        raise Changed(f"{data / FOLDER}: another runner has changed it")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(folder: Path) -> dict[str, Path]:
    if not folder.exists():
        return {}
    return {file.name: file for file in folder.iterdir() if file.name.split(".")[0].isdigit()}


def _last_merged(files: Iterable[str]) -> int:
    return max((_number(name) for name in files if name.endswith(_MERGED)), default=-1)


def _number(name: str) -> int:
    return int(name.split(".")[0])


def _path_of(url: str) -> str:
    """As `urlsplit` has it, in a fifth of its time: there may be a hundred thousand."""
    path = url.removeprefix("file://").removeprefix("file:")
    return unquote(path) if "%" in path else path
