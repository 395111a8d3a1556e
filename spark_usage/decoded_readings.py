"""Readings of many records as columns: each field once for all of them, and what is damaged found column by column."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
_RETAINED = {
    "leader_epoch": pa.int32(), "retained_since": pa.int64(), "retained_until": pa.int64(),
    "byte_minutes": pa.int64(), "replicated_byte_minutes": pa.int64(),
}  # fmt: skip
PRINCIPAL_ROW = pa.struct([("principal", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64())])
_fields_of: Callable[[Reading], tuple[Any, ...]] = attrgetter(*_FIELDS)
_Mask = npt.NDArray[np.bool_]


class Readings:
    """Readings in the order in which they were added."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, readings: Iterable[Reading]) -> None:
        self._rows += map(_fields_of, readings)

    def columns(self) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """(columns of `decode.FACTS` of all readings, those that are damaged by their place with the reason). What the
        columns say of damaged ones is nothing to use.
        """
        of = dict(zip(_FIELDS, zip(*self._rows, strict=True), strict=True))
        found = _Damage(len(self._rows))
        unsigned = {
            name: np.array(of[name], np.uint64)
            for name in ("log_generation", "retained_byte_minutes", "replicated_byte_minutes")
        }
        signed = {
            name: np.array(of[name], np.int64)
            for name in (
                "partition", "end_offset", "accepted_ms", "kind", "cut_end_ms", "leader_epoch",
                "retained_since", "retained_until",
            )
        }  # fmt: skip
        found.where(_empty(of["tenant"]), lambda _: "no tenant")
        totals = _totals(of["totals"], found)
        _check_position(totals, signed, found)
        _check_kind(of, signed["kind"], found)
        _check_topic(of, signed["partition"], found)
        found.too_large("log_generation", unsigned["log_generation"])
        rows = _principal_rows(of["minute_rows"], of["accepted_ms"], found)
        columns = {
            "tenant": pa.array(of["tenant"], pa.string()),
            "topic_id": pa.array([one.hex() for one in of["topic_id"]], pa.string()),
            "topic": pa.array(of["topic"], pa.string()),
            "partition": _int32(signed["partition"]),
            "log_generation": _int64(unsigned["log_generation"]),
            "end_offset": pa.array(signed["end_offset"]),
            "accepted_ms": pa.array(signed["accepted_ms"]),
            "totals": pa.ListArray.from_arrays(_offsets(len(self._rows), TOTALS), _int64(totals.reshape(-1))),
            "principal_rows": rows,
            "reading_kind": _int32(signed["kind"]),
            "cut_id": pa.array(of["cut_id"], pa.string()),
            "cut_end_ms": pa.array(signed["cut_end_ms"]),
            "last": pa.array(of["last"], pa.bool_()),
        }
        return columns | _retained(signed, unsigned, found), found.reasons


