"""Reading a batch's records: checked, inflated within a bound, parsed, given out in columns or one by one.

A batch may come from any client that may produce to the topic, so all of it is hostile until checked:

1. header, lengths and CRC-32C (`check_batch`): what fails here is damaged, `CorruptBatch`. What fails from here on
   is malformed, `MalformedBatch`: it is what its producer sent;
2. inflation bounded by `DECOMPRESSED_BATCH_BYTES_MAX` (`compression`);
3. blocks go through `record_block`, which counts headers before it makes objects of them. Where that is not compiled,
   blocks up to `EXTENSION_BLOCK_BYTES_MAX` go through aiokafka's parser, in a buffer with space behind it (`codec`):
   its objects stay below about 160 MB even for a block made of empty headers, which are counted after it.

So one batch takes at most the inflated block twice, 250 MB of objects and their content, whatever it says.

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
from penstock.contract.limits import MIB, RECORDS_AND_HEADERS_PER_BATCH_MAX
from penstock.records.batch import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CRC_COVERS_FROM,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    check_batch,
)
from penstock.records.codec import READ_PAST_BYTES, ExtensionCodec, chosen_extension
from penstock.records.compression import decompress
from penstock.records.record_block import (
    HEADER_BYTES_MIN,
    RecordColumns,
    RecordHeaders,
    decode_records,
    too_many_headers,
)

if TYPE_CHECKING:
    import pyarrow

EXTENSION_BLOCK_BYTES_MAX = 4 * MIB
_SPACE_BEHIND = bytes(READ_PAST_BYTES)


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
        self, header: BatchHeader, offsets: Sequence[int], parsed: "Parsed", inflated_bytes: int
    ) -> None:
        """`parsed` are the records at `offsets`."""
        self.header = header
        self.offsets = offsets
        self.inflated_bytes = inflated_bytes
        self._records: list[Any] = []
        self._timestamps_ms: list[int] | None = None
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._headers: list[RecordHeaders] | None = None
        if isinstance(parsed, RecordColumns):
            self._timestamps_ms = parsed.timestamps_ms
            self._keys = parsed.keys
            self._values = parsed.values
            self._headers = parsed.headers
        else:
            self._records = parsed

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def timestamps_ms(self) -> list[int]:
        """Producer's time, or the broker's where the topic says so; UTC, -1 = none."""
        if self._timestamps_ms is None:
            read = list(map(_timestamp, self._records))
            # aiokafka says None for -1; no other timestamp but 0 is false.
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
            if self._records:
                self._headers = list(map(_headers, self._records))
            else:
                self._headers = [[] for _ in range(len(self.offsets))]
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


Parsed = RecordColumns | list[Any]
"""The records of a batch: in columns, or aiokafka's objects of which columns are made when they are asked for."""


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
            parsed = _parsed(header, bytes(view[:BATCH_HEADER_BYTES]), block)
        offsets = _offsets(header, parsed)
    except CorruptBatch as error:
        raise MalformedBatch(error.message) from error
    if from_offset is not None and from_offset > header.base_offset:
        first = bisect_left(offsets, from_offset)
        offsets = offsets[first:]
        parsed = parsed.from_index(first) if isinstance(parsed, RecordColumns) else parsed[first:]
    return Columns(header, offsets, parsed, len(block))


def records_of(batch: Buffer, from_offset: int | None = None) -> list[Record]:
    """The same as light tuples, one a record."""
    return list(columns_of(batch, from_offset).records())


def _parsed(header: BatchHeader, head: bytes, block: Buffer) -> Parsed:
    extension = chosen_extension()
    if extension is None or len(block) > EXTENSION_BLOCK_BYTES_MAX:
        return parse_block(header, block)
    return parse_by_extension(extension, header, head, block)


def parse_by_extension(extension: ExtensionCodec, header: BatchHeader, head: bytes, block: Buffer) -> Parsed:
    """Records of an inflated block by aiokafka. `head` is the 61 bytes of `header`, already checked."""
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
        records = list(extension.batch(memoryview(plain)[:-READ_PAST_BYTES]))
    except (extension.corrupt, UnicodeDecodeError) as error:
        raise CorruptBatch(
            f"batch: {header.record_count} records by its header, which cannot be read: {error}"
        ) from error
    except (MemoryError, OverflowError):
        # A record names a length that no memory holds, or this machine is short of memory: the other parser tells.
        return parse_block(header, block)
    # Smaller blocks have no space for so many.
    if (
        len(block) > HEADER_BYTES_MIN * RECORDS_AND_HEADERS_PER_BATCH_MAX
        and len(records) + sum(map(len, map(_headers, records))) > RECORDS_AND_HEADERS_PER_BATCH_MAX
    ):
        raise too_many_headers()
    return records


def parse_block(header: BatchHeader, block: Buffer) -> RecordColumns:
    """Records of an inflated block by our own parser."""
    append_time = header.max_timestamp if header.append_time else None
    return decode_records(block, header.record_count, header.base_timestamp, append_time)


def _offsets(header: BatchHeader, parsed: Parsed) -> Sequence[int]:
    """Of all records, checked; `parsed` are as many as `header` says."""
    base, end = header.base_offset, header.base_offset + header.offset_span
    if header.record_count == header.offset_span:
        if isinstance(parsed, RecordColumns):
            first, last = base + parsed.offset_deltas[0], base + parsed.offset_deltas[-1]
        else:
            first, last = parsed[0].offset, parsed[-1].offset
        if first != base or last != end - 1:
            raise CorruptBatch(
                f"batch: its first record has offset {first}, its last {last}; {base} and {end - 1} required"
            )
        return range(base, end)
    if isinstance(parsed, RecordColumns):
        offsets = [base + delta for delta in parsed.offset_deltas]
    else:
        offsets = [record.offset for record in parsed]
    if offsets and (
        offsets[0] < base or offsets[-1] >= end or any(later <= sooner for sooner, later in pairwise(offsets))
    ):
        raise CorruptBatch(f"batch: its records' offsets do not rise within {base} to {end - 1}")
    return offsets
