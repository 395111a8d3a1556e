"""The odometer: a fold of a partition's stamps, in offset order, to what metering reads (ARCHITECTURE, "Metering").

States of a batch: it counts where it stands, unless it is transactional; then it is open until the marker of
its producer id, and counts as committed or aborted there, in the marker's minute and for the principal who
sent it. The result is a function of the log's prefix alone, so every replica's is the same.

The encoding, big-endian, is the same for the same state:

    magic 4s "PSOD" | version H | end_offset q | last_accepted_ms q | totals 6q
    | minute q | segment_base q | before 6q | batch_count I | size q | first_accepted_ms q
    | row counts: minute I, segment I, open I
    | minute rows, segment rows: (minute I | principal I | messages q | bytes q)
    | open rows: (producer_id q | principal I | messages q | bytes q)
    | crc I

All rows are sorted. `crc` is CRC-32C of what stands before it, seeded as a stamp's is: with topic id and
partition.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Self

from penstock.contract.ids import TopicPartition
from penstock.contract.invariant import InvariantBroken, invariant
from penstock.records.batch import Buffer
from penstock.records.checksum import CHECKSUM_BYTES, checksum_holds, with_checksum
from penstock.records.seal import Seal
from penstock.records.stamp import Stamp, StampFlag
from penstock.records.usage import MINUTE_MS, MinuteRow, OdometerMark, OpenRow, Totals, minute_of

_MAGIC = b"PSOD"
VERSION = 1
_FIXED = struct.Struct(">4sHqq6qqq6qIqqIII")
_ROW = struct.Struct(">IIqq")
_OPEN = struct.Struct(">qIqq")

_COMMIT = int(StampFlag.CONTROL_COMMIT)
_MARKER = int(StampFlag.CONTROL_COMMIT | StampFlag.CONTROL_ABORT)
_IN_TRANSACTION = _MARKER | int(StampFlag.TRANSACTIONAL)
_FIRST_OF_SEGMENT = int(StampFlag.FIRST_OF_SEGMENT)
_CLEANED = int(StampFlag.CLEANED)
_NO_MINUTE = -1

_Sum = list[int]
"""[messages, bytes], added to in place."""


class OdometerCorrupt(Exception):
    """Bytes that are no odometer of this partition."""


class Odometer:
    """Totals of one partition up to `end_offset`, and what its next seal and its next reading need.

    Feed every stamp once, in order. `start_offset` above 0 is for a replica that begins there with no state,
    which then counts from there; otherwise the state travels with it (`encode`, `decode`).
    """

    __slots__ = (
        "_aborted",
        "_before",
        "_committed",
        "_control",
        "_minute",
        "_minute_rows",
        "_open",
        "_segment_rows",
        "batch_count",
        "end_offset",
        "first_accepted_ms",
        "last_accepted_ms",
        "segment_base",
        "size",
    )

    end_offset: int
    """First offset that is not counted yet."""
    last_accepted_ms: int
    """Acceptance of the last batch, -1 before the first."""
    segment_base: int
    """Where the segment of the last batch begins; -1 before the first."""
    batch_count: int
    """Batches of that segment so far."""
    size: int
    """Their bytes."""
    first_accepted_ms: int
    """Acceptance of its first batch."""

    def __init__(self, start_offset: int = 0) -> None:
        self.end_offset = start_offset
        self.last_accepted_ms = -1
        self._committed: _Sum = [0, 0]
        self._aborted: _Sum = [0, 0]
        self._control: _Sum = [0, 0]
        self._minute = _NO_MINUTE
        self._minute_rows: dict[int, _Sum] = {}
        self._open: dict[int, dict[int, _Sum]] = {}
        self.segment_base = -1
        self.batch_count = 0
        self.size = 0
        self.first_accepted_ms = -1
        self._before = Totals()
        self._segment_rows: dict[tuple[int, int], _Sum] = {}

    def apply(self, stamp: Stamp) -> None:
        """Count the next batch.

        Cleaned batches cannot be counted: what compaction left is not what was produced. Their partition's
        state is the one kept when they were written.
        """
        flags, accepted_ms, size = stamp.flags, stamp.accepted_ms, stamp.size
        if flags & _CLEANED or stamp.base_offset != self.end_offset or accepted_ms < self.last_accepted_ms:
            _refuse(stamp, self)
        minute = accepted_ms // MINUTE_MS
        if minute != self._minute:
            self._minute = minute
            self._minute_rows = {}
        if flags & _FIRST_OF_SEGMENT or self.segment_base < 0:
            self._begin_segment(stamp)
        if not flags & _IN_TRANSACTION:
            self._commit(stamp.principal, stamp.record_count, size)
        elif flags & _MARKER:
            _add(self._control, stamp.record_count, size)
            self._close(stamp.producer_id, committed=bool(flags & _COMMIT))
        else:
            rows = self._open.setdefault(stamp.producer_id, {})
            _add(rows.setdefault(stamp.principal, [0, 0]), stamp.record_count, size)
        self.batch_count += 1
        self.size += size
        self.last_accepted_ms = accepted_ms
        self.end_offset = stamp.base_offset + stamp.offset_span

    def _begin_segment(self, stamp: Stamp) -> None:
        self.segment_base = stamp.base_offset
        self.first_accepted_ms = stamp.accepted_ms
        self.batch_count = self.size = 0
        self._before = self.totals
        self._segment_rows = {}

    def _close(self, producer_id: int, *, committed: bool) -> None:
        for principal, (messages, size) in self._open.pop(producer_id, {}).items():
            if committed:
                self._commit(principal, messages, size)
            else:
                _add(self._aborted, messages, size)

    def _commit(self, principal: int, messages: int, size: int) -> None:
        committed = self._committed
        committed[0] += messages
        committed[1] += size
        row = self._minute_rows.get(principal)
        if row is None:
            row = self._minute_rows[principal] = [0, 0]
        row[0] += messages
        row[1] += size
        key = (self._minute, principal)
        row = self._segment_rows.get(key)
        if row is None:
            row = self._segment_rows[key] = [0, 0]
        row[0] += messages
        row[1] += size

    @property
    def totals(self) -> Totals:
        """Running totals at `end_offset`."""
        return Totals.from_tuple((*self._committed, *self._aborted, *self._control))

    @property
    def minute_rows(self) -> tuple[MinuteRow, ...]:
        """What counted so far in the minute of the last batch, by principal."""
        rows = sorted(self._minute_rows.items())
        return tuple(MinuteRow(self._minute, principal, *counted) for principal, counted in rows)

    @property
    def segment_rows(self) -> tuple[MinuteRow, ...]:
        """What counted so far in the segment of the last batch, by minute and principal."""
        return tuple(MinuteRow(*key, *counted) for key, counted in sorted(self._segment_rows.items()))

    @property
    def open_rows(self) -> tuple[OpenRow, ...]:
        """What stands in open transactions, by producer id and principal."""
        return tuple(
            OpenRow(producer, principal, *counted)
            for producer, rows in sorted(self._open.items())
            for principal, counted in sorted(rows.items())
        )

    @property
    def open_transactions(self) -> dict[int, tuple[int, int]]:
        """(messages, bytes) of each producer id whose transaction is open, by id."""
        return {
            producer: (sum(row[0] for row in rows.values()), sum(row[1] for row in rows.values()))
            for producer, rows in sorted(self._open.items())
        }

    def mark(self) -> OdometerMark:
        """The odometer as it stands, for a reading."""
        return OdometerMark(
            end_offset=self.end_offset,
            accepted_ms=self.last_accepted_ms,
            totals=self.totals,
            minute_rows=self.minute_rows,
        )

    @classmethod
    def resumed(cls, seals: Sequence[Seal]) -> Self:
        """The state at the end of the last of `seals` (oldest first), for when the kept state is lost.

        It is the very state if the seals reach back without a gap to before the last minute or to where counting
        began; else the minute's rows lack what is missing.
        """
        last = seals[-1]
        self = cls(last.end_offset)
        self.last_accepted_ms = last.last_accepted_ms
        self.first_accepted_ms = last.first_accepted_ms
        self.segment_base = last.base_offset
        self.batch_count = last.batch_count
        self.size = last.size
        self._set_totals(last.totals)
        self._before = last.before
        self._segment_rows = {(row.minute, row.principal): [row.messages, row.bytes] for row in last.rows}
        for open_row in last.open_rows:
            rows = self._open.setdefault(open_row.producer_id, {})
            rows[open_row.principal] = [open_row.messages, open_row.bytes]
        self._minute = minute_of(last.last_accepted_ms)
        begins = last.end_offset
        for seal in reversed(seals):
            if seal.end_offset != begins or minute_of(seal.last_accepted_ms) < self._minute:
                break
            for row in seal.rows:
                if row.minute == self._minute:
                    _add(self._minute_rows.setdefault(row.principal, [0, 0]), row.messages, row.bytes)
            begins = seal.base_offset
        return self

    def _set_totals(self, totals: Totals) -> None:
        numbers = totals.as_tuple()
        self._committed = list(numbers[:2])
        self._aborted = list(numbers[2:4])
        self._control = list(numbers[4:])

    def seal(self, where: TopicPartition, digest: bytes, log_generation: int = 0) -> Seal:
        """Seal of the segment of the last batch. Ask before the first batch of the next segment is applied."""
        return Seal(
            where=where,
            log_generation=log_generation,
            base_offset=self.segment_base,
            end_offset=self.end_offset,
            batch_count=self.batch_count,
            size=self.size,
            first_accepted_ms=self.first_accepted_ms,
            last_accepted_ms=self.last_accepted_ms,
            before=self._before,
            totals=self.totals,
            rows=self.segment_rows,
            open_rows=self.open_rows,
            digest=digest,
        )

    def encode(self, seed: int) -> bytes:
        """The state as bytes. `seed` is `stamp_seed` of the partition."""
        minute_rows, segment_rows = self.minute_rows, self.segment_rows
        open_rows = [
            _OPEN.pack(row.producer_id, row.principal, row.messages, row.bytes) for row in self.open_rows
        ]
        fixed = _FIXED.pack(
            _MAGIC, VERSION, self.end_offset, self.last_accepted_ms, *self.totals.as_tuple(),
            self._minute, self.segment_base, *self._before.as_tuple(),
            self.batch_count, self.size, self.first_accepted_ms,
            len(minute_rows), len(segment_rows), len(open_rows),
        )  # fmt: skip
        rows = [
            _ROW.pack(row.minute, row.principal, row.messages, row.bytes)
            for row in (*minute_rows, *segment_rows)
        ]
        body = b"".join([fixed, *rows, *open_rows])
        return with_checksum(body, seed)

    @classmethod
    def decode(cls, data: Buffer, seed: int) -> Self:
        """The state that `encode` wrote for this partition. Raises `OdometerCorrupt`."""
        view = memoryview(data)
        if len(view) < _FIXED.size + CHECKSUM_BYTES:
            raise OdometerCorrupt(
                f"odometer: {len(view)} bytes, {_FIXED.size + CHECKSUM_BYTES} or more required"
            )
        body = view[:-CHECKSUM_BYTES]
        if not checksum_holds(view, 0, len(body), seed):
            raise OdometerCorrupt("odometer: its checksum does not hold for this partition")
        magic, version, *fields = _FIXED.unpack_from(body)
        if magic != _MAGIC or version != VERSION:
            raise OdometerCorrupt(
                f"odometer: magic {magic!r} version {version}, {_MAGIC!r} version {VERSION} required"
            )
        counts = fields[-3:]
        wanted = _FIXED.size + (counts[0] + counts[1]) * _ROW.size + counts[2] * _OPEN.size
        if wanted != len(body):
            raise OdometerCorrupt(
                f"odometer: {len(body)} bytes before the checksum, {wanted} required by its counts"
            )
        try:
            return cls._decoded(fields, body[_FIXED.size :])
        except InvariantBroken as error:
            raise OdometerCorrupt(f"odometer: {error}") from error

    @classmethod
    def _decoded(cls, fields: list[int], rows: memoryview) -> Self:
        self = cls(fields[0])
        self.last_accepted_ms = fields[1]
        self._set_totals(Totals.from_tuple(tuple(fields[2:8])))
        self._minute, self.segment_base = fields[8:10]
        self._before = Totals.from_tuple(tuple(fields[10:16]))
        self.batch_count, self.size, self.first_accepted_ms = fields[16:19]
        minute_count, segment_count, _ = fields[19:]
        for minute, principal, *counted in _rows(_ROW, rows, 0, minute_count):
            invariant(minute == self._minute, "minute rows are of one minute")
            self._minute_rows[principal] = counted
        at = minute_count * _ROW.size
        for minute, principal, *counted in _rows(_ROW, rows, at, segment_count):
            self._segment_rows[minute, principal] = counted
        at += segment_count * _ROW.size
        for producer, principal, *counted in _OPEN.iter_unpack(rows[at:]):
            self._open.setdefault(producer, {})[principal] = counted
        return self


def _refuse(stamp: Stamp, odometer: Odometer) -> None:
    invariant(not stamp.flags & _CLEANED, "the odometer counts batches as they were produced")
    invariant(stamp.base_offset == odometer.end_offset, "the odometer counts each batch once, in order")
    invariant(stamp.accepted_ms >= odometer.last_accepted_ms, "acceptance times do not decrease")


def _add(counted: _Sum, messages: int, size: int) -> None:
    counted[0] += messages
    counted[1] += size


def _rows(layout: struct.Struct, rows: memoryview, at: int, count: int) -> Iterator[tuple[int, ...]]:
    return layout.iter_unpack(rows[at : at + count * layout.size])
