"""Reading a log: from the tail in memory, else from its files; whatever fails a check is named and never served
(RL130)."""

from dataclasses import dataclass

from data_plane.disk import port
from data_plane.disk.port import File
from data_plane.log.outcomes import DamagedRange, Slice
from data_plane.log.segment import Segment, Unreadable
from data_plane.log.segments import Segments
from data_plane.log.stored_batch import check_stored
from data_plane.log.tail import Tail
from penstock.contract.errors import CorruptLog, PenstockError
from penstock.records.stamp import STAMP_BYTES, unpack_stamp

_EMPTY = ()


@dataclass(frozen=True, slots=True)
class ColdRead:
    """Bytes to be read off the loop: `await disk.read(file, position, length)`, then `log.slice_of(cold, data)`.

    The file stays open until then; a reader that gives up calls `log.forget(cold)`, one whose read failed
    `log.read_failed`.
    """

    file: File
    position: int
    length: int
    first_offset: int
    next_offset: int
    stamps: bytes
    segment: Segment


class LogReader:
    """Readers' side of one log. `damage` grows as reads find it."""

    def __init__(self, segments: Segments, tail: Tail, damage: list[DamagedRange]) -> None:
        self.name = str(segments.where)
        self._segments = segments
        self._tail = tail
        self.damage = damage

    def read(self, offset: int, end_offset: int, bytes_max: int) -> Slice | ColdRead:
        """As `PartitionLog.read`, the bounds checked: `offset` lies within the log, `end_offset` at most at its end."""
        for one in self.damage:
            if one.first_offset <= offset < one.end_offset:
                raise self._corrupt(one)
            if offset < one.first_offset < end_offset:
                end_offset = one.first_offset
        if offset >= end_offset:
            return Slice(offset, offset, b"", _EMPTY, 0)
        found = self._tail.read(offset, end_offset, bytes_max)
        if found is not None:
            return found
        segment = self._segments.warm(self._segments.all[self._segments.at(offset)])
        try:
            run = segment.run(offset, end_offset, bytes_max)
        except Unreadable as error:
            raise self.unreadable(error) from None
        except port.DiskFault as fault:
            raise self._found(DamagedRange(offset, min(end_offset, segment.end_offset), str(fault))) from None
        if run is None:
            return Slice(offset, offset, b"", _EMPTY, 0)
        segment.holds += 1
        return ColdRead(
            segment.data, run.position, run.size, run.first_offset, run.end_offset, run.stamps, segment
        )

    def slice_of(self, cold: ColdRead, data: bytes) -> Slice:
        """Check every batch; those before the first bad one are served."""
        self.forget(cold)
        view = memoryview(data)
        batches: list[memoryview] = []
        at, next_offset = 0, cold.first_offset
        for stamp_at in range(0, len(cold.stamps), STAMP_BYTES):
            stamp = unpack_stamp(cold.stamps, cold.segment.seed, stamp_at)
            batch = view[at : at + stamp.size]
            try:
                check_stored(stamp, batch)
            except PenstockError as error:
                bad = DamagedRange(stamp.base_offset, stamp.end_offset, f"{cold.file.path}: {error}")
                corrupt = self._found(bad)
                if not batches:
                    raise corrupt from None
                break
            batches.append(batch)
            at += stamp.size
            next_offset = stamp.end_offset
        return Slice(cold.first_offset, next_offset, cold.stamps[: len(batches) * STAMP_BYTES], batches, at)

    def forget(self, cold: ColdRead) -> None:
        """The read is over, its file need not stay open."""
        cold.segment.release()

    def read_failed(self, cold: ColdRead, fault: port.DiskFault) -> CorruptLog:
        """The medium answered with an error: the range is damaged. The error to answer with."""
        self.forget(cold)
        return self._found(DamagedRange(cold.first_offset, cold.next_offset, str(fault)))

    def offset_for_time(self, timestamp_ms: int, log_start: int, end_offset: int) -> int:
        """As `PartitionLog.offset_for_time`."""
        for segment in self._segments.all:
            if segment.base_offset >= end_offset:
                break
            if segment.end_offset <= log_start or segment.max_timestamp < timestamp_ms:
                continue
            try:
                found = self._segments.warm(segment).offset_reaching(timestamp_ms, end_offset)
            except Unreadable as error:
                raise self.unreadable(error) from None
            if found is not None:
                return max(found, log_start)
        return end_offset

    def unreadable(self, error: Unreadable) -> CorruptLog:
        """A reader of the files found this: the range is damaged. Returns the error to answer with."""
        return self._found(error.damage)

    def found(self, damage: DamagedRange) -> None:
        """Note damage, once."""
        if damage not in self.damage:
            self.damage.append(damage)
            self.damage.sort()

    def _found(self, damage: DamagedRange) -> CorruptLog:
        self.found(damage)
        return self._corrupt(damage)

    def _corrupt(self, damage: DamagedRange) -> CorruptLog:
        return CorruptLog(f"{self.name}: {damage}")
