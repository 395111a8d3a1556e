"""Whether a stored batch is what its header says: one verdict for consumers, the proof of invoices and other readers.

A batch is *damaged* when its CRC-32C does not hold: it is not what was acknowledged. It is *malformed* when the CRC
holds and its content is something else than its header says: exactly this was sent and acknowledged, because brokers
check headers and never look into records.
"""

from penstock.contract.errors import MalformedBatch
from penstock.records.batch import Buffer
from penstock.records.parse import columns_of


def what_is_malformed(batch: Buffer) -> str:
    """What of one whole stored batch is not as its header says, for people; "" when all is.

    Looks at the count of records, at the offsets of the first and the last one, and whether the block inflates to
    at most `DECOMPRESSED_BATCH_BYTES_MAX` bytes and can be read to its end. Inflates and parses the batch: some ms
    a MiB, more for blocks above 4 MiB. Whatever is malformed here is skipped by consumers, and nothing else is but
    batches with fewer records than offsets, which no broker takes and of which consumers read what is there.

    Raises `CorruptBatch` (not `MalformedBatch`) when its length, its CRC-32C or its header does not hold,
    `UnsupportedCompression`, and `MemoryError` where this process has too little memory.
    """
    try:
        header = columns_of(batch).header
    except MalformedBatch as error:
        return error.message
    if header.record_count != header.offset_span:
        return (
            f"batch: {header.record_count} records over {header.offset_span} offsets, one an offset required"
        )
    return ""
