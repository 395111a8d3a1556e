"""Replaying the journal over the files of a log, and the bounds that checkpoint and journal give it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from data_plane.disk.port import Disk, File
from data_plane.log import layout
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.identity import Identity
from data_plane.log.journal_record import JournalRecord
from data_plane.log.outcomes import DamagedRange, PieceKind
from data_plane.log.sidecar import pack_header, stamp_at


@dataclass(slots=True)
class Bounds:
    """The ends of a log by checkpoint and journal, and what its files turned out to hold."""

    high_watermark: int
    log_start: int
    durable_end: int
    checked_from: int
    """Batches from here on are to be checked."""
    log_end: int = 0
    torn_bytes: int = 0
    torn_roll: bool = False
    """A segment that was not part of the log was removed. That has to be durable before anything is written in its
    place: a file that came back would end the segment before it."""
    truncated_to: int | None = None
    """Where the lowest segment begins that a replayed change of bounds made the active one."""
    touched: dict[int, None] = field(default_factory=dict)
    """Segments that the replay wrote to, by base offset."""
    damage: list[DamagedRange] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)


def bounds_of(identity: Identity, entry: CheckpointEntry | None) -> Bounds:
    """Bounds of the last checkpoint; without one, those of a log that never was in one."""
    if entry is None:
        start = identity.start_offset
        return Bounds(start, start, start, start)
    damage = list(entry.damage)
    return Bounds(
        entry.high_watermark,
        entry.log_start_offset,
        entry.recovery_point,
        entry.recovery_point,
        damage=damage,
    )


class ReplayedFiles:
    """The files of one log while the journal is replayed over them."""

    def __init__(self, disk: Disk, directory: str, identity: Identity) -> None:
        self._disk = disk
        self._directory = directory
        self._identity = identity
        self._open: dict[str, File] = {}

    def file(self, base: int, suffix: str) -> File:
        path = layout.segment_file(self._directory, base, suffix)
        if path not in self._open:
            self._open[path] = self._disk.open(path, create=True)
        return self._open[path]

    def exists(self, base: int) -> bool:
        return self._disk.exists(layout.segment_file(self._directory, base, layout.LOG_SUFFIX))

    def holds_a_stamp(self, base: int) -> bool:
        """True if the segment at `base` was begun, as far as its size tells."""
        path = layout.segment_file(self._directory, base, layout.STAMPS_SUFFIX)
        return self._disk.exists(path) and self.file(base, layout.STAMPS_SUFFIX).size() >= stamp_at(1)

    def bases(self) -> list[int]:
        """Base offsets of all segments of which any file exists."""
        return segment_bases(self._disk.list(self._directory))

    def remove(self, base: int, *, set_aside: bool) -> None:
        for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX, layout.INDEX_SUFFIX):
            path = layout.segment_file(self._directory, base, suffix)
            if path in self._open:
                self._open.pop(path).close()
            if set_aside and suffix != layout.INDEX_SUFFIX and self._disk.exists(path):
                self._disk.rename(path, path + layout.SET_ASIDE_SUFFIX)
            else:
                self._disk.remove(path)

    def append(self, record: JournalRecord) -> None:
        head = record.head
        stamps, batches = record.payload()
        self.file(head.segment_base, layout.LOG_SUFFIX).write_at(head.position, [batches])
        sidecar = self.file(head.segment_base, layout.STAMPS_SUFFIX)
        if head.stamp_index == 0:
            sidecar.write_at(0, [pack_header(self._identity.where, head.segment_base), stamps])
        else:
            sidecar.write_at(stamp_at(head.stamp_index), [stamps])

    def truncate(self, base: int, position: int, stamp_count: int, *, set_aside: bool) -> None:
        """Nothing stays behind this point; what lies before it is not made longer. `set_aside`: whole segments behind
        it are kept beside, as evidence of damage (RL122)."""
        for other in self.bases():
            if other > base:
                self.remove(other, set_aside=set_aside)
        if base < 0:
            return
        for suffix, size in ((layout.LOG_SUFFIX, position), (layout.STAMPS_SUFFIX, stamp_at(stamp_count))):
            if self._disk.exists(layout.segment_file(self._directory, base, suffix)):
                file = self.file(base, suffix)
                if file.size() > size:
                    file.truncate(size)

    def close(self) -> None:
        for file in self._open.values():
            file.close()


def segment_bases(names: Sequence[str]) -> list[int]:
    """Base offsets of all segments of which a data or stamps file is among these of a directory, in order."""
    bases: dict[int, None] = {}
    for name in names:
        for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX):
            base = layout.number_in(name, suffix)
            if base is not None:
                bases[base] = None
    return sorted(bases)


def replay_journal(
    disk: Disk, directory: str, identity: Identity, bounds: Bounds, records: Sequence[JournalRecord]
) -> None:
    """Bring files and bounds to where the journal ends. Doing it again changes nothing."""
    flushes = [number for number, record in enumerate(records) if record.head.kind is PieceKind.FLUSHED]
    flushed = flushes[-1] if flushes else -1
    start = _last_start(records, bounds.log_start)
    files = ReplayedFiles(disk, directory, identity)
    # Segments before it that are gone were deleted: recovery needs no space for them (RL128).
    kept_from = max(
        (base for base in files.bases() if base <= start and files.holds_a_stamp(base)), default=-1
    )
    try:
        for number, record in enumerate(records):
            head = record.head
            acts = number > flushed
            bounds.high_watermark = max(bounds.high_watermark, head.high_watermark)
            match head.kind:
                case PieceKind.APPEND:
                    deleted = head.segment_base < kept_from and not files.exists(head.segment_base)
                    if acts and record.intact and not deleted:
                        files.append(record)
                        bounds.touched[head.segment_base] = None
                    bounds.durable_end = max(bounds.durable_end, head.end_offset)
                    bounds.checked_from = min(bounds.checked_from, head.offset)
                case PieceKind.FLUSHED:
                    bounds.durable_end = max(bounds.durable_end, head.offset)
                    if number == flushed:
                        bounds.checked_from = head.offset
                case PieceKind.LOG_START:
                    bounds.log_start = max(bounds.log_start, head.offset)
                case PieceKind.TRUNCATE:
                    if acts:
                        given_up = head.offset < bounds.high_watermark
                        files.truncate(head.segment_base, head.position, head.stamp_index, set_aside=given_up)
                        bounds.touched[head.segment_base] = None
                    _truncate_bounds(bounds, head.offset)
                    _truncate_seals(bounds, head.segment_base if head.segment_base >= 0 else head.offset)
                case PieceKind.START_OVER:
                    if acts:
                        files.truncate(-1, 0, 0, set_aside=head.offset < bounds.high_watermark)
                    bounds.log_start = head.offset
                    _truncate_seals(bounds, head.offset)
                    bounds.damage.clear()
                    bounds.durable_end = bounds.high_watermark = bounds.checked_from = head.offset
    finally:
        files.close()


def _last_start(records: Sequence[JournalRecord], start: int) -> int:
    """Where the log begins when all records are replayed."""
    for record in records:
        if record.head.kind is PieceKind.LOG_START:
            start = max(start, record.head.offset)
        elif record.head.kind is PieceKind.START_OVER:
            start = record.head.offset
    return start


def _truncate_bounds(bounds: Bounds, offset: int) -> None:
    bounds.durable_end = min(bounds.durable_end, offset)
    bounds.high_watermark = min(bounds.high_watermark, offset)
    bounds.checked_from = min(bounds.checked_from, offset)
    bounds.damage = damage_below(bounds.damage, offset)


def _truncate_seals(bounds: Bounds, active_base: int) -> None:
    bounds.truncated_to = (
        active_base if bounds.truncated_to is None else min(bounds.truncated_to, active_base)
    )


def damage_below(damage: Sequence[DamagedRange], offset: int) -> list[DamagedRange]:
    """The part of the damage that lies below `offset`."""
    return [
        DamagedRange(damaged.first_offset, min(damaged.end_offset, offset), damaged.reason)
        for damaged in damage
        if damaged.first_offset < offset
    ]
