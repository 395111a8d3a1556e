"""Opening a log after a stop: replay the journal over its files, check what lies above the recovery point, rebuild
the rest.

Durable is what the last checkpoint covered and what the journal holds. A bad batch at or above the durable end is
the torn tail of writes that were never acknowledged, whatever follows it: pages reach the disk in any order; it is
truncated (RL121). A bad batch below it is damage: named, kept, never served (RL122).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from data_plane.disk.port import Disk, File
from data_plane.log import layout
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.derived import DerivedState
from data_plane.log.epochs import LeaderEpochs
from data_plane.log.identity import Identity
from data_plane.log.journal_record import JournalRecord
from data_plane.log.outcomes import DamagedRange, PartitionDamaged, PieceKind
from data_plane.log.presumed import presumed_range
from data_plane.log.readable import read_or_zeros
from data_plane.log.recovered_epochs import epochs_of, read_epochs
from data_plane.log.scan import Bad, check_batches, next_good_stamp
from data_plane.log.sealing import SealFile
from data_plane.log.segment import Segment, Unreadable
from data_plane.log.segments import Segments
from data_plane.log.sidecar import (
    HEADER_BYTES,
    SidecarCorrupt,
    SidecarUnknown,
    brief,
    check_header,
    intact,
    pack_header,
    stamp_at,
    stamps_in,
)
from penstock.contract.topic_settings import TopicSettings
from penstock.records.seal import Seal
from penstock.records.stamp import stamp_seed


@dataclass(slots=True)
class Bounds:
    """What checkpoint and journal say of the log, and what was found of it."""

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
    """As of the last checkpoint; without one, of a log that never was in one."""
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A log as its files tell it."""

    bounds: Bounds
    segments: Segments
    seals: SealFile
    derived: DerivedState
    unsealed: tuple[tuple[Segment, Seal, int], ...]
    """Closed segments without a seal: their seal but for the digest, and the end of the batch that closed them."""


def open_log(
    disk: Disk, directory: str, settings: TopicSettings, identity: Identity, entry: CheckpointEntry | None,
    replay: Sequence[JournalRecord], *, clean: bool, checkpoint_lost: bool = False,
) -> Opened:  # fmt: skip
    """Everything that `PartitionLog.recover` needs. `clean`: the directory was left cleanly; `checkpoint_lost`: its
    checkpoint is not, or bad."""
    if entry is not None and entry.replica_generation != identity.replica_generation:
        entry = None
    first_sequence = 0 if entry is None else entry.first_sequence
    generation = identity.replica_generation
    records = [
        one
        for one in replay
        if one.head.replica_generation == generation and one.head.sequence >= first_sequence
    ]
    names = disk.list(directory)
    for name in names:
        if name.endswith(layout.TEMPORARY_SUFFIX):
            disk.remove(f"{directory}/{name}")
    bounds = bounds_of(identity, entry)
    if checkpoint_lost:
        bases, seed = segment_bases(names), stamp_seed(identity.where)
        start, end = presumed_range(disk, directory, bases, seed, identity.start_offset)
        bounds = Bounds(start, start, end, start)
    if records:
        replay_journal(disk, directory, identity, bounds, records)
        names = disk.list(directory)
    segments = Segments(disk, directory, identity.where, settings.index_interval_bytes)
    load_segments(names, segments, bounds)
    if records or (not clean and (entry is None or bounds.log_end > entry.recovery_point)):
        segments.name_changes += 1  # files may have been made that no sync of the directory has covered
    bounds.damage[:] = [one for one in bounds.damage if one.end_offset > bounds.log_start]
    bounds.high_watermark = max(bounds.log_start, min(bounds.high_watermark, bounds.log_end))

    seals = SealFile(disk, directory, identity.where)
    if layout.SEALS_FILE in names and not seals.load():
        bounds.rebuilt.append("seals")
    if bounds.truncated_to is not None:
        # Segments that are gone were sealed, durably, before the log's start moved: their seals cannot be made again.
        first = segments.all[0].base_offset if segments.all else bounds.log_start
        seals.truncate(max(bounds.truncated_to, first))
    if bounds.log_end >= bounds.durable_end:
        # Also a crash may have taken what stood behind a sealed segment, and more is appended to it now.
        seals.truncate(segments.closed_end(bounds.log_end))
    derived = DerivedState(disk, directory, segments, seals)
    kept = read_epochs(disk, directory) if layout.EPOCHS_FILE in names else None
    derived.epochs = epochs_of(segments, kept or LeaderEpochs(), bounds.log_start, bounds.log_end)
    if kept is None and segments.all:
        bounds.rebuilt.append("epochs")
    if kept is not None and kept.pairs() == derived.epochs.pairs():
        derived.written_epoch = derived.epochs.last
    elif kept is not None or segments.all:
        derived.write_epochs()
    bad = derived.load_snapshot(bounds.log_end, names)
    if bad:
        derived.forget_snapshots()
        bounds.rebuilt += bad
    waiting = [segment for segment in segments.all[:-1] if segment.end_offset > seals.end_offset]
    derived.rebuild(bounds.log_end, (waiting[0].base_offset, waiting[0].end_offset) if waiting else None)
    drafts = {draft.base_offset: draft for draft in derived.drafts}
    unsealed = []
    for closed, following in pairwise(segments.all):
        draft = drafts.get(closed.base_offset)
        if draft is not None and closed.end_offset > seals.end_offset:
            try:
                unsealed.append((closed, draft, following.stamp(0).end_offset))
            except Unreadable:
                break
    return Opened(bounds, segments, seals, derived, tuple(unsealed))


