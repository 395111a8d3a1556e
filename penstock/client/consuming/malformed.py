"""How a consumer reports batches whose records are not what their headers say, and how often it logs what it skips."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.client.consuming.fetch_position import FetchedBatch
from penstock.client.telling import warn
from penstock.contract.errors import SerializationFailed
from penstock.contract.ids import NamedPartition
from penstock.records.batch import read_header

LOG_EVERY_MS = 10_000
"""A producer can send such batches without end: the log has one line a partition in this time, with a count."""
_log = logging.getLogger("penstock.malformed")
_undecodable_log = logging.getLogger("penstock.undecodable")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBatch:
    """A batch that is stored as its producer sent it and whose records are not what its header says.

    It takes the offsets `first_offset` to `end_offset` (exclusive); `poll` returns none of them.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    reason: str
    """What is wrong with it, for people."""

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: offsets {self.first_offset} to {self.end_offset - 1} are no messages:"
            f" {self.reason}"
        )


def skipped_batch(fetched: FetchedBatch) -> SkippedBatch:
    """The public description of a fetched batch that is malformed."""
    return SkippedBatch(
        topic=fetched.position.topic,
        partition=fetched.position.partition,
        first_offset=read_header(fetched.batch).base_offset,
        end_offset=fetched.next_offset,
        reason=fetched.malformed,
    )


OnMalformed = Callable[[SkippedBatch], object]


@dataclass(slots=True)
class SkipLog:
    """Counts what one consumer skips, and warns of it."""

    messages: int = 0
    """Offsets that were skipped so far."""
    _logged_at: dict[tuple[str, NamedPartition], float] = field(default_factory=dict)
    _unlogged: dict[tuple[str, NamedPartition], int] = field(default_factory=dict)

    def note(self, skipped: SkippedBatch, now: float) -> None:
        """It was skipped at `now`, in ms."""
        self.messages += skipped.end_offset - skipped.first_offset
        more = self._since_last(_log.name, (skipped.topic, skipped.partition), now)
        if more is None:
            return
        warn(
            _log,
            "penstock: skipped a malformed batch: %s. Brokers do not look into batches; look for a producer with a key"
            " that may produce to %s.%s",
            skipped,
            skipped.topic,
            f" {more} more of this partition were skipped since the last such line." if more else "",
        )

    def note_undecodable(self, error: SerializationFailed, now: float) -> None:
        """A message was skipped at `now`, in ms; the error names its partition and offset."""
        self.messages += 1
        more = self._since_last(_undecodable_log.name, (str(error.topic), error.partition or 0), now)
        if more is None:
            return
        warn(
            _undecodable_log,
            "penstock: skipped a message that cannot be decoded: %s%s",
            error.message,
            f". {more} more of this partition were skipped since the last such line" if more else "",
        )

    def _since_last(self, log: str, tp: NamedPartition, now: float) -> int | None:
        """How many were skipped without a line since the last one; None: this one has none either."""
        key = (log, tp)
        if now - self._logged_at.get(key, -LOG_EVERY_MS) < LOG_EVERY_MS:
            self._unlogged[key] = self._unlogged.get(key, 0) + 1
            return None
        self._logged_at[key] = now
        return self._unlogged.pop(key, 0)
