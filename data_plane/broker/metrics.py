"""A node's counters as OpenMetrics, read when somebody asks."""

from collections.abc import Iterable
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from data_plane.node.broker_node import BrokerNode
from data_plane.node.stats import Histogram

_LEVELS = ("streams",)
PREFIX = "penstock_"


class NodeCollector(Collector):
    """Every field of `NodeStats` under its own name, and what the replicas look like now."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        for item in fields(self._node.stats):
            value = getattr(self._node.stats, item.name)
            name = PREFIX + item.name
            if isinstance(value, Histogram):
                yield _histogram(name.removesuffix("_ms"), value)
            elif item.name in _LEVELS:
                yield GaugeMetricFamily(name, item.name, value=value)
            else:
                yield CounterMetricFamily(name, item.name, value=value)
        for name, level in self._node.levels().items():
            yield GaugeMetricFamily(PREFIX + name, name, value=level)


def _histogram(name: str, counted: Histogram) -> HistogramMetricFamily:
    """Buckets in seconds, cumulative, as OpenMetrics wants them."""
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*counted.bounds_ms, None], list(counted.counts), strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound / 1000), total))
    return HistogramMetricFamily(f"{name}_seconds", name, buckets=buckets, sum_value=counted.total_ms / 1000)
