"""A broker's counters as OpenMetrics, read on its event loop when a request for them comes."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from daemon.http_listener import LoopStalled
from data_plane.node.gauges import GAUGES
from data_plane.node.limit_refusals import LimitRefusals
from data_plane.node.stats import Histogram
from penstock import __version__
from penstock.build import CORES

PREFIX = "penstock_"
BUILD_INFO = PREFIX + "build"
BUILD_INFO_SAID = "Always 1: the version that runs, and whether its cores are compiled or pure Python."
_LEVELS = ("streams",)
"""Fields of the stats that go down as well."""
_LOOP_S = 2.0


class StatsCollector(Collector):
    """Every field of some stats objects under its own name, gauges that are looked up when asked for, and others.

    The stats belong to the event loop, so that is where they are read; `collect` is called on any other thread and
    raises `LoopStalled` when the loop does not answer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stats: Iterable[Any],
        gauges: Callable[[], dict[str, int]],
        others: Callable[[], Iterable[Metric]],
    ) -> None:
        self._loop = loop
        self._stats = tuple(stats)
        self._gauges = gauges
        self._others = others

    def collect(self) -> Iterable[Metric]:
        answer: Future[list[Metric]] = Future()
        try:
            self._loop.call_soon_threadsafe(self._answer, answer)
            return answer.result(_LOOP_S)
        except TimeoutError:
            raise LoopStalled(f"the event loop did not answer within {_LOOP_S:g} s") from None
        except RuntimeError as ended:
            raise LoopStalled(f"the event loop has ended: {ended}") from None

    def _answer(self, answer: "Future[list[Metric]]") -> None:
        try:
            answer.set_result(list(self._read()))
        except Exception as error:
            answer.set_exception(error)

    def _read(self) -> Iterator[Metric]:
        yield InfoMetricFamily(BUILD_INFO, BUILD_INFO_SAID, {"version": __version__, "cores": CORES})
        for stats in self._stats:
            for name in fields_of(stats):
                yield family(name, getattr(stats, name))
        for name, level in self._gauges().items():
            yield GaugeMetricFamily(PREFIX + name, GAUGES.get(name, _words(name)), value=level)
        yield from self._others()


def fields_of(stats: Any) -> list[str]:
    """Names of what a stats object counts."""
    return [item.name for item in fields(stats)]


def family(name: str, value: Any) -> Metric:
    """The metric that a field of a stats object is published as."""
    if isinstance(value, Histogram):
        return _histogram(name.removesuffix("_ms"), value)
    if isinstance(value, LimitRefusals):
        return _by_limit(name, value)
    if name in _LEVELS:
        return GaugeMetricFamily(PREFIX + name, _words(name), value=value)
    return CounterMetricFamily(PREFIX + name, _words(name), value=value)


def _histogram(name: str, counted: Histogram) -> HistogramMetricFamily:
    """Buckets in seconds, cumulative, as OpenMetrics wants them."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*counted.bounds_ms, None], counted.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound / 1000), total))
    return HistogramMetricFamily(
        f"{PREFIX}{name}_seconds", _words(name), buckets=buckets, sum_value=counted.total_ms / 1000
    )


def _by_limit(name: str, refusals: LimitRefusals) -> CounterMetricFamily:
    found = CounterMetricFamily(PREFIX + name, _words(name), labels=("tenant", "limit"))
    for labels, count in refusals.counts.items():
        found.add_metric(labels, count)
    return found


def _words(name: str) -> str:
    return name.replace("_", " ")
