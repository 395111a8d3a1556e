"""Times: an aware `datetime` and ms since 1970 UTC, exactly, and UTC days. No floats."""

from datetime import UTC, date, datetime, timedelta

from penstock.contract.invariant import invariant

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()


def time_ms(moment: datetime) -> int:
    """ms since 1970 of an aware time. Rounds down to a whole ms."""
    invariant(moment.tzinfo is not None, "times name their zone")
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def moment_of(time_ms: int) -> datetime:
    """The time in UTC. Raises `OverflowError` outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=time_ms)


def whole_ms(moment: datetime) -> datetime:
    """The time, rounded down to a whole ms."""
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


def read_moment(text: str) -> datetime:
    """An ISO 8601 time in UTC. A time without a zone is UTC. Raises `ValueError`."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from None


def day_of(time_ms: int) -> date:
    """The UTC day of a time in ms since 1970. A time beyond the calendar has the calendar's first or last day."""
    # A stamp can hold such times, and a verifier must accept them. No billing period contains them.
    return date.fromordinal(min(max(_EPOCH_DAY + time_ms // DAY_MS, _FIRST_DAY), _LAST_DAY))


def day_start_ms(day: date) -> int:
    """The first ms of a UTC day."""
    return (day.toordinal() - _EPOCH_DAY) * DAY_MS
