"""What metering counts of a log's prefix: running totals, and rows by minute and principal."""

from dataclasses import dataclass
from typing import Self

from penstock.contract.invariant import invariant

MINUTE_MS = 60_000


def minute_of(time_ms: int) -> int:
    """Minutes since 1970 UTC of a time in ms."""
    return time_ms // MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Running totals of one partition and log generation. They never decrease; bytes are whole batches as stored.

    Records and bytes of transactions that are still open are in none of them.
    """

    committed_messages: int = 0
    committed_bytes: int = 0
    aborted_messages: int = 0
    aborted_bytes: int = 0
    control_records: int = 0
    control_bytes: int = 0

    def __post_init__(self) -> None:
        numbers = self.as_tuple()
        invariant(min(numbers) >= 0 and max(numbers) < 1 << 63, "totals are whole numbers from 0 on")

    def as_tuple(self) -> tuple[int, ...]:
        """The six numbers in the order of the fields."""
        return (
            self.committed_messages,
            self.committed_bytes,
            self.aborted_messages,
            self.aborted_bytes,
            self.control_records,
            self.control_bytes,
        )

    @classmethod
    def from_tuple(cls, values: tuple[int, ...]) -> Self:
        """What `as_tuple` gave."""
        (
            committed_messages,
            committed_bytes,
            aborted_messages,
            aborted_bytes,
            control_records,
            control_bytes,
        ) = values
        return cls(
            committed_messages=committed_messages,
            committed_bytes=committed_bytes,
            aborted_messages=aborted_messages,
            aborted_bytes=aborted_bytes,
            control_records=control_records,
            control_bytes=control_bytes,
        )

    def since(self, earlier: Self) -> "Totals":
        """The difference to an earlier reading."""
        pairs = zip(self.as_tuple(), earlier.as_tuple(), strict=True)
        return Totals.from_tuple(tuple(later - sooner for later, sooner in pairs))


@dataclass(frozen=True, slots=True, order=True)
class MinuteRow:
    """Committed messages and bytes of one principal that count in one minute (since 1970 UTC, by acceptance)."""

    minute: int
    principal: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, order=True)
class OpenRow:
    """Messages and bytes that one principal has in the open transaction of one producer id; in no total yet."""

    producer_id: int
    principal: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OdometerMark:
    """What the odometer said at the end of a batch: all that a reading needs of it."""

    end_offset: int
    """Everything below it is counted."""
    accepted_ms: int
    """Acceptance of the last batch below it, -1 for none."""
    totals: Totals
    minute_rows: tuple[MinuteRow, ...]
    """What counted in the minute of that batch so far, by principal."""
