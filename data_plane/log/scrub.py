"""Reading closed segments back, long after they were written: every stamp, every batch, and a digest of both (RL132).

What was found is kept in a cache of its own, `scrubbed`, so that a restart repeats nothing. A finding names its
segment by base, end and the last stamp's checksum: one batch of one history.

Body of the file, big-endian, per segment: base q | end q | last_checksum I | verified_ms q | digest 32s.
"""

import hashlib
import struct
from dataclasses import dataclass

from data_plane.disk.port import DiskFault, File, ReadAt
from data_plane.log import layout
from data_plane.log.outcomes import DamagedRange
from data_plane.log.reading import LogReader
from data_plane.log.segment import Segment
from data_plane.log.segments import Segments
from data_plane.log.sidecar import stamp_at
from data_plane.log.small_file import SmallFileKind, pack_small_file, read_cache, write_cache
from data_plane.log.stored_batch import check_stored
from penstock.contract.errors import PenstockError
from penstock.records.stamp import STAMP_BYTES, StampCorrupt, unpack_stamp

FORMAT_VERSION = 1
STEP_BYTES = 256 << 10
STEP_STAMPS = 256
"""What one step reads at most (one batch may be larger): a few ms of a thread."""
_FINDING = struct.Struct(">qqIq32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One closed segment was read back whole. `verified_ms`: when, ms UTC."""

    base_offset: int
    end_offset: int
    last_checksum: int
    verified_ms: int
    digest: bytes


class SegmentCheck:
    """One segment being read back. `step` touches nothing but its arguments and itself: it may run in a thread."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.files: tuple[File, File] = (segment.stamps, segment.data)
        self.end_offset = segment.end_offset
        self.last_checksum = segment.last_checksum
        self.damage: DamagedRange | None = None
        self._seed = segment.seed
        self._count = segment.stamp_count
        self._path = segment.data.path
        self._number = 0
        self._offset = segment.base_offset
        self._position = 0
        self._stamps = hashlib.sha256()
        self._batches = hashlib.sha256()

    @property
    def done(self) -> bool:
        return self.damage is not None or self._number == self._count

    def step(self, stamps: ReadAt, data: ReadAt) -> int:
        """Check what comes next; the bytes read. The first thing that is bad ends the check."""
        first, end = self._number, min(self._number + STEP_STAMPS, self._count)
        try:
            block = stamps(stamp_at(first), (end - first) * STAMP_BYTES)
        except DiskFault as fault:
            return self._bad(self._offset, self.end_offset, str(fault))
        read = len(block)
        at = 0
        while self._number < end and read < STEP_BYTES:
            try:
                stamp = unpack_stamp(block, self._seed, at)
            except StampCorrupt as corrupt:
                return self._bad(self._offset, self.end_offset, str(corrupt))
            if stamp.base_offset != self._offset or stamp.position != self._position:
                return self._bad(self._offset, self.end_offset, f"a stamp for offset {stamp.base_offset}")
            try:
                batch = data(stamp.position, stamp.size)
                check_stored(stamp, batch)
            except (DiskFault, PenstockError) as error:
                return self._bad(stamp.base_offset, stamp.end_offset, str(error))
            self._stamps.update(block[at : at + STAMP_BYTES])
            self._batches.update(batch)
            self._offset = stamp.end_offset
            self._position = stamp.position + stamp.size
            self._number += 1
            read += len(batch)
            at += STAMP_BYTES
        if self._number == self._count and self._offset != self.end_offset:
            return self._bad(self._offset, self.end_offset, "its stamps end early")
        return read

    def digest(self) -> bytes:
        """Of all stamps and all batches."""
        return hashlib.sha256(self._stamps.digest() + self._batches.digest()).digest()

    def _bad(self, first: int, end: int, reason: str) -> int:
        self.damage = DamagedRange(first, max(first + 1, end), f"{self._path}: {reason}")
        return STAMP_BYTES


class LogScrub:
    """What was read back of one log."""

    def __init__(self, segments: Segments, reader: LogReader) -> None:
        self._segments = segments
        self._reader = reader
        self._path = f"{segments.directory}/{layout.SCRUBBED_FILE}"
        self._found: dict[int, Finding] | None = None

    def closed(self, below: int) -> list[Segment]:
        """Closed segments that end at or below `below`, oldest first."""
        return [segment for segment in self._segments.all[:-1] if segment.end_offset <= below]

    def finding(self, segment: Segment) -> Finding | None:
        """What was found of this very content."""
        found = self._known().get(segment.base_offset)
        if found is None or (found.end_offset, found.last_checksum) != (
            segment.end_offset,
            segment.last_checksum,
        ):
            return None
        return found

    def findings(self, below: int) -> list[Finding]:
        """Of the segments that are there now, oldest first."""
        return [found for segment in self.closed(below) if (found := self.finding(segment)) is not None]

    def begin(self, segment: Segment) -> SegmentCheck:
        """Its files stay open until `end`."""
        check = SegmentCheck(segment)
        segment.holds += 1
        return check

    def end(self, check: SegmentCheck) -> bool:
        """The check is over, or given up. False: the segment is not what it was then, whatever was found."""
        segment = check.segment
        segment.release()
        same = segment in self._segments.all[:-1] and segment.end_offset == check.end_offset
        if not segment.holds and segment in self._segments.all[:-1]:
            segment.close_files()
        return same and segment.last_checksum == check.last_checksum

    def found_whole(self, check: SegmentCheck, verified_ms: int) -> None:
        """Keep the finding of a check that `end` called valid."""
        known = self._known()
        known[check.segment.base_offset] = Finding(
            base_offset=check.segment.base_offset,
            end_offset=check.end_offset,
            last_checksum=check.last_checksum,
            verified_ms=verified_ms,
            digest=check.digest(),
        )
        here = {segment.base_offset: None for segment in self._segments.all}
        self._found = {base: known[base] for base in sorted(known) if base in here}
        self._write(self._found)

    def refetch_from(self) -> int:
        """Where to truncate the log so that whole segments with damage are kept aside and fetched again: the base of
        the first one with damage, which may lie below the log's start."""
        first = min(one.first_offset for one in self._reader.damage)
        at = self._segments.at(first)
        return self._segments.all[at].base_offset if at >= 0 else first

    def found_damage(self, damage: DamagedRange) -> None:
        """The range is not served any more."""
        self._reader.found(damage)

    def _known(self) -> dict[int, Finding]:
        if self._found is None:
            body = read_cache(self._segments.disk, self._path, SmallFileKind.SCRUBBED, FORMAT_VERSION) or b""
            whole = len(body) - len(body) % _FINDING.size
            self._found = {
                base: Finding(
                    base_offset=base, end_offset=end, last_checksum=checksum, verified_ms=at, digest=digest
                )
                for base, end, checksum, at, digest in _FINDING.iter_unpack(body[:whole])
            }
        return self._found

    def _write(self, found: dict[int, Finding]) -> None:
        body = b"".join(
            _FINDING.pack(one.base_offset, one.end_offset, one.last_checksum, one.verified_ms, one.digest)
            for one in found.values()
        )
        data = pack_small_file(SmallFileKind.SCRUBBED, FORMAT_VERSION, body)
        write_cache(self._segments.disk, self._path, data)
