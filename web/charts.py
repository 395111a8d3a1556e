"""Charts and pipes as numbers: the positions of bars, lines and labels. Pure; templates draw them as SVG.

Coordinates are those of the view box, top left is 0, 0. Each chart is drawn
in two widths, for wide pages and for phones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

BROAD, HALF, NARROW = 960, 470, 360
SERIES_MAX = 6
"""Colors; further series are added up in the last one."""
_TOP, _BOTTOM, _LEFT = 10, 22, 52


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One topic's numbers, one per column."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a bar. `color` counts from 1."""

    y: float
    height: float
    color: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: float
    width: float
    label: str
    blocks: tuple[Block, ...]
    title: str
    labelled: bool
    open: bool
    """What it shows can still change."""
    top: float
    """Of its highest block."""

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the grid: `y` is the height of what `text` says."""

    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    name: str
    """broad or narrow."""
    width: int
    height: int
    left: int
    base: float
    bars: tuple[Bar, ...]
    grid: tuple[Line, ...]

    @property
    def label_y(self) -> float:
        return self.base + 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart. `color` counts from 1."""

    color: int
    points: str
    area: str
    last_x: float
    last_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A label below the base."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    width: int
    height: int
    base: float
    left: int
    curves: tuple[Curve, ...]
    grid: tuple[Line, ...]
    marks: tuple[Mark, ...]
    name: str

    @property
    def label_y(self) -> float:
        return self.base + 15


def folded(series: Sequence[Series], rest: str = "other topics") -> tuple[Series, ...]:
    """The largest series, at most `SERIES_MAX`; the others are added up in the last."""
    ordered = sorted(series, key=lambda one: (-sum(one.values), one.name))
    if len(ordered) <= SERIES_MAX:
        return tuple(ordered)
    kept, others = ordered[: SERIES_MAX - 1], ordered[SERIES_MAX - 1 :]
    together = tuple(sum(values) for values in zip(*(one.values for one in others), strict=True))
    return (*kept, Series(name=f"{len(others)} {rest}", values=together))


