"""Readings of many records as columns: each field once for all of them, and what is damaged found column by column."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_plane.contract.usage_pb2 import CUT, FINAL, PrincipalRow, Reading, ReadingKind
from penstock.contract.ids import TOPIC_ID_BYTES
from penstock.records.usage import minute_of
from penstock.rules.timestamps import day_start_ms

TOTALS = 6
RETAINED_MINUTES_MAX = 10 * 366 * 24 * 60
"""Of one leadership: ten years."""
TIME_MS_MAX = day_start_ms(date(9999, 1, 1))
MINUTE_MAX = minute_of(TIME_MS_MAX)
"""What is later has no day that data sets can name: one such part would end every round."""
_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_FIELDS = (
    "tenant", "topic_id", "topic", "partition", "log_generation", "end_offset", "accepted_ms", "totals",
    "minute_rows", "kind", "cut_id", "cut_end_ms", "last", "leader_epoch", "retained_since", "retained_until",
    "retained_byte_minutes", "replicated_byte_minutes",
)  # fmt: skip
_UNSIGNED = ("log_generation", "retained_byte_minutes", "replicated_byte_minutes")
_NUMBERS = (
    *_UNSIGNED, "partition", "end_offset", "accepted_ms", "kind", "cut_end_ms", "last", "leader_epoch",
    "retained_since", "retained_until",
)  # fmt: skip
_RETAINED = {
    "leader_epoch": pa.int32(), "retained_since": pa.int64(), "retained_until": pa.int64(),
    "byte_minutes": pa.int64(), "replicated_byte_minutes": pa.int64(),
}  # fmt: skip
PRINCIPAL_ROW = pa.struct([("principal", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64())])
_fields_of: Callable[[Reading], tuple[Any, ...]] = attrgetter(*_FIELDS)
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What readings say, not looked at yet: each field of all of them, in their order."""

    tenant: pa.StringArray
    topic_id: pa.StringArray
    """In hex."""
    topic: pa.StringArray
    cut_id: pa.StringArray
    numbers: Mapping[str, npt.NDArray[Any]]
    """By the field's name; uint64 where the field is."""
    totals: npt.NDArray[np.uint64]
    """Six to a reading."""
    principal_rows: pa.ListArray
    wrong_totals: Mapping[int, str] = field(default_factory=dict)
    """By the reading's place: why there are not six, and `totals` are 0."""
    wrong_rows: Mapping[int, str] = field(default_factory=dict)
    """By the reading's place: what is wrong with its rows."""

    @property
    def count(self) -> int:
        return len(self.tenant)