class _Files:
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
        """Whether the segment at `base` was begun, as far as its size tells."""
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
    found: dict[int, None] = {}
    for name in names:
        for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX):
            base = layout.number_in(name, suffix)
            if base is not None:
                found[base] = None
    return sorted(found)


def replay_journal(
    disk: Disk, directory: str, identity: Identity, bounds: Bounds, records: Sequence[JournalRecord]
) -> None:
    """Bring files and bounds to where the journal ends. Doing it again changes nothing."""
    flushed = max((at for at, one in enumerate(records) if one.head.kind is PieceKind.FLUSHED), default=-1)
    start = _last_start(records, bounds.log_start)
    files = _Files(disk, directory, identity)
    # Segments before it that are gone were deleted: recovery needs no space for them (RL128).
    kept_from = max(
        (base for base in files.bases() if base <= start and files.holds_a_stamp(base)), default=-1
    )
    try:
        for at, record in enumerate(records):
            head = record.head
            acts = at > flushed
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
                    if at == flushed:
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
    """What of the damage lies below `offset`."""
    return [
        DamagedRange(one.first_offset, min(one.end_offset, offset), one.reason)
        for one in damage
        if one.first_offset < offset
    ]


def load_segments(names: Sequence[str], segments: Segments, bounds: Bounds) -> None:
    """Find the segments among the directory's files and check them; truncate the torn tail; name the damage. Sets
    `bounds.log_end`."""
    bases = _without_taken_back(segment_bases(names), segments, bounds.checked_from)
    # Of a segment that ends where nothing more is committed the seal is not made yet: it goes when it has one.
    while len(bases) > 1 and bases[1] <= bounds.log_start and bases[1] != bounds.high_watermark:
        _remove(segments, segments.made(bases.pop(0)), bounds)
    joined = True
    for at, base in enumerate(bases):
        segment = segments.made(base)
        joined = joined and _begins(segment, base, bounds) and _joins(segments.active, base, bounds)
        if not joined:
            bounds.torn_bytes += segment.data.size()
            _remove(segments, segment, bounds)
            continue
        joined = _load(segments, segment, bases[at + 1] if at + 1 < len(bases) else None, bounds)
        if not segment.stamp_count:
            _remove(segments, segment, bounds)
            continue
        segments.all.append(segment)
        if base in bounds.touched or segment.end_offset > bounds.checked_from:
            segment.writes += 1
        if segment.dirty:
            segments.touched(segment)
    active = segments.active
    bounds.log_end = active.end_offset if active is not None else bounds.log_start
    if bounds.log_end < bounds.durable_end:
        _damaged(bounds, bounds.log_end, bounds.durable_end, "the log ends before its durable end")
    bounds.damage.sort()


def _without_taken_back(bases: Sequence[int], segments: Segments, checked_from: int) -> list[int]:
    """Without segments that the log took back when the disk was full, and whose names a power cut brought back: they
    are empty, and the segment before them holds the batch that they would begin with. Below `checked_from` the names
    were synced.
    """
    kept = list(bases[:1])
    for base in bases[1:]:
        segment, before = segments.made(base), segments.made(kept[-1])
        if base < checked_from or segment.data.size() or not _holds(before, base):
            kept.append(base)
        else:
            segment.remove(set_aside=False)
            segments.name_changes += 1
        segment.abandon_files()
        before.abandon_files()
    return kept


def _holds(segment: Segment, base_offset: int) -> bool:
    """Whether a good stamp of the segment's files is of the batch that begins there."""
    stamps = segment.good_stamps(0, stamps_in(segment.stamps.size()))
    return any(stamp.base_offset == base_offset for _, stamp in stamps)


def _remove(segments: Segments, segment: Segment, bounds: Bounds) -> None:
    """Not part of the log; set aside if it may hold what was durable."""
    base = segment.base_offset
    segment.synced_writes = segment.writes
    bounds.torn_roll = bounds.torn_roll or base >= bounds.durable_end
    segment.remove(set_aside=bounds.log_start <= base < bounds.durable_end)
    segments.name_changes += 1


def _damaged(bounds: Bounds, first: int, end: int, reason: str) -> None:
    if first < end and not any(one.first_offset <= first and end <= one.end_offset for one in bounds.damage):
        bounds.damage.append(DamagedRange(first, end, reason))


