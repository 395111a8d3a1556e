"""Producer state of one partition: who may append which sequence next, and what a retry was answered (RL61 to RL66).

The state is a function of the log's prefix, so it is the same on every replica. A producer is forgotten only when the
table is full and the log's last acceptance time is the idle time or more after the producer's own last batch: a clock
that jumps ahead must not make a retry look like a new batch (RL8, RL64).
"""

import struct
from collections.abc import Callable
from typing import Protocol

from data_plane.log.outcomes import Duplicate
from data_plane.log.small_file import SmallFileCorrupt
from penstock.contract import limits
from penstock.contract.errors import LimitExceeded, OutOfOrderSequence, ProducerFenced, UnknownProducer
from penstock.contract.ids import NO_PRODUCER_ID

_WINDOW = limits.IN_FLIGHT_BATCHES_PER_PRODUCER
_SEQUENCE_MASK = 0x7FFFFFFF
NO_SEQUENCE = -1

Remembered = tuple[int, int, int, int]
"""first sequence, last sequence, base offset, acceptance time (ms)."""
Producer = tuple[int, int, int, tuple[Remembered, ...]]
"""epoch, last sequence, last acceptance time (ms), newest batches, oldest first. Replaced, never changed: copies
share it."""

_PRODUCER = struct.Struct(">qhiqB")
_REMEMBERED = struct.Struct(">iiqq")
_COUNT = struct.Struct(">I")


