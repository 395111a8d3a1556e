"""Opening a log after a stop: replay the journal over its files (`replaying`), check what lies above the recovery
point, rebuild the rest.

Durable is what the last checkpoint covered and what the journal holds. A bad batch at or above the durable end is
the torn tail of writes that were never acknowledged, whatever follows it: pages reach the disk in any order; it is
truncated (RL121). A bad batch below it is damage: named, kept, never served (RL122).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from data_plane.disk.port import Disk
from data_plane.log import layout
from data_plane.log.checkpoint import CheckpointEntry
from data_plane.log.derived import DerivedState
from data_plane.log.epochs import LeaderEpochs
from data_plane.log.identity import Identity
from data_plane.log.journal_record import JournalRecord
from data_plane.log.outcomes import DamagedRange, PartitionDamaged
from data_plane.log.presumed import presumed_range
from data_plane.log.readable import read_or_zeros
from data_plane.log.recovered_epochs import epochs_of, read_epochs
from data_plane.log.replaying import Bounds, bounds_of, replay_journal, segment_bases
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
    """Everything that `PartitionLog.recover` needs.

        STOPPED --the journal is replayed over the files--> BOUNDED --segments are found and checked--> LOADED
        LOADED --seals are read, and end where the last closed segment does--> SEALED
        SEALED --epochs, snapshots and drafts are read, or made from the batches--> OPENED

    `clean`: the directory was left cleanly; `checkpoint_lost`: its checkpoint is not there, or bad. Raises
    `PartitionDamaged`.
    """
    if entry is not None and entry.replica_generation != identity.replica_generation:
        entry = None
    records = _to_replay(replay, identity, entry)
    names = _without_unfinished(disk, directory)
    bounds = _presumed(disk, directory, identity, names) if checkpoint_lost else bounds_of(identity, entry)
    if records:
        replay_journal(disk, directory, identity, bounds, records)
        names = disk.list(directory)
    segments = Segments(disk, directory, identity.where, settings.index_interval_bytes)
    load_segments(names, segments, bounds)
    if records or (not clean and (entry is None or bounds.log_end > entry.recovery_point)):
        segments.name_changes += 1  # files may have been made that no sync of the directory has covered
    seals = _read_seals(disk, directory, names, segments, bounds)
    derived = DerivedState(disk, directory, segments, seals)
    stored = read_epochs(disk, directory) if layout.EPOCHS_FILE in names else None
    _derive_epochs(stored, segments, derived, bounds)
    _derive_state(names, segments, seals, derived, bounds)
    return Opened(bounds, segments, seals, derived, _unsealed(segments, seals, derived))


def _to_replay(
    replay: Sequence[JournalRecord], identity: Identity, entry: CheckpointEntry | None
) -> list[JournalRecord]:
    """Records of this replica that no checkpoint covers."""
    first_sequence = 0 if entry is None else entry.first_sequence
    return [
        record
        for record in replay
        if record.head.replica_generation == identity.replica_generation
        and record.head.sequence >= first_sequence
    ]


def _without_unfinished(disk: Disk, directory: str) -> Sequence[str]:
    """The directory's names, once files are removed that were being written when the process ended."""
    names = disk.list(directory)
    unfinished = [name for name in names if name.endswith(layout.TEMPORARY_SUFFIX)]
    for name in unfinished:
        disk.remove(f"{directory}/{name}")
    return [name for name in names if name not in unfinished] if unfinished else names


def _presumed(disk: Disk, directory: str, identity: Identity, names: Sequence[str]) -> Bounds:
    """Bounds that the files alone tell, where no checkpoint does (RL54)."""
    bases, seed = segment_bases(names), stamp_seed(identity.where)
    start, end = presumed_range(disk, directory, bases, seed, identity.start_offset)
    return Bounds(start, start, end, start)


def _read_seals(
    disk: Disk, directory: str, names: Sequence[str], segments: Segments, bounds: Bounds
) -> SealFile:
    """The seals of segments that are closed."""
    seals = SealFile(disk, directory, segments.where)
    if layout.SEALS_FILE in names and not seals.load():
        bounds.rebuilt.append("seals")
    if bounds.truncated_to is not None:
        # Segments that are gone were sealed, durably, before the log's start moved: their seals cannot be made again.
        first = segments.all[0].base_offset if segments.all else bounds.log_start
        seals.truncate(max(bounds.truncated_to, first))
    if bounds.log_end >= bounds.durable_end:
        # Also a crash may have taken what stood behind a sealed segment, and more is appended to it now.
        seals.truncate(segments.closed_end(bounds.log_end))
    return seals


