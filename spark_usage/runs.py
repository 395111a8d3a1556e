"""Runs: orderly readings of one log, folded where they are decoded, so that Spark sees their ends and sums only.

A *chunk* is readings of records that follow each other in `__usage`. In it a log's readings are *orderly* when, as they
came, offset, totals and time never fall, generation and names stay, and equal positions say the same. Neighbouring
orderly readings are one run; a cut, a start of a generation or a final reading ends it. A run becomes

- its first and last reading (`run_first`, `run_last`), which stand among other readings as `readings` orders them,
- a row for each hour with what was gained between neighbours (`run_hour`), as `readings.intervals_of` has it:
  its `base_offset` is where it begins, its `principal_rows` are its shares,
- points of what leaderships kept (`kept`),
- all of its readings and its sums by minute in staged files (`staged`, `file` below the given folder).

Whether a run holds beside the log's other readings is for `orderly` to say. Readings outside of runs are facts as in
`decode`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from data_plane.contract.usage_pb2 import CUT, FINAL, GENERATION_START
from penstock.records.usage import MINUTE_MS
from penstock.rules.timestamps import DAY_MS
from spark_usage.datasets import READING
from spark_usage.decode import BRONZE_COLUMNS, FACTS, facts_of
from spark_usage.decoded_readings import TOTALS, principal_lists
from spark_usage.records_read import Source, Work

READINGS_A_CHUNK = 500_000
"""Some 300 MB in a worker."""
READINGS_A_RUN = 64
"""Fewer stay single: a round of some minutes has no runs, and none of their jobs."""
STAGED_READINGS, STAGED_MINUTES = READING.name, "minute"
_READ = pa.schema([FACTS.field(name) for name in READING.names])
_MINUTES = pa.schema(
    [
        ("tenant", pa.string()),
        ("topic_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("minute", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
STAGED = {STAGED_READINGS: _READ, STAGED_MINUTES: _MINUTES}
"""The columns of staged files by what they hold, which is their folder; below it is the day."""
_NAMES = ("tenant", "topic_id", "topic", "partition", "log_generation")
_ROWS_A_BATCH = 10_000
_KEPT = ("leader_epoch", "broker_id", "boot_id", "retained_since", "retained_until")
_Longs = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def condense(source: Source, begins: Mapping[str, int], staging: Path) -> DataFrame:
    """The facts of the records from these offsets on, with runs; `staging` is a folder that all workers see."""
    return source.worked(begins, _condensing(staging, READINGS_A_CHUNK, READINGS_A_RUN), FACTS)


def _condensing(staging: Path, a_chunk: int, a_run: int) -> Work:
    def condensed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[_Stretch] = []
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in BRONZE_COLUMNS]
            rows = sorted(zip(*columns, strict=True), key=lambda row: row[:2])
            for _, neighbours in groupby(enumerate(rows), key=lambda one: (one[1][0], one[1][1] - one[0])):
                records = [row for _, row in neighbours]
                stretch = _Stretch(records[0][0], records[0][1], records[-1][1] + 1)
                for facts in facts_of(records):
                    if facts.num_rows and facts.column("kind")[0].as_py() == "reading":
                        stretch.readings.append(facts.select(_READ.names))
                    else:
                        yield facts
                waiting.append(stretch)
            if sum(stretch.count for stretch in waiting) >= a_chunk:
                yield from _chunks(waiting, staging, a_run)
                waiting = []
        yield from _chunks(waiting, staging, a_run)

    return condensed


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Records that follow each other in a partition of `__usage`, from `first` up to `end`."""

    partition: int
    first: int
    end: int
    readings: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(batch.num_rows for batch in self.readings)


def _chunks(stretches: list[_Stretch], staging: Path, a_run: int) -> Iterator[pa.RecordBatch]:
    """Spark gives the files of bronze to tasks by size, not by age: stretches that follow each other are one chunk."""
    chunk = Chunk(staging, a_run)
    follows = (-1, 0)
    for stretch in sorted(stretches, key=lambda one: (one.partition, one.first)):
        if follows != (stretch.partition, stretch.first):
            yield from chunk.facts()
        chunk.add(stretch.readings)
        follows = (stretch.partition, stretch.end)
    yield from chunk.facts()


