"""Judges whether a quantity grows: the slope of its block means over rounds, with the noise of that slope.

Neighbouring samples are alike, so samples themselves would promise far too little noise. Those after the warm-up are
divided into eight blocks of equally many samples, and a straight line is fitted to the blocks' means. The slope's range
is that of Student's t with 95 % on two sides. A quantity *grows* when the lower end of the range is above what is
tolerated and its last half rises as well; when only the last half does not, it *levels off*. When the upper end is
not above what is tolerated, it is *steady*. Anything else is *unclear*: a longer run narrows the range.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

WARM_UP = 0.2
"""The part of a run that is not judged: caches fill, and Java compiles."""
BLOCKS = 8
_T = {2: 4.303, 6: 2.447}
"""Student's t for 95 % on two sides, by degrees of freedom: two less than there are blocks."""
PER_ROUNDS = 1_000


class Verdict(Enum):
    """Says how a quantity goes on."""

    STEADY = "steady"
    LEVELS_OFF = "levels off"
    UNCLEAR = "unclear"
    GROWS = "grows"
    FED = "fed"
    """It grows with what is written, as it should, and is not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A sample of one quantity, after so many rounds."""

    rounds: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Growth in 1,000 rounds, and how far it may be off."""

    value: float
    noise: float

    @property
    def least(self) -> float:
        return self.value - self.noise

    @property
    def most(self) -> float:
        return self.value + self.noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A quantity over the part of a run that is judged."""

    warm: float
    """The mean of the first block."""
    end: float
    """The mean of the last one."""
    slope: Slope
    late: Slope
    """The slope over the last half alone."""
    tolerated: float
    verdict: Verdict


def slope_of(points: Sequence[Point], blocks: int = BLOCKS) -> Slope:
    """The least squares over the means of so many blocks. Raises `ValueError` with fewer points than blocks."""
    means = _means(points, blocks)
    middle = sum(mean.rounds for mean in means) / blocks
    level = sum(mean.value for mean in means) / blocks
    spread = sum((mean.rounds - middle) ** 2 for mean in means)
    if not spread:
        raise ValueError("all samples are of the same round")
    slope = sum((mean.rounds - middle) * (mean.value - level) for mean in means) / spread
    left = sum((mean.value - level - slope * (mean.rounds - middle)) ** 2 for mean in means)
    error = math.sqrt(left / (blocks - 2) / spread)
    return Slope(value=slope * PER_ROUNDS, noise=_T[blocks - 2] * error * PER_ROUNDS)


def trend_of(points: Sequence[Point], tolerated: float, *, fed: bool = False, full_after: int = 0) -> Trend:
    """The trend after the warm-up, or after the round `full_after` when that is later: before it the quantity has to
    grow. A run that ends too early for that is unclear. `tolerated`: growth in 1,000 rounds that is none. Raises as
    `slope_of`.
    """
    last = max(point.rounds for point in points)
    begin = WARM_UP * last
    too_short = full_after > last / 2
    judged = [point for point in points if point.rounds >= (begin if too_short else max(begin, full_after))]
    slope = slope_of(judged)
    late = slope_of(judged[len(judged) // 2 :], BLOCKS // 2)
    means = _means(judged, BLOCKS)
    return Trend(
        warm=means[0].value,
        end=means[-1].value,
        slope=slope,
        late=late,
        tolerated=tolerated,
        verdict=_verdict(slope, late, tolerated, fed=fed, too_short=too_short),
    )


def _verdict(slope: Slope, late: Slope, tolerated: float, *, fed: bool, too_short: bool) -> Verdict:
    if fed:
        return Verdict.FED
    if too_short:
        return Verdict.UNCLEAR
    if slope.most <= tolerated:
        return Verdict.STEADY
    if slope.least <= tolerated:
        return Verdict.UNCLEAR
    return Verdict.GROWS if late.value > tolerated else Verdict.LEVELS_OFF


def _means(points: Sequence[Point], blocks: int) -> list[Point]:
    if len(points) < blocks:
        raise ValueError(f"{len(points)} samples after the warm-up, at least {blocks} required; run longer")
    bounds = [len(points) * number // blocks for number in range(blocks + 1)]
    return [
        Point(
            rounds=sum(point.rounds for point in points[begin:end]) / (end - begin),
            value=sum(point.value for point in points[begin:end]) / (end - begin),
        )
        for begin, end in itertools.pairwise(bounds)
    ]