class SequencedBatch(Protocol):
    """What both a batch's header and its stamp say."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def offset_span(self) -> int: ...


class Producers:
    """Table of the producers of one partition."""

    __slots__ = ("_idle_ms", "_table", "_table_max")

    def __init__(
        self,
        table: dict[int, Producer] | None = None,
        *,
        table_max: int = limits.PRODUCERS_PER_PARTITION_MAX,
        idle_ms: int = limits.PRODUCER_IDLE_MS_MIN,
    ) -> None:
        self._table = {} if table is None else table
        self._table_max = table_max
        self._idle_ms = idle_ms

    def copy(self) -> "Producers":
        """An independent table; cheap, since entries are never changed in place."""
        return Producers(self._table.copy(), table_max=self._table_max, idle_ms=self._idle_ms)

    def below(self, offset: int) -> "Producers":
        """What the table held at `offset`, as far as it still tells: producers with a remembered batch below it."""
        table: dict[int, Producer] = {}
        for producer_id, (epoch, last, accepted_ms, window) in self._table.items():
            known = tuple(batch for batch in window if batch[2] < offset)
            if known:
                table[producer_id] = (epoch, known[-1][1], known[-1][3], known)
            elif not window:
                table[producer_id] = (epoch, last, accepted_ms, ())
        return Producers(table, table_max=self._table_max, idle_ms=self._idle_ms)

    def __len__(self) -> int:
        return len(self._table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Producers) and self._table == other._table

    __hash__ = None  # type: ignore[assignment]

    def check(
        self, batch: SequencedBatch, last_accepted_ms: int, name: Callable[[], str]
    ) -> Duplicate | None:
        """May `batch` be appended now? None: yes. `name` gives the partition's name for messages."""
        producer_id = batch.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        entry = self._table.get(producer_id)
        first = batch.base_sequence
        if entry is None:
            self._check_unknown(batch, last_accepted_ms, name)
            return None
        epoch, last, _, window = entry
        if batch.producer_epoch < epoch:
            raise ProducerFenced(
                f"{name()}: producer {producer_id} sends in epoch {batch.producer_epoch},"
                f" epoch {epoch} or later required"
            )
        if batch.producer_epoch > epoch:
            if first == 0:
                return None
            raise OutOfOrderSequence(
                f"{name()}: producer {producer_id} begins epoch {batch.producer_epoch} with sequence {first},"
                " 0 required"
            )
        expected = (last + 1) & _SEQUENCE_MASK
        if first == expected:
            return None
        batch_last = (first + batch.offset_span - 1) & _SEQUENCE_MASK
        for known_first, known_last, base_offset, accepted_ms in window:
            if known_first == first and known_last == batch_last:
                return Duplicate(base_offset, accepted_ms)
        raise OutOfOrderSequence(
            f"{name()}: producer {producer_id} epoch {epoch} sends sequence {first}, {expected} required"
        )

    def _check_unknown(self, batch: SequencedBatch, last_accepted_ms: int, name: Callable[[], str]) -> None:
        if batch.base_sequence != 0:
            raise UnknownProducer(
                f"{name()}: producer {batch.producer_id} is not known and sends sequence {batch.base_sequence},"
                " 0 required"
            )
        if len(self._table) >= self._table_max and not self._idle(last_accepted_ms):
            raise LimitExceeded(
                f"{name()}: {len(self._table)} producers wrote within the last {self._idle_ms} ms,"
                f" at most {self._table_max} allowed; use fewer producers, or several partitions. Clears when one has"
                " written nothing for that time",
                limit="PRODUCERS_PER_PARTITION_MAX",
            )

    def apply(
        self, producer_id: int, epoch: int, first: int, span: int, base_offset: int, accepted_ms: int
    ) -> None:
        """A batch was appended, here or by the leader; taken as it is (RL66)."""
        if producer_id == NO_PRODUCER_ID:
            return
        table = self._table
        entry = table.get(producer_id)
        if first < 0:
            if entry is None or entry[0] != epoch:
                table[producer_id] = (epoch, NO_SEQUENCE, accepted_ms, ())
            else:
                table[producer_id] = (epoch, entry[1], accepted_ms, entry[3])
            return
        last = (first + span - 1) & _SEQUENCE_MASK
        batch = (first, last, base_offset, accepted_ms)
        if entry is None:
            if len(table) >= self._table_max:
                self._purge(accepted_ms)
            table[producer_id] = (epoch, last, accepted_ms, (batch,))
        elif entry[0] != epoch:
            table[producer_id] = (epoch, last, accepted_ms, (batch,))
        else:
            table[producer_id] = (epoch, last, accepted_ms, (*entry[3][1 - _WINDOW :], batch))

    def _idle(self, last_accepted_ms: int) -> list[int]:
        """Producers that may be forgotten."""
        oldest = last_accepted_ms - self._idle_ms
        return [producer_id for producer_id, entry in self._table.items() if entry[2] <= oldest]

    def _purge(self, last_accepted_ms: int) -> None:
        for producer_id in self._idle(last_accepted_ms):
            del self._table[producer_id]

    def pack(self) -> bytes:
        """By producer id, so that equal tables give equal bytes."""
        parts = [_COUNT.pack(len(self._table))]
        for producer_id in sorted(self._table):
            epoch, last, accepted_ms, window = self._table[producer_id]
            parts.append(_PRODUCER.pack(producer_id, epoch, last, accepted_ms, len(window)))
            parts.extend(_REMEMBERED.pack(*batch) for batch in window)
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> "Producers":
        """Raises `SmallFileCorrupt`."""
        table: dict[int, Producer] = {}
        try:
            (count,) = _COUNT.unpack_from(data)
            at = _COUNT.size
            for _ in range(count):
                producer_id, epoch, last, accepted_ms, length = _PRODUCER.unpack_from(data, at)
                at += _PRODUCER.size
                window = tuple(
                    _REMEMBERED.unpack_from(data, at + n * _REMEMBERED.size) for n in range(length)
                )
                at += length * _REMEMBERED.size
                table[producer_id] = (epoch, last, accepted_ms, window)
        except struct.error as error:
            raise SmallFileCorrupt(f"producers: {error}") from None
        if at != len(data):
            raise SmallFileCorrupt(f"producers: {len(data) - at} bytes behind the last entry, none allowed")
        return cls(table)
