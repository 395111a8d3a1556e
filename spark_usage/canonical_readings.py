"""Readings decoded from their bytes, a field of all of them at once: of records whose readings are in canonical form.

A record's readings are *canonical* when they follow each other, and in each of them the fields stand in the order of
their numbers, none twice, none unknown, numbers in at most eight bytes and within their types, six totals in one field,
and texts in ASCII. So brokers write them, whose protobuf serialises in this order. Of such bytes protobuf's decoder
makes the same readings. Everything else is left to it: what is not canonical is never rejected here.

The rest of a record, without its readings, is for protobuf: fields that are removed whole change nothing of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from data_plane.contract.usage_pb2 import PrincipalRow, Reading, UsageRecord
from penstock.records.usage import MINUTE_MS
from spark_usage.decoded_readings import TOTALS, Fields, principal_lists

_READING_TAG = UsageRecord.DESCRIPTOR.fields_by_name["readings"].number << 3 | 2
_VARINT, _BYTES = 0, 2
_PADDING = bytes(128)
"""Behind the last reading: a bad one is read beyond its end by seven numbers at most, and eight bytes from there."""
_LENGTH_BYTES = 4
"""Of a length: protobuf does not take any number of bytes for it."""
_ROW_MAX = 2**48
"""Of messages and bytes of a principal's row: sums stay within 64 bits."""
_ROWS_MAX = 2**14
_Longs = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Mask = npt.NDArray[np.bool_]
_64, _32 = 2**64 - 1, 2**32 - 1
_MOST = {
    FieldDescriptor.TYPE_UINT64: _64,
    FieldDescriptor.TYPE_SINT64: _64,
    FieldDescriptor.TYPE_UINT32: _32,
    FieldDescriptor.TYPE_SINT32: _32,
    FieldDescriptor.TYPE_ENUM: 2**31 - 1,
    FieldDescriptor.TYPE_BOOL: 1,
}
"""By type what a varint may say; of others protobuf uses a part only."""
_ZIGZAG = (FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SINT32)

_NONE: _Longs = np.zeros(0, np.int64)
_ONE = np.uint64(1)
_STOPS = np.uint64(0x8080808080808080)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_A1, _B1 = np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00)
_A2, _B2 = np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000)
_A3, _B3 = np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000)
"""Groups of seven bits move together, two, four and eight of them."""


@dataclass(frozen=True, slots=True)
class Split:
    """A record split into its readings and the rest. `starts`, `ends`: where the readings are in `value`."""

    value: bytes
    rest: bytes
    starts: Sequence[int]
    ends: Sequence[int]


def split(value: bytes) -> Split | None:
    """None when the bytes are not those of a record with readings that follow each other."""
    at = _first_reading(value)
    if at is None:
        return None
    begin, size = at, len(value)
    starts, ends = [], []
    while at + 1 < size and value[at] == _READING_TAG:
        here = value[at + 1]
        if here < 128:
            at += 2
        else:
            here, at = _length(value, at + 1)
        starts.append(at)
        at += here
        ends.append(at)
    if at > size:
        return None
    return Split(value, value[:begin] + value[at:], starts, ends)


def _first_reading(value: bytes) -> int | None:
    """Where the first one's tag is."""
    at, size = 0, len(value)
    while at < size:
        tag = value[at]
        if tag == _READING_TAG:
            return at
        if tag & 7 == _BYTES and tag < 128:
            length, at = _length(value, at + 1)
            at += length
        elif tag & 7 == _VARINT and tag < 128:
            at += 1
            while at < size and value[at] >= 128:
                at += 1
            at += 1
        else:
            return None
    return None


def _length(value: bytes, at: int) -> tuple[int, int]:
    """(length, where it ends); beyond the bytes when it has too many or no end."""
    length = 0
    for number in range(min(_LENGTH_BYTES, len(value) - at)):
        byte = value[at + number]
        length |= (byte & 127) << 7 * number
        if byte < 128:
            return length, at + number + 1
    return 0, len(value) + 1


