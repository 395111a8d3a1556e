"""One record of the journal: its layout, packing and reading back.

A record is a 128-byte header, then for an APPEND its stamps and its batches. Header, big-endian:

    magic 4s | kind B | 3 zero bytes | sequence Q | durable_sequence Q | topic id 16s | partition I
    | replica_generation Q | high_watermark q | offset q | end_offset q | segment_base q | position Q
    | stamp_index Q | stamps_bytes I | batches_bytes I | 16 zero bytes | CRC-32C I

The checksum covers the 124 bytes before it and is seeded with the directory id and the file's number, so neither
what a recycled file held before nor what a tenant wrote into a message is taken for a record. Stamps and batches
carry their own.
"""

import struct
from dataclasses import dataclass

import crc32c

from data_plane.disk.port import File
from data_plane.log.outcomes import JournalPiece, PieceKind, Unsynced
from data_plane.log.stored_batch import check_stored
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, with_checksum
from penstock.records.stamp import STAMP_BYTES, StampCorrupt, stamp_seed, unpack_stamp

_HEADER = struct.Struct(">4sB3xQQ16sIQqqqqQQII16x")
HEADER_BYTES = _HEADER.size + CHECKSUM_BYTES
MAGIC = b"PNJR"


def file_seed(identity: bytes, number: int) -> int:
    """Seed of the header checksums in the journal file of that number."""
    return int(crc32c.crc32c(identity + number.to_bytes(8, "big")))


@dataclass(frozen=True, slots=True)
class RecordHead:
    """A header as read back, its checksum verified."""

    sequence: int
    durable_sequence: int
    """Every record up to this one was synced when this one was written."""
    kind: PieceKind
    where: TopicPartition
    replica_generation: int
    high_watermark: int
    offset: int
    end_offset: int
    segment_base: int
    position: int
    stamp_index: int
    stamps_bytes: int
    batches_bytes: int

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return HEADER_BYTES + self.stamps_bytes + self.batches_bytes


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record for recovery to replay. Its payload stays in the journal until asked for."""

    head: RecordHead
    file: File
    at: int
    """Byte of the record in the journal file."""
    intact: bool
    """False: stamps or batches fail their checks, below the durable mark (RL122)."""

    def payload(self) -> tuple[bytes, bytes]:
        """(stamps, batches), packed."""
        head = self.head
        data = self.file.read_at(self.at + HEADER_BYTES, head.stamps_bytes + head.batches_bytes)
        return data[: head.stamps_bytes], data[head.stamps_bytes :]


def piece_bytes(piece: JournalPiece) -> int:
    """Bytes that the piece takes in the journal."""
    return HEADER_BYTES + piece.stamps_bytes + piece.batches_bytes


def pack_head(piece: JournalPiece, of: Unsynced, sequence: int, durable_sequence: int, seed: int) -> bytes:
    """The header of one record."""
    head = _HEADER.pack(
        MAGIC, piece.kind, sequence, durable_sequence, of.where.topic_id, of.where.partition, of.replica_generation,
        of.high_watermark, piece.offset, piece.end_offset, piece.segment_base, piece.position, piece.stamp_index,
        piece.stamps_bytes, piece.batches_bytes,
    )  # fmt: skip
    return with_checksum(head, seed)


def unpack_head(data: bytes, at: int, seed: int) -> RecordHead | None:
    """The header at byte `at`; None when there is none of this file."""
    crc_at = at + _HEADER.size
    if crc_at + CHECKSUM_BYTES > len(data) or data[at : at + len(MAGIC)] != MAGIC:
        return None
    if not checksum_holds(data, at, crc_at, seed):
        return None
    (_, kind, sequence, durable, topic_id, partition, generation, high_watermark, offset, end_offset, segment_base,
     position, stamp_index, stamps_bytes, batches_bytes) = _HEADER.unpack_from(data, at)  # fmt: skip
    try:
        known = PieceKind(kind)
    except ValueError:
        return None
    where = TopicPartition(TopicId(topic_id), partition)
    return RecordHead(
        sequence, durable, known, where, generation, high_watermark, offset, end_offset, segment_base, position,
        stamp_index, stamps_bytes, batches_bytes,
    )  # fmt: skip


def payload_intact(head: RecordHead, data: bytes, at: int) -> bool:
    """Stamps and batches of the record at byte `at` are whole, belong together and make up what the header says."""
    stamps_at = at + HEADER_BYTES
    batch_at = stamps_at + head.stamps_bytes
    end = batch_at + head.batches_bytes
    if end > len(data) or head.stamps_bytes % STAMP_BYTES:
        return False
    if head.kind is not PieceKind.APPEND:
        return end == stamps_at
    seed = stamp_seed(head.where)
    view = memoryview(data)
    next_offset, position = head.offset, head.position
    try:
        for stamp_at in range(stamps_at, stamps_at + head.stamps_bytes, STAMP_BYTES):
            stamp = unpack_stamp(data, seed, stamp_at)
            if stamp.base_offset != next_offset or stamp.position != position or batch_at + stamp.size > end:
                return False
            check_stored(stamp, view[batch_at : batch_at + stamp.size])
            batch_at += stamp.size
            position += stamp.size
            next_offset = stamp.end_offset
    except (StampCorrupt, PenstockError):
        return False
    return batch_at == end and next_offset == head.end_offset