class _Damage:
    """The first reason of each damaged reading, by its place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: dict[int, str] = {}

    def where(self, mask: _Mask, reason: Callable[[int], str]) -> None:
        for at in np.flatnonzero(mask).tolist():
            self.reasons.setdefault(at, reason(at))

    def too_large(self, name: str, values: npt.NDArray[Any], most: int = _LONG_MAX) -> None:
        self.where(values > most, lambda at: f"{name} {values[at]} is too large")


def _totals(given: Sequence[Sequence[int]], found: _Damage) -> npt.NDArray[np.uint64]:
    """Six to a reading; 0 where there are not six."""
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    wrong = lengths != TOTALS
    if wrong.any():
        found.where(wrong, lambda at: _wrong_totals(given[at]))
        given = [one if len(one) == TOTALS else (0,) * TOTALS for one in given]
    flat = np.fromiter(chain.from_iterable(given), np.uint64, len(given) * TOTALS)
    totals = flat.reshape(-1, TOTALS)
    large = totals > _LONG_MAX
    if large.any():
        found.where(np.any(large, axis=1), lambda at: f"totals {totals[at][large[at].argmax()]} is too large")
    return totals


def _wrong_totals(totals: Sequence[int]) -> str:
    large = next((one for one in totals if one > _LONG_MAX), None)
    return f"{len(totals)} totals instead of {TOTALS}" if large is None else f"totals {large} is too large"


def _check_position(
    totals: npt.NDArray[np.uint64], of: dict[str, npt.NDArray[np.int64]], found: _Damage
) -> None:
    found.where((of["end_offset"] < 0) | (of["accepted_ms"] < -1), lambda _: "a negative offset or time")
    found.too_large("accepted_ms", of["accepted_ms"], TIME_MS_MAX)
    # One after the other: the sum of three may be more than 64 bits hold. What is too large already has its reason.
    left = of["end_offset"]
    exceeds = np.zeros(found.count, np.bool_)
    for counted in (0, 2, 4):
        left = np.where(exceeds, 0, left - totals[:, counted].astype(np.int64))
        exceeds |= left < 0
    found.where(exceeds, lambda _: "totals exceed the offsets below")
    found.where((of["accepted_ms"] < 0) & (totals != 0).any(axis=1), lambda _: "usage without a time")


def _check_kind(of: dict[str, Any], kinds: npt.NDArray[np.int64], found: _Damage) -> None:
    unknown = ~np.isin(kinds, ReadingKind.values())
    found.where(unknown, lambda at: f"an unknown kind of reading: {kinds[at]}")
    cut = kinds == CUT
    if cut.any():
        found.where(cut & _empty(of["cut_id"]), lambda _: "a cut reading without its cut")
    last = np.array(of["last"], np.bool_)
    found.where(last & ~np.isin(kinds, (CUT, FINAL)), lambda _: "a last reading of another kind")


def _check_topic(of: dict[str, Any], partitions: npt.NDArray[np.int64], found: _Damage) -> None:
    ids = of["topic_id"]
    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    found.where(sizes != TOPIC_ID_BYTES, lambda at: f"a topic id of {sizes[at]} bytes")
    found.where(_empty(of["topic"]), lambda _: "no topic")
    found.too_large("partition", partitions, _INT_MAX)


def _principal_rows(
    given: Sequence[Sequence[PrincipalRow]], accepted: Sequence[int], found: _Damage
) -> pa.ListArray:
    """The readings' rows of their own minutes, one for each principal. Rows of other minutes are not used."""
    offsets, rows = [0], []
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
                found.reasons.setdefault(at, f"rows {large[0]} is too large")
                sums = {}
            rows += [(principal, *sums[principal]) for principal in sorted(sums)]
        offsets.append(len(rows))
    values = np.array(rows, np.int64).reshape(-1, 3)
    struct = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(values[:, at])) for at in range(3)], fields=list(PRINCIPAL_ROW)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct)


def _retained(
    signed: dict[str, npt.NDArray[np.int64]], unsigned: dict[str, npt.NDArray[np.uint64]], found: _Damage
) -> dict[str, pa.Array]:
    """What their leaderships have kept so far; nothing in readings of brokers that do not count it."""
    none = signed["retained_since"] == 0
    if none.all():
        return {name: pa.nulls(found.count, kind) for name, kind in _RETAINED.items()}
    once, copies = unsigned["retained_byte_minutes"], unsigned["replicated_byte_minutes"]
    minutes = signed["retained_until"] - signed["retained_since"]
    found.where(
        ~none & ((minutes < 0) | (minutes > RETAINED_MINUTES_MAX)),
        lambda at: f"what was kept in {minutes[at]} minutes",
    )
    found.too_large("retained_until", signed["retained_until"], MINUTE_MAX)
    found.where(~none & (once > copies), lambda _: "less kept by all replicas than by one")
    found.where(~none & (copies > _LONG_MAX), lambda at: f"byte-minutes {copies[at]} is too large")
    values = {
        "leader_epoch": signed["leader_epoch"],
        "retained_since": signed["retained_since"],
        "retained_until": signed["retained_until"],
        "byte_minutes": once.view(np.int64),
        "replicated_byte_minutes": copies.view(np.int64),
    }
    return {name: pa.array(values[name], mask=none).cast(kind) for name, kind in _RETAINED.items()}


def _empty(values: Sequence[str]) -> _Mask:
    """Which are empty."""
    return np.equal(np.fromiter(map(len, values), np.int64, len(values)), 0)


def _offsets(count: int, size: int) -> pa.Array:
    return pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))


def _int32(values: npt.NDArray[np.int64]) -> pa.Array:
    """What does not fit belongs to damaged readings."""
    return pa.array(values.astype(np.int32))


def _int64(values: npt.NDArray[np.uint64]) -> pa.Array:
    return pa.array(values.view(np.int64))
