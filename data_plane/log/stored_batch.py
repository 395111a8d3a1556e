"""Whether a stored batch is intact, and the one that its stamp was made for."""

from penstock.contract.errors import CorruptBatch
from penstock.records.batch import BatchHeader, Buffer, check_batch
from penstock.records.stamp import Stamp


def check_stored(stamp: Stamp, batch: Buffer) -> BatchHeader:
    """The batch is intact and belongs to its stamp. Raises `CorruptBatch` or another `PenstockError` if
    not."""
    header = check_batch(batch, from_producer=False)
    if not _matches(stamp, header):
        raise CorruptBatch(f"batch at offset {stamp.base_offset}: its header and its stamp differ")
    return header


def _matches(stamp: Stamp, header: BatchHeader) -> bool:
    """The stamp belongs to this batch and no other: all that the batch's own CRC does not cover, and the identity."""
    return (
        header.base_offset == stamp.base_offset
        and header.leader_epoch == stamp.leader_epoch
        and header.size == stamp.size
        and header.last_offset_delta + 1 == stamp.offset_span
        and header.record_count == stamp.record_count
        and header.producer_id == stamp.producer_id
        and header.producer_epoch == stamp.producer_epoch
        and header.base_sequence == stamp.base_sequence
    )
