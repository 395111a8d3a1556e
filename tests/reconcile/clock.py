"""The story's time, which the service takes for the time of day."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unittest import mock


class Clock:
    """Goes on when it is told to."""

    def __init__(self, begins: datetime) -> None:
        self._now = begins

    def now(self) -> datetime:
        self._now += timedelta(microseconds=1)
        return self._now

    def to(self, moment: datetime) -> None:
        assert moment >= self._now, f"{moment} is before {self._now}"
        self._now = moment

    def on(self, **by: float) -> None:
        self._now += timedelta(**by)


@contextmanager
def in_force(clock: Clock) -> Iterator[None]:
    with mock.patch("django.utils.timezone.now", clock.now):
        yield


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def day(year: int, month: int, number: int, hour: int = 0) -> datetime:
    return datetime(year, month, number, hour, tzinfo=UTC)