def stacked_bars(
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    width: int,
    height: int,
    name: str,
    text: Callable[[int], str] | None = None,
    open_from: int | None = None,
) -> BarChart:
    """One bar per label, stacked in the order of `series` from below; `text` writes values. From the bar `open_from` on
    they can still change. What is negative has no block.
    """
    written = short if text is None else text
    totals = [sum(max(0, one.values[index]) for one in series) for index in range(len(labels))]
    ticks = nice_ticks(max(totals, default=0))
    top, base = _TOP, height - _BOTTOM
    scale = (base - top) / ticks[-1]
    step = (width - _LEFT) / max(1, len(labels))
    bar_width = min(44.0, step * 0.68)
    label_width = 46 if width < BROAD else 56
    every = max(1, -(-label_width // int(max(1, step))))
    bars = []
    for index, label in enumerate(labels):
        y = float(base)
        blocks = []
        for color, one in enumerate(series, start=1):
            value = one.values[index]
            if value > 0:
                tall = max(value * scale, 0.75)
                y -= tall
                blocks.append(Block(y=round(y, 2), height=round(tall, 2), color=color))
        bars.append(
            Bar(
                x=round(_LEFT + index * step + (step - bar_width) / 2, 2),
                width=round(bar_width, 2),
                label=label,
                blocks=tuple(blocks),
                title=f"{label}: {totals[index]:,}" if text is None else f"{label}: {text(totals[index])}",
                labelled=(len(labels) - 1 - index) % every == 0,
                open=open_from is not None and index >= open_from and bool(blocks),
                top=round(y, 2),
            )
        )
    grid = tuple(Line(y=round(base - tick * scale, 2), text=written(tick)) for tick in ticks)
    return BarChart(name=name, width=width, height=height, left=_LEFT, base=base, bars=tuple(bars), grid=grid)


def lines(
    series: Sequence[Sequence[float]], marks: Sequence[str], *, width: int, height: int, name: str
) -> LineChart:
    """Series of one length over one scale, the newest at the right; `marks` are below at equal distances."""
    ticks = nice_ticks(max(1, ceil(max((value for one in series for value in one), default=0))))
    base, right = height - _BOTTOM, width - 6
    scale = (base - _TOP) / ticks[-1]
    curves = []
    for color, values in enumerate(series, start=1):
        step = (right - _LEFT) / max(1, len(values) - 1)
        spots = [
            (round(_LEFT + index * step, 1), round(base - value * scale, 1))
            for index, value in enumerate(values)
        ]
        points = " ".join(f"{x},{y}" for x, y in spots)
        curves.append(
            Curve(
                color=color,
                points=points,
                area=f"{spots[0][0]},{base} {points} {spots[-1][0]},{base}" if spots else "",
                last_x=spots[-1][0] if spots else 0,
                last_y=spots[-1][1] if spots else 0,
            )
        )
    apart = (right - _LEFT) / max(1, len(marks) - 1)
    return LineChart(
        name=name,
        width=width,
        height=height,
        base=base,
        left=_LEFT,
        curves=tuple(curves),
        grid=tuple(Line(y=round(base - tick * scale, 2), text=short(tick)) for tick in ticks),
        marks=tuple(
            Mark(
                x=round(_LEFT + index * apart, 1),
                text=text,
                anchor="start" if index == 0 else "end" if index == len(marks) - 1 else "middle",
            )
            for index, text in enumerate(marks)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandChart:
    """What was, what is expected, and the band between low and high around it."""

    width: int
    height: int
    base: float
    left: int
    past: str
    expected: str
    band: str
    today_x: float
    ends: tuple[tuple[float, str], ...]
    """Where high, expected and low end, and what they say, from above; moved apart where they are close together."""
    end_x: float
    grid: tuple[Line, ...]
    marks: tuple[Mark, ...]
    name: str

    @property
    def label_y(self) -> float:
        return self.base + 15


_END_LABELS, _LABEL_HEIGHT = 74, 13


def band(
    past: Sequence[int],
    coming: Sequence[tuple[int, int, int]],
    marks: tuple[str, str, str],
    *,
    width: int,
    height: int,
    name: str,
    text: Callable[[int], str],
) -> BandChart:
    """Values at days that follow one another: what was, then (low, expected, high). `marks` name the first day, the
    last one of the past and the last of all. At least one day of each is there.
    """
    ticks = nice_ticks(max([*past, *(high for _, _, high in coming), 1]))
    base, right = height - _BOTTOM, width - _END_LABELS
    scale = (base - _TOP) / ticks[-1]
    step = (right - _LEFT) / max(1, len(past) + len(coming) - 1)

    def spot(index: int, value: int) -> str:
        return f"{round(_LEFT + index * step, 1)},{round(base - value * scale, 1)}"

    begun = len(past) - 1
    low, expected, high = (
        [spot(begun, past[-1]), *(spot(begun + 1 + at, day[which]) for at, day in enumerate(coming))]
        for which in range(3)
    )
    ends = []
    lowest_free = float(_TOP)
    for value in reversed(coming[-1]):
        y = max(lowest_free, base - value * scale)
        lowest_free = y + _LABEL_HEIGHT
        ends.append((round(y, 1), text(value)))
    today = round(_LEFT + begun * step, 1)
    return BandChart(
        width=width,
        height=height,
        base=base,
        left=_LEFT,
        past=" ".join(spot(index, value) for index, value in enumerate(past)),
        expected=" ".join(expected),
        band=" ".join([*high, *reversed(low)]),
        today_x=today,
        ends=tuple(ends),
        end_x=right,
        grid=tuple(Line(y=round(base - tick * scale, 2), text=text(tick)) for tick in ticks),
        marks=(
            Mark(x=_LEFT, text=marks[0], anchor="start"),
            Mark(x=min(max(today, _LEFT + 90), right - 90), text=marks[1], anchor="middle"),
            Mark(x=right, text=marks[2], anchor="end"),
        ),
        name=name,
    )


def nice_ticks(highest: int, most: int = 4) -> list[int]:
    """0 and up to `most` round numbers, the last at least `highest`."""
    if highest <= 0:
        return [0, 1]
    step, power = 1, 1
    while True:
        for factor in (1, 2, 5):
            step = factor * power
            if step * most >= highest:
                count = -(-highest // step)
                return [step * index for index in range(count + 1)]
        power *= 10


def short(number: int) -> str:
    """An axis label: `12k`, `3.5M`."""
    for step, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= step:
            whole, tenth = divmod(number * 10 // step, 10)
            return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"
    return str(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe:
    """A partition as a pipe 100 long: water up to `filled`, then the unread part."""

    filled: float
    lag: float
    gate: float | None
    label: str


def pipe(done: int, whole: int, longest: int, label: str, *, gate: bool) -> Pipe:
    """`done` of `whole`, drawn in proportion to the longest pipe beside it."""
    if longest <= 0 or whole <= 0:
        return Pipe(filled=0.0, lag=0.0, gate=None, label=label)
    filled = 100 * max(0, min(done, whole)) / longest
    full = 100 * whole / longest
    return Pipe(
        filled=round(filled, 2),
        lag=round(full - filled, 2),
        gate=round(max(0.0, filled - 0.4), 2) if gate else None,
        label=label,
    )