def decoded(records: Sequence[Split]) -> tuple[Fields, _Mask]:
    """(the readings of the records that are canonical, which records these are)."""
    counts = np.array([len(one.starts) for one in records], np.int64)
    sizes = np.array([len(one.value) for one in records], np.int64)
    shift = np.repeat(np.cumsum(sizes) - sizes, counts)
    starts = np.fromiter(chain.from_iterable(one.starts for one in records), np.int64, len(shift)) + shift
    ends = np.fromiter(chain.from_iterable(one.ends for one in records), np.int64, len(shift)) + shift
    data = b"".join([*(one.value for one in records), _PADDING])
    found = _Parts(data, starts, ends, Reading)
    of, begins, ends = found.messages
    rows = _Parts(data, begins, ends, PrincipalRow)
    large = (rows.numbers["messages"] > _ROW_MAX) | (rows.numbers["bytes"] > _ROW_MAX)
    found.bad[of[rows.bad | large]] = True
    record = np.repeat(np.arange(len(records)), counts)
    while True:
        canonical = np.ones(len(records), np.bool_)
        canonical[record[found.bad]] = False
        kept = np.flatnonzero(canonical[record])
        texts = {name: _texts(data, *(ends[kept] for ends in found.texts[name])) for name in found.texts}
        foreign = np.zeros(len(kept), np.bool_)
        for name in ("tenant", "topic", "cut_id"):
            foreign |= _foreign(texts[name])
        if not foreign.any():
            break
        found.bad[kept[foreign]] = True
    chosen = canonical[record][of]
    position = np.cumsum(canonical[record]) - 1
    accepted = found.numbers["accepted_ms"][kept]
    return Fields(
        tenant=_as_text(texts["tenant"]),
        topic_id=_as_text(texts["topic_id"], in_hex=True),
        topic=_as_text(texts["topic"]),
        cut_id=_as_text(texts["cut_id"]),
        numbers={name: values[kept] for name, values in found.numbers.items()},
        totals=found.totals[kept],
        principal_rows=_principal_rows(
            accepted, position[of[chosen]], {name: values[chosen] for name, values in rows.numbers.items()}
        ),
    ), canonical


def _texts(data: bytes, begins: _Longs, ends: _Longs) -> pa.DictionaryArray:
    """The bytes between these places, which are in order."""
    bounds = np.empty(2 * len(begins), np.int64)
    bounds[::2], bounds[1::2] = begins, ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.large_binary(), max(0, len(bounds) - 1), buffers)
    return both.take(pa.array(np.arange(0, len(bounds), 2))).dictionary_encode()


def _foreign(texts: pa.DictionaryArray) -> _Mask:
    """Which are not ASCII."""
    wrong = np.array([not one.isascii() for one in texts.dictionary.to_pylist()], np.bool_)
    return wrong[np.asarray(texts.indices)] if wrong.any() else np.zeros(len(texts), np.bool_)


def _as_text(texts: pa.DictionaryArray, *, in_hex: bool = False) -> pa.StringArray:
    values = texts.dictionary.to_pylist()
    different = pa.array([one.hex() if in_hex else one.decode() for one in values], pa.string())
    return different.take(texts.indices)


def _principal_rows(accepted: _Longs, of: _Longs, rows: Mapping[str, npt.NDArray[Any]]) -> pa.ListArray:
    """As `decoded_readings` has them. `of`: which reading each row is of, in order."""
    own = rows["minute"] == accepted[of] // MINUTE_MS
    of, who = of[own], rows["principal"][own].astype(np.int64)
    key, at = np.unique(of << 32 | who, return_inverse=True)
    sums = np.zeros((len(key), 2), np.int64)
    np.add.at(
        sums, at, np.stack([rows[name][own].astype(np.int64) for name in ("messages", "bytes")], axis=1)
    )
    bounds = np.searchsorted(key >> 32, np.arange(len(accepted) + 1))
    return principal_lists(bounds, key & _32, sums[:, 0], sums[:, 1])


