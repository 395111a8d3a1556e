"""What a prober says of itself: whether its rounds end, and whether anything comes of them."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

ROUND_S_MAX = 120.0
"""A round asks each partition once or twice, and waits some seconds for each."""
FAILED_ROUNDS_MAX = 3
"""So many rounds in a row without a good probe are no accident: a prober that measures nothing is not ready."""
_PREFIX = "penstock_"
GAUGES = {
    "prober_last_good_seconds": "When a probe went well last, in seconds since 1970; 0 before the first one.",
}
COUNTERS = {
    "prober_probes": (
        "Number of probes, by operation and outcome: good, failed; none: it said nothing of the service, since the"
        " prober's own set-up is wrong.",
        ("operation", "outcome"),
    ),
}
GOOD, FAILED, NONE = "good", "failed", "none"


@dataclass(slots=True)
class _Round:
    good: int = 0
    error: str = ""


@dataclass(slots=True)
class _Known:
    rounds: int = 0
    failed_rounds: int = 0
    """In a row, without a good probe."""
    error: str = ""
    good_at: float = 0.0
    ended_s: float = 0.0
    probes: Counter[tuple[str, str]] = field(default_factory=Counter)


class ProberHealth:
    """The prober's loop notes it, its listener's threads ask for it its listener's threads."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.Lock()
        self._round = _Round()
        self._known = _Known(ended_s=monotonic())

    def probed(self, operation: str, outcome: str, error: str = "") -> None:
        """One probe: GOOD, FAILED, or NONE where it says nothing of the service."""
        with self._lock:
            self._known.probes[operation, outcome] += 1
            if outcome == GOOD:
                self._round.good += 1
                self._known.good_at = self._wall()
            else:
                self._round.error = error

    def ended(self) -> None:
        """A round has ended."""
        with self._lock:
            known, ended, self._round = self._known, self._round, _Round()
            known.rounds += 1
            known.ended_s = self._monotonic()
            known.failed_rounds = 0 if ended.good else known.failed_rounds + 1
            known.error = ended.error

    def not_ready(self) -> str:
        """Why nothing is measured; empty when probes go well."""
        with self._lock:
            known = self._known
            if not known.rounds:
                return "starting"
            if known.failed_rounds < FAILED_ROUNDS_MAX:
                return ""
            return f"no probe went well in {known.failed_rounds} rounds: {known.error or 'none was made'}"

    def late(self) -> Mapping[str, str]:
        """Whether its rounds end."""
        with self._lock:
            age_s = self._monotonic() - self._known.ended_s
        return {"rounds": f"none has ended for {age_s:.0f} s"} if age_s > ROUND_S_MAX else {}

    def metrics(self) -> Iterator[Metric]:
        with self._lock:
            good_at, probes = self._known.good_at, dict(self._known.probes)
        name = "prober_last_good_seconds"
        yield GaugeMetricFamily(_PREFIX + name, GAUGES[name], value=good_at)
        name = "prober_probes"
        said, labels = COUNTERS[name]
        family = CounterMetricFamily(_PREFIX + name, said, labels=labels)
        for of, count in sorted(probes.items()):
            family.add_metric(of, count)
        yield family


class HealthCollector(Collector):
    """The prober's metrics."""

    def __init__(self, health: ProberHealth) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        return self._health.metrics()
