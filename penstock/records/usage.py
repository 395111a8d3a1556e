"""What metering counts of a log's prefix: running totals, and rows by minute and principal."""

from dataclasses import dataclass, fields
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
        invariant(
            all(0 <= value < 1 << 63 for value in self.as_tuple()), "totals are whole numbers from 0 on"
        )

    def as_tuple(self) -> tuple[int, ...]:
        """The six numbers in the order of the fields."""
        return tuple(getattr(self, name) for name in TOTALS_FIELDS)

    @classmethod
    def from_tuple(cls, values: tuple[int, ...]) -> Self:
        return cls(**dict(zip(TOTALS_FIELDS, values, strict=True)))

    def since(self, earlier: Self) -> "Totals":
        """The difference to an earlier reading."""
        pairs = zip(self.as_tuple(), earlier.as_tuple(), strict=True)
        return Totals.from_tuple(tuple(later - sooner for later, sooner in pairs))


TOTALS_FIELDS = tuple(field.name for field in fields(Totals))


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
