"""Compaction of bronze: small files of finished days become few, by day and partition of `__usage`.

A turn has bounded work and is done between rounds, by the runner that holds the lease. It writes merged files, reads
them back, and lets one rename of an entry of the sink's log put them in the place of the small ones. Killed before
that rename, it leaves files that no log names; killed after it, the small ones. Both are removed an hour after they
were written or replaced: a round of a runner that was paused may still read them, though nothing of it counts.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_usage.bronze import SCHEMA
from spark_usage.manifest import Check, CheckFailed
from spark_usage.sink_log import (
    Entry,
    Mark,
    Part,
    SinkLog,
    entry_of,
    head_name,
    read_log,
    replace,
    sync_folder,
)

FILES_A_TURN, BYTES_A_TURN = 1_000, 32 << 20
"""A turn takes about two seconds and some hundreds of megabytes of memory."""
LARGE = 16 << 20
"""Bytes. A file of this size stays as it is."""
_UNNAMED_S = 3_600
_ORDER = [("src_partition", "ascending"), ("src_offset", "ascending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a turn did. Counts of files."""

    merged: int = 0
    """Small ones that were replaced."""
    into: int = 0
    removed: int = 0
    """That no log named any more."""
    waiting: int = 0
    """Small ones of finished days that the next turn may take."""


def today() -> date:
    """By this machine's clock, UTC."""
    return datetime.now(UTC).date()


def compact(
    data: Path,
    read: Mark,
    day: date,
    *,
    files_max: int = FILES_A_TURN,
    bytes_max: int = BYTES_A_TURN,
    allowed: Callable[[], bool] = lambda: True,
) -> Compacted:
    """A turn in the folder `data` of bronze. `read`: what the last whole round has read, so that it still knows its
    place; `day`: the present one, whose files stay; `allowed` is asked right before the log changes. No round and no
    stream may run. Raises `OSError`, `sink_log.Changed`, and `CheckFailed` when the merged files would not have the
    same records.
    """
    log = read_log(data)
    since = log.since(read)
    if since is None or not log.entries:
        # Of another bronze: what its log does not name may be all that there is.
        return Compacted()
    ready = _ready(log, len(since), day)
    some = _bounded(ready, files_max, bytes_max)
    if not some:
        return Compacted(removed=_remove_unnamed(data, log))
    small = [entry for entry in some if entry.size < LARGE]
    rows = _rows_of(small)
    again = _to_extend(log, rows, bytes_max)
    made = _merge(data, pa.concat_tables([_rows_of(again), rows]))
    stay = [entry for entry in log.settled if entry not in again]
    large = [entry for entry in some if entry.size >= LARGE]
    if not allowed():
        return Compacted(waiting=len(ready))
    rewrite(data, log, [*stay, *large, *made], gone=[*again, *small], more=len(some), expired=log.expired)
    return Compacted(
        merged=len(small) + len(again),
        into=len(made),
        removed=_remove_unnamed(data, read_log(data)),
        waiting=len(ready) - len(some),
    )


def rewrite(
    data: Path, log: SinkLog, settled: Sequence[Entry], *, gone: Sequence[Entry], more: int, expired: int
) -> None:
    """Let the log name these durable files, which stand for so many fresh files `more` than before, and no longer those
    that are `gone`, which are removed later. Raises `OSError`, and `sink_log.Changed` when the log is not `log` now.
    """
    file = data / head_name(len(settled), log.mark.after(log.fresh[:more]), expired)
    _durably(file, SCHEMA.empty_table())
    sync_folder(data)
    for entry in (*gone, *(() if log.head is None else (log.head,))):
        # Its time without a name begins now.
        os.utime(entry.path)
    replace(data, log, [entry_of(file), *settled, *log.fresh[more : log.replaceable]])


def _ready(log: SinkLog, unread: int, day: date) -> Sequence[Entry]:
    """The first fresh files of finished days, but for the last `unread` ones, which no whole round has read."""
    if not all(entry.added for entry in log.entries):
        return ()
    known = min(log.replaceable, len(log.fresh) - unread)
    ready = []
    for entry in log.fresh[:known]:
        if entry.day >= day:
            break
        ready.append(entry)
    return ready


