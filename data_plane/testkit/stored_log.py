"""Reads a replica straight from a simulated medium, past the code that wrote it: each batch with its stamp."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX, number_in, partition_directory, segment_file
from data_plane.testkit.medium import Directory, Inode, Medium
from penstock.contract.ids import TopicPartition
from penstock.records.stamp import STAMP_BYTES

_FIRST_STAMP = 64
"""A stamps file begins with a header of this many bytes."""
_END_OF_BASE = 8
_SPAN_AT, _SIZE_AT, _POSITION_AT = 8, 16, 48


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch as it rests. `segment` is the base offset of its segment."""

    segment: int
    base_offset: int
    end_offset: int
    stamp: bytes
    batch: bytes
    harmed: bool
    """Some of its bytes are not what was written there: a fault of the medium. Nothing else of it means anything."""


class StoredLog:
    """One partition's files on one medium, as readers see them now."""

    def __init__(self, medium: Medium, where: TopicPartition) -> None:
        self._medium = medium
        self._path = partition_directory(where)

    def batches(self, start: int, end: int) -> Iterator[StoredBatch]:
        """Batches that hold offsets from `start` up to `end`, in order, as far as they are there."""
        directory = self._medium.find(self._path)
        if not isinstance(directory, Directory):
            return
        stamps = [name for name in directory.entries if name.endswith(STAMPS_SUFFIX)]
        bases = sorted(base for name in stamps if (base := number_in(name, STAMPS_SUFFIX)) is not None)
        for base in bases[max(0, bisect_right(bases, start) - 1) :]:
            if base >= end:
                return
            yield from self._segment(directory, base, start, end)

    def _segment(self, directory: Directory, base: int, start: int, end: int) -> Iterator[StoredBatch]:
        stamps = directory.entries.get(segment_file("", base, STAMPS_SUFFIX)[1:])
        log = directory.entries.get(segment_file("", base, LOG_SUFFIX)[1:])
        if not isinstance(stamps, Inode) or not isinstance(log, Inode):
            return
        data = stamps.data
        count = max(0, (len(data) - _FIRST_STAMP) // STAMP_BYTES)
        for index in range(_first_with(data, count, start), count):
            at = _FIRST_STAMP + index * STAMP_BYTES
            if _overlaps(stamps.harmed, at, STAMP_BYTES):
                yield StoredBatch(base, -1, -1, b"", b"", True)
                continue
            base_offset = _number(data, at, _END_OF_BASE)
            span, size = _number(data, at + _SPAN_AT, 4), _number(data, at + _SIZE_AT, 4)
            if span <= 0 or base_offset >= end:
                return
            position = _number(data, at + _POSITION_AT, 4)
            yield StoredBatch(
                base,
                base_offset,
                base_offset + span,
                bytes(data[at : at + STAMP_BYTES]),
                bytes(log.data[position : position + size]),
                _overlaps(log.harmed, position, size),
            )


def _first_with(data: bytearray, count: int, start: int) -> int:
    """Number of the first stamp whose batch ends after `start`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        at = _FIRST_STAMP + middle * STAMP_BYTES
        span = _number(data, at + _SPAN_AT, 4)
        if span > 0 and _number(data, at, _END_OF_BASE) + span <= start:
            low = middle + 1
        else:
            high = middle
    return low


def _overlaps(ranges: list[tuple[int, int]], at: int, length: int) -> bool:
    return any(low < at + length and at < high for low, high in ranges)


def _number(data: bytearray, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "big", signed=True)