def _derive_epochs(
    stored: LeaderEpochs | None, segments: Segments, derived: DerivedState, bounds: Bounds
) -> None:
    """Leader epochs by the file and the stamps; the file is written again where they differ (RL123)."""
    derived.epochs = epochs_of(segments, stored or LeaderEpochs(), bounds.log_start, bounds.log_end)
    if stored is None and segments.all:
        bounds.rebuilt.append("epochs")
    if stored is not None and stored.pairs() == derived.epochs.pairs():
        derived.written_epoch = derived.epochs.last
    elif stored is not None or segments.all:
        derived.write_epochs()


def _derive_state(
    names: Sequence[str], segments: Segments, seals: SealFile, derived: DerivedState, bounds: Bounds
) -> None:
    """Producers and meters by the newest good snapshot and the batches behind it, and drafts of missing seals."""
    bad = derived.load_snapshot(bounds.log_end, names)
    if bad:
        derived.forget_snapshots()
        bounds.rebuilt += bad
    waiting = [segment for segment in segments.all[:-1] if segment.end_offset > seals.end_offset]
    derived.rebuild(bounds.log_end, (waiting[0].base_offset, waiting[0].end_offset) if waiting else None)


def _unsealed(
    segments: Segments, seals: SealFile, derived: DerivedState
) -> tuple[tuple[Segment, Seal, int], ...]:
    """Closed segments without a seal, up to one whose end is not readable."""
    drafts = {draft.base_offset: draft for draft in derived.drafts}
    unsealed = []
    for closed, following in pairwise(segments.all):
        draft = drafts.get(closed.base_offset)
        if draft is not None and closed.end_offset > seals.end_offset:
            try:
                unsealed.append((closed, draft, following.stamp(0).end_offset))
            except Unreadable:
                break
    return tuple(unsealed)


def load_segments(names: Sequence[str], segments: Segments, bounds: Bounds) -> None:
    """Find the segments among the directory's files and check them; truncate the torn tail; name the damage. Sets
    `bounds.log_end`, and keeps the high watermark and the damage within the log.
    """
    bases = _without_taken_back(segment_bases(names), segments, bounds.checked_from)
    # Of a segment that ends where nothing more is committed the seal is not made yet: it goes when it has one.
    while len(bases) > 1 and bases[1] <= bounds.log_start and bases[1] != bounds.high_watermark:
        _remove(segments, segments.made(bases.pop(0)), bounds)
    joined = True
    for number, base in enumerate(bases):
        segment = segments.made(base)
        joined = joined and _begins(segment, base, bounds) and _joins(segments.active, base, bounds)
        if not joined:
            bounds.torn_bytes += segment.data.size()
            _remove(segments, segment, bounds)
            continue
        joined = _load(segments, segment, bases[number + 1] if number + 1 < len(bases) else None, bounds)
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
    bounds.damage[:] = [damaged for damaged in bounds.damage if damaged.end_offset > bounds.log_start]
    bounds.high_watermark = max(bounds.log_start, min(bounds.high_watermark, bounds.log_end))


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
    """True if the segment's files have a good stamp of the batch that begins there."""
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
    if first < end and not any(
        damaged.first_offset <= first and end <= damaged.end_offset for damaged in bounds.damage
    ):
        bounds.damage.append(DamagedRange(first, end, reason))


def _begins(segment: Segment, base: int, bounds: Bounds) -> bool:
    """True if the segment is part of the log: it is below the durable end, or its first stamp is good."""
    if base < bounds.durable_end:
        return True
    block = segment.stamps_block(0, 1)
    return intact(block, 0, segment.seed) and brief(block, 0).base_offset == base


def _joins(before: Segment | None, base: int, bounds: Bounds) -> bool:
    """True if a segment at `base` continues the log; offsets missing below the durable end are damage, not an end."""
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
    """True if a bad batch at `offset` is the torn tail of writes never acknowledged (RL121), not damage (RL122)."""
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
    bad_batch = f"{segment.path(layout.LOG_SUFFIX)} at byte {bad.position}"
    high = min(bounds.durable_end, following if following is not None else bounds.durable_end)
    stamp = bad.stamp
    if stamp is not None and stamp.base_offset == segment.end_offset and stamp.position == segment.size:
        _damaged(bounds, stamp.base_offset, stamp.end_offset, f"{bad_batch}: {bad.reason}")
        segment.note(stamp.end_offset, stamp.size, stamp.accepted_ms, stamp.leader_epoch, -1, bad.checksum)
        return True
    next_good = next_good_stamp(segment, bad.number, segment.end_offset + 1, high)
    if next_good is None:
        _damaged(bounds, segment.end_offset, high, f"{bad_batch}: {bad.reason}")
        return False
    number, good = next_good
    _damaged(bounds, segment.end_offset, good.base_offset, f"{bad_batch}: {bad.reason}")
    segment.skip_damage(number, good.base_offset, good.position)
    return True