def _bounded(ready: Sequence[Entry], files_max: int, bytes_max: int) -> Sequence[Entry]:
    taken, size = 0, 0
    for entry in ready[:files_max]:
        size += 0 if entry.size >= LARGE else entry.size
        if taken and size > bytes_max:
            break
        taken += 1
    # One file alone gains nothing, unless it is large and stays.
    return ready[:taken] if taken > 1 or (taken and ready[0].size >= LARGE) else ()


def _to_extend(log: SinkLog, rows: pa.Table, bytes_max: int) -> list[Entry]:
    """Merged files that are small themselves and of a day and partition of these rows: they are merged once more."""
    pairs = rows.group_by(["ingest_date", "src_partition"]).aggregate([]).to_pylist()
    wanted = {(pair["ingest_date"], pair["src_partition"]) for pair in pairs}
    found, size = [], 0
    for entry in reversed(log.settled):
        part = entry.part
        if part is None or (part.day, part.partition) not in wanted or entry.size >= LARGE:
            continue
        if size + entry.size <= bytes_max // 2:
            found.append(entry)
            size += entry.size
    return found[::-1]


def _merge(data: Path, rows: pa.Table) -> list[Entry]:
    """Durable files with these records, in the order of offsets."""
    rows = rows.sort_by(_ORDER)
    made = []
    written = 0
    for day in sorted(pc.unique(rows["ingest_date"]).to_pylist()):
        of_day = rows.filter(pc.equal(rows["ingest_date"], pa.scalar(day, pa.date32())))
        for partition in sorted(pc.unique(of_day["src_partition"]).to_pylist()):
            part = of_day.filter(pc.equal(of_day["src_partition"], pa.scalar(partition, pa.int32())))
            made.append(_write(data, day, partition, part))
            written += pq.read_metadata(made[-1].path).num_rows
    offsets = rows.group_by(["src_partition", "src_offset"]).aggregate([]).num_rows
    check = Check(
        name="merged files have the records of the small ones",
        numbers={"records": rows.num_rows, "distinct": offsets, "written": written},
        holds=rows.num_rows == offsets == written,
    )
    if not check.holds:
        raise CheckFailed(f"bronze: {check.name} does not hold: {dict(check.numbers)}")
    sync_folder(data)
    return made


def _rows_of(some: Sequence[Entry]) -> pa.Table:
    tables = (pq.read_table(one.path, columns=SCHEMA.names, partitioning=None) for one in some)
    return pa.concat_tables([SCHEMA.empty_table(), *(table.cast(SCHEMA) for table in tables)])


def _write(data: Path, day: date, partition: int, rows: pa.Table) -> Entry:
    offsets = rows["src_offset"]
    part = Part(day=day, partition=partition, first=offsets[0].as_py(), end=offsets[-1].as_py() + 1)
    file = data / part.name(uuid4().hex[:8])
    _durably(file, rows)
    if not pq.read_table(file, partitioning=None).equals(rows):
        raise CheckFailed(f"bronze: {file.name} does not hold what was written")
    return entry_of(file)


def _durably(file: Path, rows: pa.Table) -> None:
    pq.write_table(rows, file, compression="zstd")
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _remove_unnamed(data: Path, log: SinkLog) -> int:
    """Files that the log has not named for an hour: replaced ones, and those of turns and batches that were killed."""
    named = {entry.name for entry in log.entries}
    oldest = time.time() - _UNNAMED_S
    removed = 0
    with os.scandir(data) as files:
        found = [
            file for file in files
            if file.name.endswith(".parquet") and file.name not in named and file.stat().st_mtime < oldest
        ]  # fmt: skip
    for file in found:
        Path(file.path).unlink()
        (data / f".{file.name}.crc").unlink(missing_ok=True)
        removed += 1
    return removed
