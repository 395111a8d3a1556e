"""The runner's metrics, from its heartbeat: it is one process with few numbers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_PREFIX = "penstock_"
STATES = ("starting", "standby", "waiting", "ready", "failing", "stopping", "stopped")
GAUGES = {
    "runner_state": "1 for the state that the runner is in, 0 for the others.",
    "runner_number": "Number of this runner while it works, greater than those of all runners before it; 0 before.",
    "runner_bronze_files": "Number of files that hold the records of __usage; 0 before the first look.",
    "runner_bronze_files_waiting": "Number of small files of finished days that are still to be merged.",
    "runner_bronze_oldest_day_seconds": "Beginning of the oldest day of __usage that is kept, in seconds since 1970.",
    "runner_last_success_seconds": "When the last round went well, in seconds since 1970; 0 before the first one.",
}
COUNTERS = {
    "runner_rounds": "Number of rounds that went well.",
    "runner_failed_rounds": "Number of rounds that failed.",
    "runner_bronze_files_merged": "Number of files of __usage that were merged into others.",
    "runner_bronze_files_expired": "Number of files of __usage that were removed with their records.",
    "runner_failed_bronze_turns": "Number of turns of merging or expiry that failed; each is tried again.",
}
LABELS = {"runner_state": ("state",)}


class HeartbeatCollector(Collector):
    """`values` gives what the heartbeat says now; it is called on the listener's threads."""

    def __init__(self, values: Callable[[], Mapping[str, Any]]) -> None:
        self._values = values

    def collect(self) -> Iterator[Metric]:
        values = self._values()
        states = GaugeMetricFamily(
            _PREFIX + "runner_state", GAUGES["runner_state"], labels=LABELS["runner_state"]
        )
        for state in STATES:
            states.add_metric([state], float(values["state"] == state))
        yield states
        for full in (name for name in GAUGES if name not in LABELS):
            name = full.removeprefix("runner_")
            yield GaugeMetricFamily(_PREFIX + full, GAUGES[full], value=values.get(name, 0))
        for full in COUNTERS:
            name = full.removeprefix("runner_")
            yield CounterMetricFamily(_PREFIX + full, COUNTERS[full], value=values.get(name, 0))
