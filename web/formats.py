"""How the console writes numbers, sizes, times and amounts. Pure."""

from datetime import UTC, datetime, timedelta

from penstock.rules.rating import MICRO, grouped_amount
from penstock.rules.timestamps import moment_of
from web import charts

_STEPS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_SPANS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))


_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""In this order, because most browsers name later ones of this list too."""
_SYSTEMS = ("Windows", "Android", "iPhone", "iPad", "Mac OS X", "Linux")


def browser(agent: str) -> str:
    """`Firefox on Linux` for what a browser calls itself, `penstock on HOST` for the command line; of another program
    its first word.
    """
    if agent.startswith("penstock ") and " on " in agent:
        return f"penstock on {agent.partition(' on ')[2]}"[:80]
    name = next((name for mark, name in _BROWSERS if mark in agent), None)
    system = next((system for system in _SYSTEMS if system in agent), None)
    if name is None:
        return agent.split()[0][:40] if agent.split() else "unknown"
    return name if system is None else f"{name} on {system.replace('Mac OS X', 'macOS')}"


def count(number: int) -> str:
    """`1234567` as `1,234,567`."""
    return f"{number:,}"


def size(number: int) -> str:
    """Bytes in decimal units, as prices count them: `1.2 MB`."""
    for step, unit in _STEPS:
        if abs(number) >= step:
            value = number * 10 // step
            return f"{value // 10}.{value % 10} {unit}" if value < 1000 else f"{number // step:,} {unit}"
    return f"{number} B"


def rate(per_s: float) -> str:
    """A number per second, with one decimal if it is small."""
    if per_s >= 100:
        return f"{per_s:,.0f}"
    return f"{per_s:.1f}" if per_s >= 0.05 else "0"


def byte_rate(per_s: float) -> str:
    """`3.4 kB/s`; below one byte it says so."""
    return f"{size(round(per_s))}/s" if per_s >= 1 else "less than 1 B/s"


def span(milliseconds: int) -> str:
    """A time such as a retention in its largest unit that divides it: `7 days`; -1 is unlimited."""
    if milliseconds < 0:
        return "unlimited"
    for step, unit in _SPANS:
        if milliseconds >= step and milliseconds % step == 0:
            number = milliseconds // step
            return f"{number:,} {unit}{'' if number == 1 else 's'}"
    return f"{milliseconds:,} ms"


def binary_size(number: int) -> str:
    """A size beside its limit, in binary units as that one."""
    for step, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= step:
            return f"{number / step:,.1f} {unit}"
    return f"{number:,} bytes"


def limit_size(number: int) -> str:
    """A size limit in binary units where it is a whole number of them; -1 is unlimited."""
    if number < 0:
        return "unlimited"
    for step, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= step and number % step == 0:
            return f"{number // step:,} {unit}"
    return f"{number:,} bytes"


def moment(at: datetime | None) -> str:
    """`2026-01-31 12:00:05 UTC`, the form that sorts."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago, or how long from now."""
    if at is None:
        return "never"
    passed = now - at
    # A future time is rounded: an end that was set 7 days ahead is 7 days ahead, not 6.
    text = _about(passed) if passed >= timedelta(0) else _about(-passed, rounded=True)
    if text == "":
        return "just now"
    return f"{text} ago" if passed >= timedelta(0) else f"in {text}"


def _about(passed: timedelta, *, rounded: bool = False) -> str:
    seconds = int(passed.total_seconds())
    for step, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= step:
            number = (seconds + (step // 2 if rounded else 0)) // step
            return f"{number:,} {unit}{'' if number == 1 else 's'}"
    return "" if seconds < 10 else f"{seconds} seconds"


def time_of(timestamp_ms: int) -> str:
    """A message's time to the millisecond, UTC; empty where it has none."""
    if timestamp_ms < 0:
        return "no time"
    try:
        at = moment_of(timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def amount(micro: int, minor_digits: int, currency: str) -> str:
    """Micro-units as money: `1,234.50 USD`; finer than cents only where those digits are not 0."""
    return f"{'−' if micro < 0 else ''}{grouped_amount(abs(micro), minor_digits)} {currency}"


def rounded(micro: int, minor_digits: int) -> int:
    """Half up to whole minor units of the currency, still in micro-units."""
    unit = int(10 ** max(0, 6 - minor_digits))
    part = (abs(micro) * 2 + unit) // (2 * unit) * unit
    return part if micro >= 0 else -part


def short_amount(micro: int) -> str:
    """Micro-units for an axis, without the currency: `0.05`, `12.5`, `3.4k`."""
    if micro >= 1_000 * MICRO:
        return charts.short(micro // MICRO)
    whole, part = divmod(micro, MICRO)
    places = f"{part:06d}".rstrip("0")
    return f"{whole}.{places}" if places else str(whole)


def price(text: str) -> str:
    """A unit price of 12 decimals without the zeros at its end: `0.002`."""
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals.ljust(2, '0')}"