def _begins(segment: Segment, base: int, bounds: Bounds) -> bool:
    """Whether the segment is part of the log: it is below the durable end, or its first stamp is good."""
    if base < bounds.durable_end:
        return True
    block = segment.stamps_block(0, 1)
    return intact(block, 0, segment.seed) and brief(block, 0).base_offset == base


def _joins(before: Segment | None, base: int, bounds: Bounds) -> bool:
    """Whether a segment at `base` continues the log; offsets missing below the durable end are damage, not an end."""
    expected = bounds.log_start if before is None else before.end_offset
    if base <= expected and (before is None or base == expected):
        return True
    if expected < bounds.durable_end:
        _damaged(bounds, expected, min(base, bounds.durable_end), f"missing before segment {base}")
        return base < bounds.durable_end
    return False


def _load(segments: Segments, segment: Segment, following: int | None, bounds: Bounds) -> bool:
    """Bring one segment to what its files hold. False: the log ends in it, whatever follows."""
    _check_sidecar(segment, bounds)
    closed = following is not None and following <= bounds.checked_from
    adopted = segment.adopt_index()
    if adopted and closed and _whole(segment, following):
        return True
    if adopted and segment.end_offset > bounds.checked_from:
        adopted = _rewind(segment, bounds.checked_from)
    if not adopted:
        segment.reset()
        if closed:
            bounds.rebuilt.append(f"index {segment.base_offset}")
    before = segments.active
    epoch, accepted_ms = (-1, 0) if before is None else (before.last_epoch, before.last_accepted_ms)
    while True:
        bad = check_batches(segment, limit=following, epoch=epoch, accepted_ms=accepted_ms)
        if bad is None:
            break
        if is_torn(segment.end_offset, bounds.durable_end):
            _remove_torn_tail(segment, bounds)
            return False
        if not _pass_damage(segment, bad, following, bounds):
            return True
    if closed and not adopted:
        segment.write_index()
    if segment.end_offset == following or (following is None and segment.end_offset >= bounds.durable_end):
        _remove_torn_tail(segment, bounds)
    return True


def is_torn(offset: int, durable_end: int) -> bool:
    """Whether a bad batch at `offset` is the torn tail of writes never acknowledged (RL121), not damage (RL122)."""
    return offset >= durable_end


def _check_sidecar(segment: Segment, bounds: Bounds) -> None:
    """A bad header is written again: all of it is known. Raises `PartitionDamaged` for a format that is not known."""
    try:
        check_header(read_or_zeros(segment.stamps, 0, HEADER_BYTES)[0], segment.where, segment.base_offset)
    except SidecarUnknown as error:
        raise PartitionDamaged(f"{segment.stamps.path}: {error}") from None
    except SidecarCorrupt:
        if segment.stamps.size() >= HEADER_BYTES:
            segment.stamps.write_at(0, [pack_header(segment.where, segment.base_offset)])
            segment.writes += 1
            bounds.rebuilt.append(f"stamps header {segment.base_offset}")


def _whole(segment: Segment, following: int | None) -> bool:
    """The index covers the whole segment, and the files end where it says."""
    return (
        segment.end_offset == following
        and stamps_in(segment.stamps.size()) == segment.stamp_count
        and segment.data.size() == segment.size
    )


def _rewind(segment: Segment, offset: int) -> bool:
    """Know only what lies below `offset`; False when that is nothing, or is not known."""
    try:
        number = segment.locate(offset)
        if not number:
            return False
        segment.rewind(number)
    except Unreadable:
        return False
    return True


def _remove_torn_tail(segment: Segment, bounds: Bounds) -> None:
    """Remove what stands behind the last good batch."""
    excess = segment.data.size() - segment.size
    if excess > 0 or segment.stamps.size() > stamp_at(segment.stamp_count):
        bounds.torn_bytes += max(0, excess)
        segment.writes += 1
        segment.data.truncate(segment.size)
        segment.stamps.truncate(stamp_at(segment.stamp_count))


def _pass_damage(segment: Segment, bad: Bad, following: int | None, bounds: Bounds) -> bool:
    """Go on behind a bad batch below the durable end; False when nothing good follows in this segment."""
    where = f"{segment.path(layout.LOG_SUFFIX)} at byte {bad.position}"
    high = min(bounds.durable_end, following if following is not None else bounds.durable_end)
    stamp = bad.stamp
    if stamp is not None and stamp.base_offset == segment.end_offset and stamp.position == segment.size:
        _damaged(bounds, stamp.base_offset, stamp.end_offset, f"{where}: {bad.reason}")
        segment.note(stamp.end_offset, stamp.size, stamp.accepted_ms, stamp.leader_epoch, -1, bad.checksum)
        return True
    found = next_good_stamp(segment, bad.number, segment.end_offset + 1, high)
    if found is None:
        _damaged(bounds, segment.end_offset, high, f"{where}: {bad.reason}")
        return False
    number, good = found
    _damaged(bounds, segment.end_offset, good.base_offset, f"{where}: {bad.reason}")
    segment.skip_damage(number, good.base_offset, good.position)
    return True
