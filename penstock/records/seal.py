"""The seal of a closed segment: what it held, what the odometer said at its end, and a digest that proves it.

A seal is made when the first batch of the next segment is committed, is alike on every replica, and outlives
the segment. Layout, big-endian:

    magic 4s "PSSL" | version H | length I | topic_id 16s | partition I | log_generation I
    | base_offset q | end_offset q | batch_count I | size q | first_accepted_ms q | last_accepted_ms q
    | totals before the segment 6q | totals at its end 6q | digest 32s | row_count I | open_count I
    | rows: (minute I | principal I | messages q | bytes q), by minute and principal
    | open rows: (producer_id q | principal I | messages q | bytes q), by producer id and principal
    | crc I

`length` is the whole seal. `crc` is CRC-32C of everything before it. The totals are in the order of `Totals`.

The digest is SHA-256 over "penstock segment 1\\n", topic id (16s), partition (I) and base offset (q), then
for each batch its header (61 bytes) and its stamp (64 bytes) as stored. The header holds the CRC of the
records, so anyone with the segment can prove the seal, and a kept stamp cannot be swapped for another.
"""

import hashlib
import struct
from dataclasses import dataclass
from itertools import pairwise

from penstock.contract.ids import TOPIC_ID_BYTES, TopicId, TopicPartition
from penstock.contract.invariant import InvariantBroken, invariant
from penstock.records.batch import BATCH_HEADER_BYTES, Buffer
from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, with_checksum
from penstock.records.stamp import STAMP_BYTES
from penstock.records.usage import MinuteRow, OpenRow, Totals

_MAGIC = b"PSSL"
VERSION = 1
_PREFIX = struct.Struct(">4sHI")
_FIXED = struct.Struct(">4sHI16sIIqqIqqq6q6q32sII")
_EXTENT = struct.Struct(">4sHI16sIIqq")
_ROW = struct.Struct(">IIqq")
_OPEN = struct.Struct(">qIqq")
SEAL_BYTES_MIN = _FIXED.size + CHECKSUM_BYTES
_DIGEST_OF = struct.Struct(">16sIq")
_DIGEST_CONTEXT = b"penstock segment 1\n"
DIGEST_BYTES = 32


class SealCorrupt(Exception):
    """Bytes that are no seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """One closed segment. Offsets are half open, `size` is bytes of its batches, times are acceptance in ms UTC."""

    where: TopicPartition
    log_generation: int
    base_offset: int
    end_offset: int
    batch_count: int
    size: int
    first_accepted_ms: int
    last_accepted_ms: int
    before: Totals
    """The odometer at `base_offset`."""
    totals: Totals
    """The odometer at `end_offset`."""
    rows: tuple[MinuteRow, ...]
    """What the segment added to the committed totals, by minute and principal in that order."""
    open_rows: tuple[OpenRow, ...]
    """What stood in open transactions at `end_offset`, by producer id and principal in that order."""
    digest: bytes

    def __post_init__(self) -> None:
        invariant(len(self.where.topic_id) == TOPIC_ID_BYTES, "a topic id has 16 bytes")
        invariant(len(self.digest) == DIGEST_BYTES, "a seal's digest has 32 bytes")
        invariant(
            0 <= self.base_offset < self.end_offset and self.batch_count > 0,
            "only a segment with batches is sealed",
        )
        invariant(self.first_accepted_ms <= self.last_accepted_ms, "acceptance times do not decrease")
        invariant(
            all((a.minute, a.principal) < (b.minute, b.principal) for a, b in pairwise(self.rows)),
            "a seal's rows are in order, one a minute and principal",
        )
        invariant(
            all(
                (a.producer_id, a.principal) < (b.producer_id, b.principal)
                for a, b in pairwise(self.open_rows)
            ),
            "a seal's open rows are in order, one a producer id and principal",
        )
        added = self.totals.since(self.before)
        invariant(
            added.committed_messages == sum(row.messages for row in self.rows)
            and added.committed_bytes == sum(row.bytes for row in self.rows),
            "a seal's rows add up to what its totals gained",
        )


class SegmentDigest:
    """Digest of a segment, fed batch by batch."""

    def __init__(self, where: TopicPartition, base_offset: int) -> None:
        self._hash = hashlib.sha256(_DIGEST_CONTEXT)
        self._hash.update(_DIGEST_OF.pack(where.topic_id, where.partition, base_offset))

    def add(self, header: Buffer, stamp: Buffer) -> None:
        """The next batch's first 61 bytes and its stamp's 64, as stored."""
        invariant(len(header) == BATCH_HEADER_BYTES, "a batch header has 61 bytes")
        invariant(len(stamp) == STAMP_BYTES, "a stamp has 64 bytes")
        self._hash.update(header)
        self._hash.update(stamp)

    def digest(self) -> bytes:
        """32 bytes of what was added so far."""
        return self._hash.digest()


def pack_seal(seal: Seal) -> bytes:
    """The seal's only encoding."""
    length = _FIXED.size + len(seal.rows) * _ROW.size + len(seal.open_rows) * _OPEN.size + CHECKSUM_BYTES
    fixed = _FIXED.pack(
        _MAGIC, VERSION, length, seal.where.topic_id, seal.where.partition, seal.log_generation,
        seal.base_offset, seal.end_offset, seal.batch_count, seal.size,
        seal.first_accepted_ms, seal.last_accepted_ms,
        *seal.before.as_tuple(), *seal.totals.as_tuple(), seal.digest,
        len(seal.rows), len(seal.open_rows),
    )  # fmt: skip
    rows = [_ROW.pack(row.minute, row.principal, row.messages, row.bytes) for row in seal.rows]
    rows += [_OPEN.pack(row.producer_id, row.principal, row.messages, row.bytes) for row in seal.open_rows]
    body = b"".join([fixed, *rows])
    return with_checksum(body)


