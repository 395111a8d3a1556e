"""Checking stored batches one by one, against their stamps and checksums, when a log is opened."""

from dataclasses import dataclass

from data_plane.log.readable import read_or_zeros
from data_plane.log.segment import Segment
from data_plane.log.sidecar import checksum_of, stamps_in
from data_plane.log.stored_batch import check_stored
from penstock.contract.errors import PenstockError
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, StampFlag, unpack_stamp

_CHUNK_BYTES = 1 << 20
_STAMPS_PER_BLOCK = 1_024
_FIRST_OF_SEGMENT = int(StampFlag.FIRST_OF_SEGMENT)


@dataclass(frozen=True, slots=True)
class Bad:
    """The first thing that does not hold: at stamp `number`, where the batch would begin at `position`."""

    number: int
    position: int
    stamp: Stamp | None
    """The stamp when it is good and only its batch is not."""
    checksum: int
    """The stamp's own."""
    reason: str


def check_batches(segment: Segment, *, limit: int | None, epoch: int, accepted_ms: int) -> Bad | None:
    """Check what follows the batches that `segment` knows of, note what is good, stop at the first that is not.

    `limit`: where the next segment begins; `epoch` and `accepted_ms` of the batch before bound what may follow.
    None: everything up to the end of the files (or `limit`) is good. What stands behind a segment that ends at `limit`
    is a tail that was torn before the next one was begun.
    """
    end = stamps_in(segment.stamps.size())
    data_size = segment.data.size()
    chunk, chunk_at = b"", 0
    if segment.stamp_count:
        epoch, accepted_ms = segment.last_epoch, segment.last_accepted_ms
    while segment.stamp_count < end:
        first = segment.stamp_count
        block = segment.stamps_block(first, min(first + _STAMPS_PER_BLOCK, end))
        for at in range(0, len(block), STAMP_BYTES):
            number, position = segment.stamp_count, segment.size
            if segment.end_offset == limit:
                return None
            try:
                stamp = unpack_stamp(block, segment.seed, at)
            except StampCorrupt as error:
                return Bad(number, position, None, 0, str(error))
            if limit is not None and stamp.base_offset >= limit:
                return None
            reason = _misfit(stamp, segment, epoch, accepted_ms)
            if reason:
                return Bad(number, position, None, 0, reason)
            if position + stamp.size > data_size:
                return Bad(
                    number, position, stamp, checksum_of(block, at), f"the data file ends at byte {data_size}"
                )
            if not chunk_at <= position <= position + stamp.size <= chunk_at + len(chunk):
                chunk, _ = read_or_zeros(segment.data, position, max(_CHUNK_BYTES, stamp.size))
                chunk_at = position
            within = position - chunk_at
            try:
                header = check_stored(stamp, memoryview(chunk)[within : within + stamp.size])
            except PenstockError as wrong:
                return Bad(number, position, stamp, checksum_of(block, at), wrong.message)
            segment.note(
                stamp.end_offset, stamp.size, stamp.accepted_ms, stamp.leader_epoch, header.max_timestamp,
                checksum_of(block, at),
            )  # fmt: skip
            epoch, accepted_ms = stamp.leader_epoch, stamp.accepted_ms
    return None


def _misfit(stamp: Stamp, segment: Segment, epoch: int, accepted_ms: int) -> str:
    """Why a good stamp cannot stand here; empty when it can."""
    if stamp.base_offset != segment.end_offset or stamp.position != segment.size:
        return (
            f"a stamp for offset {stamp.base_offset} at byte {stamp.position},"
            f" {segment.end_offset} at byte {segment.size} required"
        )
    if stamp.leader_epoch < epoch or stamp.accepted_ms < accepted_ms:
        return f"a stamp of epoch {stamp.leader_epoch} accepted at {stamp.accepted_ms}, older than the one before"
    if bool(stamp.flags & _FIRST_OF_SEGMENT) != (segment.stamp_count == 0):
        return "the mark of a segment's first batch is on another one"
    return ""


def next_good_stamp(segment: Segment, number: int, low: int, high: int) -> tuple[int, Stamp] | None:
    """The first good stamp behind the bad stamp `number` whose offset lies in [low, high), with its number."""
    end = stamps_in(segment.stamps.size())
    for first in range(number + 1, end, _STAMPS_PER_BLOCK):
        block = segment.stamps_block(first, min(first + _STAMPS_PER_BLOCK, end))
        for at in range(0, len(block) - STAMP_BYTES + 1, STAMP_BYTES):
            try:
                stamp = unpack_stamp(block, segment.seed, at)
            except StampCorrupt:
                continue
            if low <= stamp.base_offset < high and stamp.position >= segment.size:
                return first + at // STAMP_BYTES, stamp
    return None