def fields_of(readings: Iterable[Reading]) -> Fields:
    """What protobuf found in them."""
    rows = list(map(_fields_of, readings))
    of = dict(zip(_FIELDS, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(_FIELDS, ())
    totals, wrong_totals = _totals(of["totals"])
    principal_rows, wrong_rows = _principal_rows(of["minute_rows"], of["accepted_ms"])
    return Fields(
        tenant=pa.array(of["tenant"], pa.string()),
        topic_id=pa.array([one.hex() for one in of["topic_id"]], pa.string()),
        topic=pa.array(of["topic"], pa.string()),
        cut_id=pa.array(of["cut_id"], pa.string()),
        numbers={name: np.array(of[name], np.uint64 if name in _UNSIGNED else np.int64) for name in _NUMBERS},
        totals=totals,
        principal_rows=principal_rows,
        wrong_totals=wrong_totals,
        wrong_rows=wrong_rows,
    )


def columns_of(fields: Fields) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """(columns of `decode.FACTS` of all readings, those that are damaged by their place with the reason). What the
    columns say of damaged ones is nothing to use.
    """
    found = _Damage(fields.count)
    numbers = fields.numbers
    found.where(_empty(fields.tenant), lambda _: "no tenant")
    found.named(fields.wrong_totals)
    _check_position(fields.totals, numbers, found)
    _check_kind(fields, found)
    _check_topic(fields, found)
    found.too_large("log_generation", numbers["log_generation"])
    found.named(fields.wrong_rows)
    columns = {
        "tenant": fields.tenant,
        "topic_id": fields.topic_id,
        "topic": fields.topic,
        "partition": _int32(numbers["partition"]),
        "log_generation": _int64(numbers["log_generation"]),
        "end_offset": _int64(numbers["end_offset"]),
        "accepted_ms": _int64(numbers["accepted_ms"]),
        "totals": pa.ListArray.from_arrays(_offsets(fields.count, TOTALS), _int64(fields.totals.reshape(-1))),
        "principal_rows": fields.principal_rows,
        "reading_kind": _int32(numbers["kind"]),
        "cut_id": fields.cut_id,
        "cut_end_ms": _int64(numbers["cut_end_ms"]),
        "last": pa.array(numbers["last"] != 0),
    }
    return columns | _retained(numbers, found), found.reasons


class _Damage:
    """The first reason of each damaged reading, by its place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: dict[int, str] = {}

    def where(self, mask: _Mask, reason: Callable[[int], str]) -> None:
        for at in np.flatnonzero(mask).tolist():
            self.reasons.setdefault(at, reason(at))

    def named(self, reasons: Mapping[int, str]) -> None:
        for at, reason in reasons.items():
            self.reasons.setdefault(at, reason)

    def too_large(self, name: str, values: npt.NDArray[Any], most: int = _LONG_MAX) -> None:
        self.where(values > most, lambda at: f"{name} {values[at]} is too large")


def _totals(given: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.uint64], dict[int, str]]:
    """(six to a reading, which have not six by their place with the reason)."""
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    wrong = {at: _wrong_totals(given[at]) for at in np.flatnonzero(lengths != TOTALS).tolist()}
    if wrong:
        given = [one if len(one) == TOTALS else (0,) * TOTALS for one in given]
    flat = np.fromiter(chain.from_iterable(given), np.uint64, len(given) * TOTALS)
    return flat.reshape(-1, TOTALS), wrong


def _wrong_totals(totals: Sequence[int]) -> str:
    large = next((one for one in totals if one > _LONG_MAX), None)
    return f"{len(totals)} totals instead of {TOTALS}" if large is None else f"totals {large} is too large"


def _check_position(totals: npt.NDArray[np.uint64], of: Mapping[str, Any], found: _Damage) -> None:
    large = totals > _LONG_MAX
    if large.any():
        found.where(np.any(large, axis=1), lambda at: f"totals {totals[at][large[at].argmax()]} is too large")
    found.where((of["end_offset"] < 0) | (of["accepted_ms"] < -1), lambda _: "a negative offset or time")
    found.too_large("accepted_ms", of["accepted_ms"], TIME_MS_MAX)
    # One after the other: the sum of three may be more than 64 bits hold. What is too large already has its reason.
    left = of["end_offset"]
    exceeds = np.zeros(found.count, np.bool_)
    for counted in (0, 2, 4):
        left = np.where(exceeds, 0, left - totals[:, counted].astype(np.int64))
        exceeds |= left < 0
    found.where(exceeds, lambda _: "totals exceed the offsets below")
    timeless = of["accepted_ms"] < 0
    if timeless.any():
        found.where(timeless & (totals != 0).any(axis=1), lambda _: "usage without a time")


def _check_kind(fields: Fields, found: _Damage) -> None:
    kinds = fields.numbers["kind"]
    unknown = ~np.isin(kinds, ReadingKind.values())
    found.where(unknown, lambda at: f"an unknown kind of reading: {kinds[at]}")
    cut = kinds == CUT
    if cut.any():
        found.where(cut & _empty(fields.cut_id), lambda _: "a cut reading without its cut")
    last = fields.numbers["last"] != 0
    found.where(last & ~np.isin(kinds, (CUT, FINAL)), lambda _: "a last reading of another kind")


def _check_topic(fields: Fields, found: _Damage) -> None:
    sizes = _sizes(fields.topic_id) // 2
    found.where(sizes != TOPIC_ID_BYTES, lambda at: f"a topic id of {sizes[at]} bytes")
    found.where(_empty(fields.topic), lambda _: "no topic")
    found.too_large("partition", fields.numbers["partition"], _INT_MAX)


def _principal_rows(
    given: Sequence[Sequence[PrincipalRow]], accepted: Sequence[int]
) -> tuple[pa.ListArray, dict[int, str]]:
    """(the readings' rows of their own minutes, one for each principal, what is wrong by the reading's place). Rows of
    other minutes are not used.
    """
    bounds, rows, wrong = [0], [], {}
    for at, some in enumerate(given):
        if some:
            minute = minute_of(accepted[at])
            sums: dict[int, tuple[int, int]] = {}
            for row in some:
                if row.minute == minute:
                    messages, size = sums.get(row.principal, (0, 0))
                    sums[row.principal] = (messages + row.messages, size + row.bytes)
            # Of all principals: they are added up where they are compared with the totals.
            large = [one for one in map(sum, zip(*sums.values(), strict=True)) if one > _LONG_MAX]
            if large:
                wrong[at] = f"rows {large[0]} is too large"
                sums = {}
            rows += [(principal, *sums[principal]) for principal in sorted(sums)]
        bounds.append(len(rows))
    values = np.array(rows, np.int64).reshape(-1, 3)
    return principal_lists(bounds, *(values[:, at] for at in range(3))), wrong


def principal_lists(bounds: Any, *columns: npt.NDArray[np.int64]) -> pa.ListArray:
    """Lists of `PRINCIPAL_ROW` between these bounds."""
    arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
    struct = pa.StructArray.from_arrays(arrays, fields=list(PRINCIPAL_ROW))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), struct)


def _retained(numbers: Mapping[str, Any], found: _Damage) -> dict[str, pa.Array]:
    """What their leaderships have kept so far; nothing in readings of brokers that do not count it."""
    none = numbers["retained_since"] == 0
    if none.all():
        return {name: pa.nulls(found.count, kind) for name, kind in _RETAINED.items()}
    once, copies = numbers["retained_byte_minutes"], numbers["replicated_byte_minutes"]
    until = numbers["retained_until"]
    minutes = until - numbers["retained_since"]
    found.where(
        ~none & ((minutes < 0) | (minutes > RETAINED_MINUTES_MAX)),
        lambda at: f"what was kept in {minutes[at]} minutes",
    )
    found.where(~none & (until > MINUTE_MAX), lambda at: f"retained_until {until[at]} is too large")
    found.where(~none & (once > copies), lambda _: "less kept by all replicas than by one")
    found.where(~none & (copies > _LONG_MAX), lambda at: f"byte-minutes {copies[at]} is too large")
    values = {
        "leader_epoch": numbers["leader_epoch"],
        "retained_since": numbers["retained_since"],
        "retained_until": until,
        "byte_minutes": once.view(np.int64),
        "replicated_byte_minutes": copies.view(np.int64),
    }
    return {name: pa.array(values[name], mask=none).cast(kind) for name, kind in _RETAINED.items()}


def _sizes(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    return np.asarray(pc.binary_length(texts))


def _empty(texts: pa.StringArray) -> _Mask:
    """Which are empty."""
    return np.equal(_sizes(texts), 0)


def _offsets(count: int, size: int) -> pa.Array:
    return pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))


def _int32(values: npt.NDArray[Any]) -> pa.Array:
    """What does not fit belongs to damaged readings."""
    return pa.array(values.astype(np.int32))


def _int64(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values.view(np.int64))
