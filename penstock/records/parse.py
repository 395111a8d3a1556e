"""Reading a batch's records: checked, inflated within a bound, parsed, given out in columns or one by one.

A batch may come from any client that may produce to the topic, so all of it is hostile until checked:

1. header, lengths and CRC-32C (`check_batch`): what fails here is damaged, `CorruptBatch`. What fails from here on
   is malformed, `MalformedBatch`: it is what its producer sent;
2. inflation bounded by `DECOMPRESSED_BATCH_BYTES_MAX` (`compression`);
3. blocks up to `COMPILED_BLOCK_BYTES_MAX` go through the compiled parser, in a buffer with space behind it
   (`codec`): its objects then stay below about 160 MB even for a block made of empty headers, which it does
   not count. Larger blocks go through `record_block`, which counts them; that is ten times slower, and such
   batches are rare.

The offset of a record is its place in the batch, since a producer's batch has one record an offset; a batch
whose first or last record says otherwise is malformed. Only batches cleaned by compaction are read by their
records' own offsets.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.contract.errors import CorruptBatch, MalformedBatch
from penstock.contract.limits import MIB
from penstock.records.batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CRC_COVERS_FROM,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    check_batch,
)
from penstock.records.codec import READ_PAST_BYTES, CompiledCodec, compiled_codec
from penstock.records.compression import decompress
from penstock.records.record_block import RawRecord, decode_records

if TYPE_CHECKING:
    import pyarrow

COMPILED_BLOCK_BYTES_MAX = 4 * MIB
_SPACE_BEHIND = bytes(READ_PAST_BYTES)
_TWO_63 = 1 << 63

RecordHeaders = list[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One message as stored. `timestamp_ms` is UTC, -1 = none."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


class Columns:
    """The records of one batch, column by column; a column is made when it is first asked for.

    All columns have `len(columns)` entries, in offset order. They must not be changed.
    """

    __slots__ = (
        "_headers",
        "_keys",
        "_records",
        "_timestamps_ms",
        "_values",
        "header",
        "inflated_bytes",
        "offsets",
    )

    header: BatchHeader
    offsets: Sequence[int]
    inflated_bytes: int
    """Of the whole batch's records, also of those before the first one here."""

    def __init__(
        self, header: BatchHeader, offsets: Sequence[int], records: "list[Any]", inflated_bytes: int
    ) -> None:
        self.header = header
        self.offsets = offsets
        self.inflated_bytes = inflated_bytes
        self._records = records
        self._timestamps_ms: list[int] | None = None
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._headers: list[RecordHeaders] | None = None

    def __len__(self) -> int:
        return len(self._records)

    @property
    def timestamps_ms(self) -> list[int]:
        """Producer's time, or the broker's where the topic says so; UTC, -1 = none."""
        if self._timestamps_ms is None:
            read = list(map(_timestamp, self._records))
            # The compiled codec says None for -1; no other timestamp but 0 is false.
            self._timestamps_ms = (
                read if all(read) else [NO_TIMESTAMP if time is None else time for time in read]
            )
        return self._timestamps_ms

    @property
    def keys(self) -> list[bytes | None]:
        if self._keys is None:
            self._keys = list(map(_key, self._records))
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        if self._values is None:
            self._values = list(map(_value, self._records))
        return self._values

    @property
    def headers(self) -> list[RecordHeaders]:
        """(name, content) pairs of each record; names may repeat, content may be None."""
        if self._headers is None:
            self._headers = list(map(_headers, self._records))
        return self._headers

    def records(self) -> Iterator[Record]:
        """The same, one light tuple a record."""
        rows = zip(self.offsets, self.timestamps_ms, self.keys, self.values, self.headers, strict=True)
        return map(_new_record, rows)

    def arrow(self) -> "pyarrow.RecordBatch":
        """offset int64, timestamp_ms timestamp[ms, UTC] (null = none), key and value binary,
        headers list<struct<name string, content binary>>.

        Needs pyarrow, which the SDK does not bring.
        """
        import pyarrow

        header = pyarrow.struct([("name", pyarrow.string()), ("content", pyarrow.binary())])
        times = [None if time == NO_TIMESTAMP else time for time in self.timestamps_ms]
        return pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array(self.offsets, pyarrow.int64()),
                pyarrow.array(times, pyarrow.timestamp("ms", "UTC")),
                pyarrow.array(self.keys, pyarrow.binary()),
                pyarrow.array(self.values, pyarrow.binary()),
                pyarrow.array(self.headers, pyarrow.list_(header)),
            ],
            names=["offset", "timestamp_ms", "key", "value", "headers"],
        )