class Chunk:
    """Readings in the order in which they came, which become runs and single readings."""

    def __init__(self, staging: Path, a_run: int = READINGS_A_RUN) -> None:
        self._staging = staging
        self._a_run = a_run
        self._batches: list[pa.RecordBatch] = []

    def add(self, readings: Iterable[pa.RecordBatch]) -> None:
        """Columns of the data set `reading`."""
        self._batches += readings

    def facts(self) -> Iterator[pa.RecordBatch]:
        """Of all readings that were added; then the chunk is empty."""
        batches, self._batches = self._batches, []
        if not batches:
            return
        table = _encoded(pa.Table.from_batches(batches, _READ).combine_chunks())
        log, order = _by_log(table)
        inside, starts = _runs(table, log, order, self._a_run)
        if not len(starts):
            yield from _facts("reading", table)
            return
        if not inside.all():
            # As they came: what is counted once is the first of them.
            yield from _facts("reading", table.take(pa.array(np.sort(order[~inside]))))
        yield from _Runs(table.take(pa.array(order[inside])), starts).facts(self._staging)


def _encoded(table: pa.Table) -> pa.Table:
    """With texts, of which few differ, as numbers: a third of the time to put readings in order."""
    for at, one in enumerate(table.schema):
        if pa.types.is_string(one.type):
            encoded = table.column(at).combine_chunks().dictionary_encode()
            table = table.set_column(at, one.name, encoded)
    return table


def _by_log(table: pa.Table) -> tuple[_Longs, _Longs]:
    """(a number for the log of each reading in order of logs, where these readings are)."""
    topics = _codes(table, "topic_id")
    log = topics << 31 | _numbers(table, "partition")
    order = np.argsort(log, kind="stable")
    return log[order], order


def _runs(table: pa.Table, log: _Longs, order: _Longs, a_run: int) -> tuple[_Mask, _Longs]:
    """(which readings by log are in runs, where each run starts among these)."""
    offsets, accepted = (_numbers(table, name)[order] for name in ("end_offset", "accepted_ms"))
    kinds = _numbers(table, "reading_kind")[order]
    totals = _totals(table)[order]
    alone = np.isin(kinds, (CUT, FINAL, GENERATION_START)) | (accepted < 0)
    begins = np.ones(len(log), np.bool_)
    begins[1:] = (log[1:] != log[:-1]) | alone[1:] | alone[:-1]
    further, gained = np.diff(offsets), np.diff(totals, axis=0)
    disorder = np.zeros(len(log), np.bool_)
    disorder[1:] = (further < 0) | (gained < 0).any(axis=1) | (np.diff(accepted) < 0)
    for values in (_numbers(table, "log_generation"), _codes(table, "tenant"), _codes(table, "topic")):
        disorder[1:] |= np.diff(values[order]) != 0
    same = np.flatnonzero(~begins[1:] & (further == 0)) + 1
    if len(same):
        disorder[same] |= (gained[same - 1] != 0).any(axis=1) | (accepted[same] != accepted[same - 1])
        disorder[same] |= _differ(table["principal_rows"], order[same], order[same - 1])
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(log))
    holds = ~np.bitwise_or.reduceat(disorder & ~begins, starts)
    holds &= (ends - starts >= a_run) & (offsets[ends - 1] > offsets[starts])
    inside = np.repeat(holds, ends - starts)
    lengths = (ends - starts)[holds]
    return inside, np.cumsum(lengths) - lengths


def _differ(rows: pa.ChunkedArray, here: _Longs, there: _Longs) -> _Mask:
    """Where lists differ."""
    pairs = zip(rows.take(pa.array(here)).to_pylist(), rows.take(pa.array(there)).to_pylist(), strict=True)
    return np.array([one != other for one, other in pairs], np.bool_)


