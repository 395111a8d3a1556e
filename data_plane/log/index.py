"""Sparse index of one segment: samples by offset, stamp number, byte and time, bounded in number; a cache (RL123).

The stamps are the dense index; the samples only say which stamps to look at.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from data_plane.log.small_file import SmallFileCorrupt, SmallFileKind, pack_small_file, unpack_small_file

SAMPLES_MAX = 4096
"""Above it every second sample goes and the interval doubles: 128 KiB a segment at most."""
FORMAT_VERSION = 1
_SUMMARY = struct.Struct(">qqIIqqqiiII")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """A segment in a few numbers. Offsets in records, size in bytes, times in ms UTC."""

    base_offset: int
    end_offset: int
    size: int
    stamp_count: int
    first_accepted_ms: int
    last_accepted_ms: int
    max_timestamp: int
    first_epoch: int
    last_epoch: int
    last_checksum: int
    """Checksum of the last stamp: with `stamp_count` it names this content, so a cache of other content is
    recognized."""


class SegmentIndex:
    """Samples of one segment. The first batch is always sampled."""

    __slots__ = ("_next_position", "interval_bytes", "max_timestamps", "numbers", "offsets", "positions")

    def __init__(self, interval_bytes: int) -> None:
        self.interval_bytes = interval_bytes
        self._next_position = 0
        self.offsets = array("q")
        """Base offset of the sampled batch."""
        self.numbers = array("q")
        """Its stamp's number in the segment."""
        self.positions = array("q")
        """Its first byte."""
        self.max_timestamps = array("q")
        """Largest timestamp of all batches up to and with it."""

    def note(self, offset: int, number: int, position: int, max_timestamp: int) -> None:
        """A batch was appended; sample it when enough bytes have passed."""
        if position < self._next_position:
            return
        self._next_position = position + self.interval_bytes
        self.offsets.append(offset)
        self.numbers.append(number)
        self.positions.append(position)
        self.max_timestamps.append(max_timestamp)
        if len(self.offsets) > SAMPLES_MAX:
            self._thin()

    def _thin(self) -> None:
        self.offsets = self.offsets[::2]
        self.numbers = self.numbers[::2]
        self.positions = self.positions[::2]
        self.max_timestamps = self.max_timestamps[::2]
        self.interval_bytes *= 2
        self._next_position = self.positions[-1] + self.interval_bytes

    def numbers_around(self, offset: int, stamp_count: int) -> tuple[int, int]:
        """[first, end) of the stamps among which the batch that holds `offset` stands, if the segment holds it."""
        at = bisect_right(self.offsets, offset)
        first = self.numbers[at - 1] if at else 0
        return first, self.numbers[at] if at < len(self.numbers) else stamp_count

    def numbers_reaching(self, timestamp_ms: int, stamp_count: int) -> tuple[int, int]:
        """[first, end) of the stamps among which the first batch with a timestamp at or after `timestamp_ms`
        stands, if any."""
        at = bisect_left(self.max_timestamps, timestamp_ms)
        first = self.numbers[at - 1] + 1 if at else 0
        return first, self.numbers[at] + 1 if at < len(self.numbers) else stamp_count

    def truncate(self, stamp_count: int) -> int:
        """Forget samples from stamp `stamp_count` on; the largest timestamp up to the last one left, -1 for none."""
        keep = bisect_left(self.numbers, stamp_count)
        for samples in (self.offsets, self.numbers, self.positions, self.max_timestamps):
            del samples[keep:]
        self._next_position = self.positions[-1] + self.interval_bytes if keep else 0
        return self.max_timestamps[-1] if keep else -1


def pack_index(summary: SegmentSummary, index: SegmentIndex) -> bytes:
    body = [
        _SUMMARY.pack(
            summary.base_offset, summary.end_offset, summary.size, summary.stamp_count, summary.first_accepted_ms,
            summary.last_accepted_ms, summary.max_timestamp, summary.first_epoch, summary.last_epoch,
            summary.last_checksum, index.interval_bytes,
        )
    ]  # fmt: skip
    for samples in (index.offsets, index.numbers, index.positions, index.max_timestamps):
        body.append(_big_endian(samples).tobytes())
    return pack_small_file(SmallFileKind.INDEX, FORMAT_VERSION, b"".join(body))


def unpack_index(data: bytes) -> tuple[SegmentSummary, SegmentIndex]:
    """Raises `SmallFileCorrupt`. Whether it belongs to the segment's present content is for the caller to check."""
    version, body = unpack_small_file(SmallFileKind.INDEX, data)
    rest = len(body) - _SUMMARY.size
    if version != FORMAT_VERSION or rest < 0 or rest % 32:
        raise SmallFileCorrupt(f"index: version {version}, {len(body)} bytes; version {FORMAT_VERSION} known")
    fields = _SUMMARY.unpack_from(body)
    summary = SegmentSummary(
        base_offset=fields[0], end_offset=fields[1], size=fields[2], stamp_count=fields[3],
        first_accepted_ms=fields[4], last_accepted_ms=fields[5], max_timestamp=fields[6],
        first_epoch=fields[7], last_epoch=fields[8], last_checksum=fields[9],
    )  # fmt: skip
    if fields[10] < 1:
        raise SmallFileCorrupt(f"index: interval of {fields[10]} bytes, at least 1 required")
    index = SegmentIndex(fields[10])
    column = rest // 4
    columns = []
    for number in range(4):
        samples = array("q")
        samples.frombytes(body[_SUMMARY.size + number * column : _SUMMARY.size + (number + 1) * column])
        columns.append(_big_endian(samples))
    index.offsets, index.numbers, index.positions, index.max_timestamps = columns
    if index.positions:
        index._next_position = index.positions[-1] + index.interval_bytes
    return summary, index


def _big_endian(samples: "array[int]") -> "array[int]":
    """The same numbers with their bytes in (or from) the order of the file."""
    swapped = array("q", samples)
    if sys.byteorder == "little":
        swapped.byteswap()
    return swapped