_timestamp = attrgetter("timestamp")
_key = attrgetter("key")
_value = attrgetter("value")
_headers = attrgetter("headers")
_new_record: "partial[Record]" = partial(tuple.__new__, Record)
"""Makes a record of an iterable of its fields without the interpreter, at half of what `_make` costs."""


class _PlainRecord:
    """What the plain codec gives, under the compiled one's names."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(self, base_offset: int, timestamp: int, raw: RawRecord) -> None:
        self.offset = base_offset + raw[0]
        self.timestamp = timestamp
        self.key, self.value, self.headers = raw[2:]


def columns_of(batch: Buffer, from_offset: int | None = None) -> Columns:
    """The records of one batch from `from_offset` on (all of them without it), in columns.

    `batch` is one whole batch as stored. Raises `CorruptBatch` for what is not what a producer sent,
    `MalformedBatch` for what is and cannot be read, or `UnsupportedCompression`; nothing else whatever the
    bytes are, but `MemoryError` where this process has too little. Of a control batch the records are the
    broker's own marks: callers look at `header.control` first.
    """
    header = check_batch(batch, from_producer=False)
    try:
        with memoryview(batch) as view:
            block = decompress(header.compression, view[BATCH_HEADER_BYTES:])
            records = _parsed(header, bytes(view[:BATCH_HEADER_BYTES]), block)
        offsets = _offsets(header, records)
    except CorruptBatch as error:
        raise MalformedBatch(error.message) from error
    if from_offset is not None and from_offset > header.base_offset:
        first = bisect_left(offsets, from_offset)
        offsets, records = offsets[first:], records[first:]
    return Columns(header, offsets, records, len(block))


def records_of(batch: Buffer, from_offset: int | None = None) -> list[Record]:
    """The same as light tuples, one a record."""
    return list(columns_of(batch, from_offset).records())


def _parsed(header: BatchHeader, head: bytes, block: Buffer) -> list[Any]:
    codec = compiled_codec()
    if codec is None or len(block) > COMPILED_BLOCK_BYTES_MAX:
        return parse_plainly(header, block)
    return parse_compiled(codec, header, head, block)


def parse_compiled(codec: CompiledCodec, header: BatchHeader, head: bytes, block: Buffer) -> list[Any]:
    """Records of an inflated block by the extension. `head` is the 61 bytes of `header`, already checked."""
    attributes = header.attributes & ~CODEC_MASK
    plain = b"".join(
        (
            head[:CRC_COVERS_FROM],
            attributes.to_bytes(2, "big"),
            head[CRC_COVERS_FROM + 2 :],
            block,
            _SPACE_BEHIND,
        )
    )
    try:
        return list(codec.batch(memoryview(plain)[:-READ_PAST_BYTES]))
    except (codec.corrupt, UnicodeDecodeError) as error:
        raise CorruptBatch(
            f"batch: {header.record_count} records by its header, which cannot be read: {error}"
        ) from error
    except (MemoryError, OverflowError):
        # A record names a length that no memory holds, or this machine is short of memory: the other parser tells.
        return parse_plainly(header, block)


def parse_plainly(header: BatchHeader, block: Buffer) -> list[Any]:
    """Records of an inflated block without the extension."""
    records: list[Any] = []
    for raw in decode_records(block, header.record_count):
        if header.append_time:
            timestamp = header.max_timestamp
        else:
            timestamp = (header.base_timestamp + raw[1] + _TWO_63) % (2 * _TWO_63) - _TWO_63
        records.append(_PlainRecord(header.base_offset, timestamp, raw))
    return records


def _offsets(header: BatchHeader, records: list[Any]) -> Sequence[int]:
    base, end = header.base_offset, header.base_offset + header.offset_span
    if header.record_count == header.offset_span:
        if records[0].offset != base or records[-1].offset != end - 1:
            raise CorruptBatch(
                f"batch: its first record has offset {records[0].offset}, its last {records[-1].offset};"
                f" {base} and {end - 1} required"
            )
        return range(base, end)
    offsets = [record.offset for record in records]
    if offsets and (
        offsets[0] < base or offsets[-1] >= end or any(later <= sooner for sooner, later in pairwise(offsets))
    ):
        raise CorruptBatch(f"batch: its records' offsets do not rise within {base} to {end - 1}")
    return offsets