class _Runs:
    """Readings of runs, one run after the other."""

    def __init__(self, table: pa.Table, starts: _Longs) -> None:
        self._table = table
        self._starts = starts
        self._ends = np.append(starts[1:], table.num_rows)
        self._offsets, self._accepted = (_numbers(table, name) for name in ("end_offset", "accepted_ms"))
        self._minute = self._accepted // MINUTE_MS
        self._run = np.repeat(np.arange(len(starts)), self._ends - starts)
        self._first = np.zeros(table.num_rows, np.bool_)
        self._first[starts] = True
        self._gained = np.diff(_totals(table)[:, :2], axis=0, prepend=0)
        """By each reading since the one before, which is of another run where a run begins."""
        self._steps = np.flatnonzero(~self._first)
        """Readings that end an interval of their run."""

    def facts(self, staging: Path) -> Iterator[pa.RecordBatch]:
        yield from _facts("run_first", self._table.take(pa.array(self._starts)))
        last = self._table.take(pa.array(self._ends - 1))
        yield from _facts("run_last", last, base_offset=pa.array(self._offsets[self._starts]))
        yield from self._hours()
        yield from self._kept()
        yield from _staged(staging, STAGED_READINGS, self._table, self._days())
        minutes = self._minutes()
        yield from _staged(
            staging, STAGED_MINUTES, minutes, _numbers(minutes, "minute") * MINUTE_MS // DAY_MS
        )

    def _days(self) -> _Longs:
        """As windows of the data set `reading` are."""
        until = _numbers(self._table, "retained_until")
        return np.maximum(self._accepted, until * MINUTE_MS) // DAY_MS

    def _pieces(self, minutes: int) -> tuple[_Longs, _Longs, _Longs]:
        """Steps of the same run and the same so many minutes: (where each begins among the steps, its last reading,
        what it gained).
        """
        run, time = self._run[self._steps], self._minute[self._steps] // minutes
        begins = np.ones(len(run), np.bool_)
        begins[1:] = (run[1:] != run[:-1]) | (time[1:] != time[:-1])
        starts = np.flatnonzero(begins)
        lasts = self._steps[np.append(starts[1:], len(run)) - 1]
        return starts, lasts, np.add.reduceat(self._gained[self._steps], starts, axis=0)

    def _hours(self) -> Iterator[pa.RecordBatch]:
        starts, lasts, gained = self._pieces(60)
        piece = np.zeros(self._table.num_rows, np.int64)
        piece[self._steps] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(self._steps))))
        yield from _facts(
            "run_hour",
            self._table.take(pa.array(lasts)).select((*_NAMES, "end_offset", "accepted_ms")),
            base_offset=pa.array(self._offsets[self._steps[starts] - 1]),
            messages=pa.array(np.ascontiguousarray(gained[:, 0])),
            bytes=pa.array(np.ascontiguousarray(gained[:, 1])),
            principal_rows=self._shares(piece, gained),
        )

    def _shares(self, piece: _Longs, gained: _Longs) -> pa.ListArray:
        """By piece and principal what rows explain, and the rest for principal 0: the sums of what
        `readings.intervals_of` finds by interval. `piece`: of each reading; `gained`: of each piece.
        """
        of, who, values = self._explained()
        names, codes = np.unique(who, return_inverse=True)
        key, at = np.unique(piece[of] * max(1, len(names)) + codes, return_inverse=True)
        sums = np.zeros((len(key), 2), np.int64)
        np.add.at(sums, at, values)
        rest = gained.copy()
        np.subtract.at(rest, piece[of], values)
        pieces = np.concatenate([np.arange(len(gained)), key // max(1, len(names))])
        principals = np.concatenate([np.zeros(len(gained), np.int64), names[key % max(1, len(names))]])
        order = np.argsort(pieces, kind="stable")
        amounts = np.concatenate([rest, sums])[order]
        bounds = np.searchsorted(pieces[order], np.arange(len(gained) + 1))
        return principal_lists(bounds, principals[order], amounts[:, 0], amounts[:, 1])

    def _explained(self) -> tuple[_Longs, _Longs, _Longs]:
        """(reading, principal, messages and bytes) of rows of steps less those of the reading before in the same
        minute; not of a reading one of whose rows falls, or whose rows exceed what it gained.
        """
        lists = self._table["principal_rows"].combine_chunks()
        bounds = np.asarray(lists.offsets).astype(np.int64)
        rows = lists.values.flatten()
        who, *columns = (np.asarray(column).astype(np.int64) for column in rows)
        values = np.stack(columns, axis=1)[bounds[0] : bounds[-1]]
        who, bounds = who[bounds[0] : bounds[-1]], bounds - bounds[0]
        of = np.repeat(np.arange(self._table.num_rows), np.diff(bounds))
        if not len(of):
            return of, who, values
        names, codes = np.unique(who, return_inverse=True)
        # Rows of a reading are in the order of principals, so the keys are in order.
        key = of * len(names) + codes
        before = np.minimum(np.searchsorted(key, key - len(names)), len(key) - 1)
        continued = ~self._first
        continued[1:] &= self._minute[1:] == self._minute[:-1]
        found = (key[before] == key - len(names)) & continued[of]
        left = values - np.where(found[:, None], values[before], 0)
        sums = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(left, axis=0)])
        fits = (sums[bounds[1:]] - sums[bounds[:-1]] <= self._gained).all(axis=1) & ~self._first
        fits[of[(left < 0).any(axis=1)]] = False
        used = fits[of]
        return of[used], who[used], left[used]

    def _minutes(self) -> pa.Table:
        _, lasts, gained = self._pieces(1)
        some = (gained != 0).any(axis=1)
        lasts, gained = lasts[some], gained[some]
        columns = {name: self._table[name].take(pa.array(lasts)) for name in _NAMES[:4]}
        columns |= {
            "minute": pa.array(self._minute[lasts]),
            "messages": pa.array(np.ascontiguousarray(gained[:, 0])),
            "bytes": pa.array(np.ascontiguousarray(gained[:, 1])),
        }
        return pa.table({name: columns[name] for name in _MINUTES.names})

    def _kept(self) -> Iterator[pa.RecordBatch]:
        """Of neighbours that are the same point of a leadership the smallest totals, as in `leaderships.points_of`."""
        counts = self._table["retained_since"].is_valid()
        if not pc.any(counts).as_py():
            return
        some = self._table.filter(counts)
        run = self._run[np.asarray(counts)]
        begins = np.ones(len(run), np.bool_)
        begins[1:] = run[1:] != run[:-1]
        for name in _KEPT:
            values = _codes(some, name) if name == "boot_id" else _numbers(some, name)
            begins[1:] |= values[1:] != values[:-1]
        starts = np.flatnonzero(begins)
        least = {
            name: pa.array(np.minimum.reduceat(_numbers(some, name), starts))
            for name in ("byte_minutes", "replicated_byte_minutes")
        }
        yield from _facts("kept", some.take(pa.array(starts)), **least)


