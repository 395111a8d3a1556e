"""What brokers say of themselves on /metrics: histograms of durations, as they grow during a benchmark."""

import math
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
from prometheus_client.samples import Sample

_OPENMETRICS = "application/openmetrics-text; version=1.0.0"
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Counts of durations by upper bound in seconds, not cumulative; the last bound is infinite."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    total_s: float

    @classmethod
    def of(cls, addresses: Iterable[str], name: str) -> Self:
        """The histogram `name` (without `_seconds`) of all brokers at these HTTP addresses together."""
        bounds: dict[float, int] = {}
        total = 0.0
        for address in addresses:
            below = 0
            for bound, count, seconds in _histogram(address, f"{name}_seconds"):
                bounds[bound] = bounds.get(bound, 0) + count - below
                below = count
                total += seconds
        if not bounds:
            raise LookupError(f"no broker tells {name}_seconds")
        return cls(bounds_s=tuple(bounds), counts=tuple(bounds.values()), total_s=total)

    def since(self, earlier: Self) -> Self:
        """What came after `earlier` was read."""
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return type(self)(bounds_s=self.bounds_s, counts=counts, total_s=self.total_s - earlier.total_s)

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean_ms(self) -> float:
        return self.total_s * 1e3 / max(self.count, 1)

    def percentile_ms(self, share: float) -> float:
        """Where `share` of all lie below, as if those of one bucket were spread evenly over it."""
        wanted, below, lower = share * self.count, 0, 0.0
        for bound, count in zip(self.bounds_s, self.counts, strict=True):
            if below + count >= wanted and count:
                upper = lower if math.isinf(bound) else bound
                return (lower + (upper - lower) * (wanted - below) / count) * 1e3
            below, lower = below + count, bound
        return lower * 1e3


def counted(addresses: Iterable[str], name: str) -> int:
    """The counter `name` (without `_total`) of all brokers at these HTTP addresses together."""
    samples = [sample for address in addresses for sample in _samples(address, name)]
    if not samples:
        raise LookupError(f"no broker tells {name}_total")
    return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))


def gauges(address: str, *names: str) -> tuple[int, ...]:
    """These gauges of the broker at this HTTP address, as of one moment. Raises `LookupError`."""
    found = {
        sample.name: int(sample.value)
        for family in _families(address)
        if family.name in names
        for sample in family.samples
    }
    missing = [name for name in names if name not in found]
    if missing:
        raise LookupError(f"the broker at {address} does not tell {missing[0]}")
    return tuple(found[name] for name in names)


def _samples(address: str, name: str) -> list[Sample]:
    return [sample for family in _families(address) if family.name == name for sample in family.samples]


def _families(address: str) -> Iterable[Metric]:
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": _OPENMETRICS})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        parsed: Iterable[Metric] = families(response.read().decode())
    return parsed


def _histogram(address: str, name: str) -> Iterable[tuple[float, int, float]]:
    """(upper bound, cumulative count, 0), then (infinity, all, sum of seconds), of one broker."""
    samples = _samples(address, name)
    total = sum(sample.value for sample in samples if sample.name.endswith("_sum"))
    buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
    for sample in buckets:
        yield float(sample.labels["le"]), int(sample.value), total if sample is buckets[-1] else 0.0