class _Parts:
    """Messages of one type, field by field. What is said of `bad` ones is nothing to use."""

    def __init__(self, data: bytes, starts: _Longs, ends: _Longs, of: type[Message]) -> None:
        self._bytes = np.frombuffer(data, np.uint8)
        self._words = np.ndarray((len(data) - 8,), "<u8", data, 0, (1,))
        self.count = len(starts)
        self.bad = np.zeros(self.count, np.bool_)
        self.numbers: dict[str, npt.NDArray[Any]] = {}
        self.texts: dict[str, tuple[_Longs, _Longs]] = {}
        """Where they begin and end."""
        self.totals: _Words = np.zeros((self.count, TOTALS), np.uint64)
        self.messages: tuple[_Longs, _Longs, _Longs] = (_NONE, _NONE, _NONE)
        """(of which message, where it begins and ends)."""
        self._at = starts.copy()
        self._ends = ends
        fields: list[Any] = list(of.DESCRIPTOR.fields)
        for field in sorted(fields, key=lambda one: int(one.number)):
            self._read(field)
        self.bad |= self._at != ends

    def _read(self, field: FieldDescriptor) -> None:
        if field.message_type is not None:
            self._read_messages(field)
        elif field.is_repeated:
            self._read_totals(field)
        elif field.type in _MOST:
            self._read_number(field)
        else:
            self._read_text(field)

    def _having(self, field: FieldDescriptor, kind: int) -> _Longs | None:
        """Which have this field here, behind whose tag they stand then; None for all of them."""
        tag = field.number << 3 | kind
        here = self._bytes[self._at]
        there = here == (tag if tag < 128 else tag & 127 | 128)
        size = 1
        if tag >= 128:
            size = 2
            if there.any():
                there &= self._bytes[self._at + 1] == tag >> 7
        there &= self._at < self._ends
        if there.all():
            self._at += size
            return None
        some = np.flatnonzero(there)
        self._at[some] += size
        return some

    def _varints(self, some: _Longs | None) -> tuple[_Words, npt.NDArray[np.uint8]]:
        """Read one of each: (numbers, how many bytes they had)."""
        words = self._words[self._at if some is None else self._at[some]]
        stops = ~words & _STOPS
        # All bits below the one that ends the number; all 64 when eight bytes do not end it.
        below = ~stops & (stops - _ONE)
        sizes = (np.bitwise_count(below) >> np.uint8(3)) + np.uint8(1)
        wrong = stops == 0
        values = words & below & _SEVENS
        values = values & _A1 | (values & _B1) >> _ONE
        values = values & _A2 | (values & _B2) >> np.uint64(2)
        values = values & _A3 | (values & _B3) >> np.uint64(4)
        if some is None:
            self._at += sizes
            self.bad |= wrong
        else:
            self._at[some] += sizes
            self.bad[some] |= wrong
        return values, sizes

    def _read_number(self, field: FieldDescriptor) -> None:
        some = self._having(field, _VARINT)
        values = np.zeros(self.count, np.uint64)
        if some is None or len(some):
            read, _ = self._varints(some)
            most = _MOST[field.type]
            if most < _64 and (large := read > most).any():
                self.bad[large if some is None else some[large]] = True
            if field.type in _ZIGZAG:
                read = read >> _ONE ^ (~(read & _ONE) + _ONE)
            values[slice(None) if some is None else some] = read
        unsigned = field.type == FieldDescriptor.TYPE_UINT64
        self.numbers[field.name] = values if unsigned else values.view(np.int64)

    def _sizes(self, some: _Longs | None) -> tuple[_Longs, _Longs]:
        """(where what has a length begins, where it ends), having read the length."""
        lengths, bytes_of = self._varints(some)
        at = self._at if some is None else self._at[some]
        ends = at + lengths.astype(np.int64)
        wrong = (ends > (self._ends if some is None else self._ends[some])) | (bytes_of > _LENGTH_BYTES)
        if wrong.any():
            self.bad[wrong if some is None else some[wrong]] = True
            ends = np.where(wrong, at, ends)
        return at.copy(), ends

    def _go_to(self, ends: _Longs, some: _Longs | None) -> None:
        self._at[slice(None) if some is None else some] = ends

    def _read_text(self, field: FieldDescriptor) -> None:
        some = self._having(field, _BYTES)
        begins = self._at.copy()
        ends = begins.copy()
        if some is None or len(some):
            at = slice(None) if some is None else some
            begins[at], ends[at] = self._sizes(some)
            self._go_to(ends[at], some)
        self.texts[field.name] = begins, ends

    def _read_totals(self, field: FieldDescriptor) -> None:
        """Six of them, packed: none would be other bytes, and damage."""
        some = self._having(field, _BYTES)
        if some is not None:
            missing = np.ones(self.count, np.bool_)
            missing[some] = False
            self.bad |= missing
            if not len(some):
                return
        _, ends = self._sizes(some)
        for at in range(TOTALS):
            self.totals[slice(None) if some is None else some, at], _ = self._varints(some)
        wrong = (self._at if some is None else self._at[some]) != ends
        self.bad[slice(None) if some is None else some] |= wrong

    def _read_messages(self, field: FieldDescriptor) -> None:
        found: list[tuple[_Longs, _Longs, _Longs]] = []
        while len(some := self._where(self._having(field, _BYTES))):
            begins, ends = self._sizes(some)
            self._go_to(ends, some)
            found.append((some, begins, ends))
            if len(found) > _ROWS_MAX:
                self.bad[some] = True
                break
        if found:
            of, begins, ends = (np.concatenate(column) for column in zip(*found, strict=True))
            order = np.argsort(of, kind="stable")
            self.messages = of[order], begins[order], ends[order]

    def _where(self, some: _Longs | None) -> _Longs:
        return np.arange(self.count) if some is None else some
