"""The segments of one log in order: finding, truncating, removing, and what of them is to be synced."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from data_plane.disk.port import Disk, SyncDirectory, SyncFile, SyncStep
from data_plane.log.outcomes import DamagedRange
from data_plane.log.segment import Segment, Unreadable
from penstock.contract.ids import TopicPartition
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, stamp_seed, unpack_stamp

_WARM_MAX = 4
"""Closed segments of a log whose files and samples stay at hand for readers."""


@dataclass(frozen=True, slots=True)
class TruncationPoint:
    """Where a log is truncated: the last segment that stays (-1: none), its stamps and bytes, and the log's new end."""

    segment_base: int
    stamp_count: int
    position: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Steps that make everything written so far durable in its own files, and what they cover."""

    steps: tuple[SyncStep, ...]
    written: tuple[tuple[Segment, int], ...]
    name_changes: int


class Segments:
    """All segments of one log, oldest first; the last one is active."""

    def __init__(self, disk: Disk, directory: str, where: TopicPartition, index_interval_bytes: int) -> None:
        self.disk = disk
        self.directory = directory
        self.where = where
        self.seed = stamp_seed(where)
        self.index_interval_bytes = index_interval_bytes
        self.all: list[Segment] = []
        self.name_changes = 0
        """Files made or removed in the directory so far."""
        self._synced_name_changes = 0
        self._warm: list[Segment] = []
        self._written: dict[int, Segment] = {}
        """Segments that may be dirty, by base offset."""

    @property
    def active(self) -> Segment | None:
        return self.all[-1] if self.all else None

    def closed_end(self, log_end: int) -> int:
        """Where the closed segments of a log that ends at `log_end` end: only what lies below has seals."""
        return self.all[-1].base_offset if self.all else log_end

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.all)

    def made(self, base_offset: int) -> Segment:
        """A new segment, not part of the log until `attach`."""
        return Segment(
            self.disk, self.directory, self.where, self.seed, base_offset, self.index_interval_bytes
        )

    def attach(self, segment: Segment) -> None:
        self.all.append(segment)
        self.name_changes += 1
        self._written[segment.base_offset] = segment

    def touched(self, segment: Segment) -> None:
        """The segment is to be synced."""
        self._written[segment.base_offset] = segment

    def at(self, offset: int) -> int:
        """Number of the segment whose range holds `offset`; -1 when it lies before all."""
        return bisect_right(self.all, offset, key=_base_offset) - 1

    # syncing

    @property
    def to_sync(self) -> bool:
        """Something was written and not synced."""
        return self.name_changes != self._synced_name_changes or any(s.dirty for s in self._written.values())

    def begin_flush(self) -> Flush:
        """The files stay open until `end_flush`, whatever happens to the segments meanwhile."""
        steps: list[SyncStep] = []
        written = []
        for segment in list(self._written.values()):
            if segment.dirty:
                written.append((segment, segment.writes))
                segment.holds += 1
                steps += [SyncFile(segment.data), SyncFile(segment.stamps)]
            else:
                del self._written[segment.base_offset]
        if self.name_changes != self._synced_name_changes:
            steps.append(SyncDirectory(self.directory))
        return Flush(tuple(steps), tuple(written), self.name_changes)

    def end_flush(self, flush: Flush) -> None:
        """The steps were synced."""
        self._synced_name_changes = max(self._synced_name_changes, flush.name_changes)
        for segment, writes in flush.written:
            segment.release()
            segment.synced_writes = max(segment.synced_writes, writes)
            if segment is not self.active and segment not in self._warm:
                self._cool(segment)

    def give_up_flush(self, flush: Flush) -> None:
        """The steps were not synced: the files stay dirty."""
        for segment, _ in flush.written:
            segment.release()

    # truncating

    def truncation_point(self, offset: int, *, over_damage: bool) -> TruncationPoint:
        """Where to truncate so that nothing from `offset` on stays: at a batch's end.

        Raises `Unreadable` when bad stamps hide where that is; with `over_damage` it is before them.
        """
        at = self.at(offset)
        while at >= 0:
            segment = self.all[at]
            try:
                number, position, end_offset = segment.truncation_point(offset)
            except Unreadable:
                if not over_damage:
                    raise
                number, position, end_offset = segment.truncation_point_before_damage(offset)
            if number:
                return TruncationPoint(segment.base_offset, number, position, end_offset)
            at -= 1
        return TruncationPoint(-1, 0, 0, offset)

    def truncate(self, point: TruncationPoint, damage: list[DamagedRange]) -> DamagedRange | None:
        """Truncate there. Files of segments with damage are set aside, not removed (RL122). What was found bad of what
        stays."""
        found: DamagedRange | None = None
        while self.all and self.all[-1].base_offset > point.segment_base:
            self._remove(self.all.pop(), damage)
        if self.all:
            segment = self.all[-1]
            if segment.stamp_count != point.stamp_count or segment.size != point.position:
                found = segment.truncate(point.stamp_count, point.position, point.end_offset)
                self._written[segment.base_offset] = segment
        return found

    def remove_below(self, offset: int, damage: list[DamagedRange]) -> int:
        """Remove closed segments that end at or below `offset`; the bytes freed."""
        freed = 0
        while len(self.all) > 1 and self.all[1].base_offset <= offset:
            segment = self.all.pop(0)
            freed += segment.size
            self._remove(segment, damage)
        return freed

    def _remove(self, segment: Segment, damage: list[DamagedRange]) -> None:
        low, high = segment.base_offset, segment.end_offset
        bad = any(one.first_offset < high and one.end_offset > low for one in damage)
        segment.remove(set_aside=bad)
        self._written.pop(low, None)
        if segment in self._warm:
            self._warm.remove(segment)
        self.name_changes += 1

    # reading

    def warm(self, segment: Segment) -> Segment:
        """About to be read: keep its files and samples at hand, and let go of those read longest ago."""
        if segment is not self.active:
            if segment in self._warm:
                self._warm.remove(segment)
            self._warm.append(segment)
            if len(self._warm) > _WARM_MAX:
                self._cool(self._warm.pop(0))
        return segment

    def release_files(self) -> None:
        for segment in self._warm:
            self._cool(segment)
        self._warm.clear()
        for segment in self.all[-2:]:
            segment.close_files()

    def release_closed(self) -> None:
        """Close the files of closed segments, after all were looked at."""
        for segment in self.all[:-1]:
            self._cool(segment)

    def _cool(self, segment: Segment) -> None:
        segment.close_files()
        if segment is not self.active:
            segment.forget_index()

    def close(self) -> None:
        """What is read at this moment is closed when the read has ended."""
        for segment in self.all:
            segment.abandon_files()

    def end_before(self, accepted_ms: int, log_end: int) -> int:
        """End of the last batch accepted before `accepted_ms`; the first segment's base when there is none.

        Raises `Unreadable`.
        """
        if not self.all:
            return log_end
        at = bisect_left(self.all, accepted_ms, key=_first_accepted_ms) - 1
        if at < 0:
            return self.all[0].base_offset
        segment = self.all[at]
        if segment.last_accepted_ms < accepted_ms:
            return segment.end_offset
        low, high = 0, segment.stamp_count
        while high - low > 1:
            middle = (low + high) // 2
            if segment.stamp(middle).accepted_ms < accepted_ms:
                low = middle
            else:
                high = middle
        return segment.stamp(low).end_offset

    def stamps_from(self, offset: int) -> Iterator[Stamp]:
        """Every stamp of batches at or above `offset`, which is a batch's base or the log's end.

        Raises `Unreadable` at a bad one.
        """
        for segment in self.all[max(0, self.at(offset)) :]:
            if segment.end_offset <= offset:
                continue
            number = segment.locate(max(offset, segment.base_offset))
            for begin, block in segment.stamp_blocks(number):
                for at in range(0, len(block), STAMP_BYTES):
                    try:
                        stamp = unpack_stamp(block, self.seed, at)
                    except StampCorrupt:
                        stamp = segment.stamp(begin + at // STAMP_BYTES)
                    yield stamp


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _first_accepted_ms(segment: Segment) -> int:
    return segment.first_accepted_ms
