"""Times between datetimes, ms and days: exact, in UTC, also at the ends of the calendar."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from penstock.rules.timestamps import DAY_MS, day_of, day_start_ms, moment_of, read_moment, time_ms, whole_ms

NOON = datetime(2026, 11, 20, 12, 0, 0, 456_999, tzinfo=UTC)


def test_a_time_and_its_ms_are_the_same_moment() -> None:
    assert time_ms(NOON) % 1_000 == 456
    assert moment_of(time_ms(NOON)) == whole_ms(NOON) == NOON.replace(microsecond=456_000)
    assert time_ms(NOON.astimezone(timezone(timedelta(hours=-9)))) == time_ms(NOON)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_every_time_of_the_calendar_has_its_ms(moment: datetime) -> None:
    assert moment_of(time_ms(moment)) == whole_ms(moment)


def test_a_time_outside_the_calendar_is_refused() -> None:
    with pytest.raises(OverflowError):
        moment_of(2**53)


@pytest.mark.parametrize(
    "text", ["2026-11-20T12:00:00", "2026-11-20T12:00:00Z", "2026-11-20T13:00:00+01:00", "2026-11-20 12:00"]
)
def test_a_text_without_a_zone_is_utc(text: str) -> None:
    found = read_moment(text)
    assert (found, found.utcoffset()) == (datetime(2026, 11, 20, 12, tzinfo=UTC), timedelta())


@pytest.mark.parametrize(
    "text", ["", "noon", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_text_that_is_no_time_in_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_moment(text)


def test_days_begin_at_midnight_in_utc_and_end_with_the_calendar() -> None:
    assert [day_of(DAY_MS - 1), day_of(DAY_MS)] == [date(1970, 1, 1), date(1970, 1, 2)]
    assert day_start_ms(date(2026, 11, 20)) == time_ms(datetime(2026, 11, 20, tzinfo=UTC))
    assert [day_of(-(2**62)), day_of(2**62)] == [date.min, date.max]
