"""How good forecasts of a month's usage are: `python -m benchmarks.usage_forecasts`.

Made-up days of several kinds. In each month, at several days of it, the month's total is forecast from what was there
before, and compared with what came: by `billing.forecasting`, by the run rate of the month so far, and by the same
weekdays of the last week again.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from billing import forecasting

BEGINS = date(2026, 1, 5)
DAYS = 300
MONTHS = (date(2026, 4, 1), date(2026, 6, 1), date(2026, 8, 1), date(2026, 9, 1))
DAYS_GONE = (3, 8, 14, 20, 26)
"""At the end of which a forecast is made."""
SEEDS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one kind. Errors are mean absolute percentage errors of the month's total; all in tenths of a percent."""

    kind: str
    forecasts: int
    error: int
    run_rate_error: int
    last_week_error: int
    covered: int
    """Totals within the interval."""
    width: int
    """Of the interval, as a part of what came."""


Made = Callable[[random.Random], list[int]]


def _noise(rng: random.Random, spread: float) -> float:
    return max(0.0, rng.gauss(1, spread))


def _weekday(index: int) -> int:
    return (BEGINS + timedelta(days=index)).weekday()


def flat(rng: random.Random) -> list[int]:
    return [int(1_000_000 * _noise(rng, 0.1)) for _ in range(DAYS)]


def weekly(rng: random.Random) -> list[int]:
    """Weekends have a fifth of a working day."""
    shape = (1.1, 1.2, 1.2, 1.1, 1.0, 0.25, 0.2)
    return [int(1_000_000 * shape[_weekday(day)] * _noise(rng, 0.1)) for day in range(DAYS)]


def growth(rng: random.Random) -> list[int]:
    """One percent a day, with weekdays."""
    shape = (1.1, 1.1, 1.1, 1.1, 1.0, 0.8, 0.8)
    return [int(100_000 * 1.01**day * shape[_weekday(day)] * _noise(rng, 0.1)) for day in range(DAYS)]


def step(rng: random.Random) -> list[int]:
    """The level changes by a factor of 0.4 to 2.5 every 45 to 90 days."""
    level, left, days = 1_000_000.0, rng.randint(45, 90), []
    for _ in range(DAYS):
        left -= 1
        if not left:
            level, left = level * rng.choice((0.4, 0.6, 1.7, 2.5)), rng.randint(45, 90)
        days.append(int(level * _noise(rng, 0.1)))
    return days


def sparse(rng: random.Random) -> list[int]:
    """Something on a quarter of the days."""
    return [int(100_000 * rng.expovariate(1)) if rng.random() < 0.25 else 0 for _ in range(DAYS)]


def bursts(rng: random.Random) -> list[int]:
    """Weekdays, and six times as much on a day in twenty."""
    days = weekly(rng)
    return [day * (6 if rng.random() < 0.05 else 1) for day in days]


def wandering(rng: random.Random) -> list[int]:
    """A level that goes its way, by 3 % a day."""
    level, days = 1_000_000.0, []
    for _ in range(DAYS):
        level *= _noise(rng, 0.03)
        days.append(int(level * _noise(rng, 0.1)))
    return days


KINDS: tuple[Made, ...] = (flat, weekly, growth, step, sparse, bursts, wandering)


def months(made: list[int]) -> Iterator[tuple[int, int, int]]:
    """Places in the days: where a month begins, where it is forecast, and where it ends."""
    for begins in MONTHS:
        ends = (begins + timedelta(days=31)).replace(day=1)
        first, end = (begins - BEGINS).days, (ends - BEGINS).days
        for gone in DAYS_GONE:
            yield first, first + gone, end


def of_kind(make: Made, seeds: int = SEEDS) -> Figures:
    """A kind's figures, always the same ones."""
    errors, run_rate, last_week, widths = [], [], [], []
    covered = 0
    for seed in range(seeds):
        days = make(random.Random(f"{make.__name__} {seed}"))
        for first, now, end in months(days):
            came = sum(days[first:end])
            so_far = sum(days[first:now])
            found = forecasting.forecast(days[:now], today=BEGINS + timedelta(days=now), days=end - now).rest
            errors.append(_error(so_far + found.expected, came))
            run_rate.append(_error(so_far * (end - first) // (now - first), came))
            again = [days[now - 7 + index % 7] for index in range(end - now)]
            last_week.append(_error(so_far + sum(again), came))
            covered += so_far + found.low <= came <= so_far + found.high
            widths.append((found.high - found.low) * 1000 // max(1, came))
    count = len(errors)
    return Figures(
        kind=make.__name__,
        forecasts=count,
        error=sum(errors) // count,
        run_rate_error=sum(run_rate) // count,
        last_week_error=sum(last_week) // count,
        covered=covered * 1000 // count,
        width=sum(widths) // count,
    )


def _error(said: int, came: int) -> int:
    return abs(said - came) * 1000 // max(1, came)


def main() -> None:
    """Print the table of docs/benchmarks/forecasts.md."""
    print("| days | error | of the run rate | of the last week again | within the interval | its width |")
    print("|---|---|---|---|---|---|")
    for make in KINDS:
        one = of_kind(make)
        numbers = (one.error, one.run_rate_error, one.last_week_error, one.covered, one.width)
        cells = " | ".join(f"{number // 10}.{number % 10} %" for number in numbers)
        print(f"| {one.kind} | {cells} |")


if __name__ == "__main__":
    main()