def seal_extent(data: Buffer, at: int = 0) -> tuple[int, int]:
    """(length, end offset) of the seal that begins at byte `at`, not checked; (0, 0) where none can."""
    if at + SEAL_BYTES_MIN > len(data):
        return 0, 0
    _, _, length, _, _, _, _, end_offset = _EXTENT.unpack_from(data, at)
    return length, end_offset


def unpack_seal(data: Buffer, at: int = 0) -> tuple[Seal, int]:
    """(seal that begins at byte `at`, first byte after it). Raises `SealCorrupt`."""
    view = memoryview(data)[at:]
    if len(view) < SEAL_BYTES_MIN:
        raise SealCorrupt(f"seal: {len(view)} bytes left, {SEAL_BYTES_MIN} required")
    magic, version, length = _PREFIX.unpack_from(view)
    if magic != _MAGIC or version != VERSION:
        raise SealCorrupt(f"seal: magic {magic!r} version {version}, {_MAGIC!r} version {VERSION} required")
    if not SEAL_BYTES_MIN <= length <= len(view):
        raise SealCorrupt(f"seal: {length} bytes by its length, {SEAL_BYTES_MIN} to {len(view)} possible")
    body = view[: length - CHECKSUM_BYTES]
    if not checksum_holds(view, 0, len(body)):
        raise SealCorrupt(f"seal: the checksum of the seal at byte {at} does not hold")
    (
        _, _, _, topic_id, partition, log_generation, base_offset, end_offset, batch_count, size, first_ms,
        last_ms, *rest,
    ) = _FIXED.unpack_from(body)  # fmt: skip
    digest, row_count, open_count = rest[12:]
    open_at = _FIXED.size + row_count * _ROW.size
    wanted = open_at + open_count * _OPEN.size
    if wanted != len(body):
        raise SealCorrupt(f"seal: {len(body)} bytes before the checksum, {wanted} required by its counts")
    try:
        seal = Seal(
            where=TopicPartition(TopicId(topic_id), partition),
            log_generation=log_generation,
            base_offset=base_offset,
            end_offset=end_offset,
            batch_count=batch_count,
            size=size,
            first_accepted_ms=first_ms,
            last_accepted_ms=last_ms,
            before=Totals.from_tuple(tuple(rest[:6])),
            totals=Totals.from_tuple(tuple(rest[6:12])),
            rows=tuple(MinuteRow(*row) for row in _ROW.iter_unpack(body[_FIXED.size : open_at])),
            open_rows=tuple(OpenRow(*row) for row in _OPEN.iter_unpack(body[open_at:])),
            digest=digest,
        )
    except InvariantBroken as error:
        raise SealCorrupt(f"seal: {error}") from error
    return seal, at + length