def _staged(staging: Path, name: str, table: pa.Table, days: _Longs) -> Iterator[pa.RecordBatch]:
    """Rows in files by day. A task that is repeated leaves files that no fact names."""
    of_days = np.unique(days).tolist()
    for day in of_days:
        window = np.datetime64(day, "D").astype(str)
        file = Path(name, window, f"{uuid4().hex}.parquet")
        (staging / file).parent.mkdir(parents=True, exist_ok=True)
        rows = table.filter(pa.array(days == day)) if len(of_days) > 1 else table
        pq.write_table(rows, staging / file, compression="zstd", store_schema=False)
        yield from _facts("staged", pa.table({"file": [str(file)], "messages": [rows.num_rows]}))


def _facts(kind: str, table: pa.Table, **others: pa.Array) -> Iterator[pa.RecordBatch]:
    """Facts of this kind with the table's columns, `others` instead of them or beside them."""
    rows = table.num_rows
    of = {name: table[name].combine_chunks() for name in table.column_names}
    of = {
        name: column.cast(FACTS.field(name).type) if pa.types.is_dictionary(column.type) else column
        for name, column in of.items()
    }
    of |= {**others, "kind": pa.repeat(pa.scalar(kind), rows)}
    arrays = [of[field.name] if field.name in of else pa.nulls(rows, field.type) for field in FACTS]
    whole = pa.RecordBatch.from_arrays(arrays, schema=FACTS)
    for begin in range(0, rows, _ROWS_A_BATCH):
        yield whole.slice(begin, _ROWS_A_BATCH)


def _numbers(table: pa.Table, name: str) -> _Longs:
    """0 where there is none."""
    column = table[name].combine_chunks()
    return np.asarray(pc.fill_null(column, 0) if column.null_count else column).astype(np.int64, copy=False)


def _codes(table: pa.Table, name: str) -> _Longs:
    """A number for each text, the same for the same. `table`: as `_encoded` has it."""
    return np.asarray(table[name].combine_chunks().indices).astype(np.int64)


def _totals(table: pa.Table) -> _Longs:
    """Six columns."""
    flat = table["totals"].combine_chunks().flatten()
    return np.asarray(flat).reshape(-1, TOTALS)
