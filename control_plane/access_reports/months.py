"""Months of the calendar, in UTC: as `2026-10` in addresses, as half-open ranges of time elsewhere. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_FORM = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """One month: `year` from 2000 to 2099, `number` from 1 to 12."""

    year: int
    number: int

    def __post_init__(self) -> None:
        if not (2000 <= self.year <= 2099 and 1 <= self.number <= 12):
            raise ValueError(f"{self.year}-{self.number} is no month from 2000 to 2099")

    def __str__(self) -> str:
        return f"{self.year}-{self.number:02}"

    @property
    def begins_at(self) -> datetime:
        """The first moment of it."""
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def ends_at(self) -> datetime:
        """The first moment after it."""
        year, number = (self.year + 1, 1) if self.number == 12 else (self.year, self.number + 1)
        return datetime(year, number, 1, tzinfo=UTC)

    def earlier(self, months: int) -> "Month":
        """The month so many before this one."""
        count = self.year * 12 + self.number - 1 - months
        return Month(count // 12, count % 12 + 1)


def month_of(text: str) -> Month | None:
    """The month that is written so; None if none is."""
    found = _FORM.fullmatch(text)
    return None if found is None else Month(int(found[1]), int(found[2]))


def month_at(moment: datetime) -> Month:
    """The month in which the moment is."""
    at = moment.astimezone(UTC)
    return Month(at.year, at.month)


def last_whole(moment: datetime) -> Month:
    """The last month that was over at the moment."""
    return month_at(moment).earlier(1)
