"""A point of the curves is measured on real brokers, and its numbers agree with each other."""

from pathlib import Path

import pytest

from benchmarks.cluster import BenchCluster
from benchmarks.curves.axes import Shape
from benchmarks.curves.load import costs
from benchmarks.event_loop import run

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_a_message_costs_processor_time_and_its_bytes_on_every_broker(tmp_path: Path) -> None:
    shape = Shape(partitions=3, producers=2, message_bytes=1_000)
    with BenchCluster(tmp_path) as cluster:
        cost = run(costs(cluster, "point", shape, turn_s=0.5))
    assert cost.messages_per_s > 0
    assert cost.brokers_cpu_us > 0 < cost.client_cpu_us
    assert 2 * 1_000 < cost.between_brokers_bytes < 2 * 1_200
    assert cost.disk_bytes > 3 * 1_000
    assert cost.moved_bytes > 1_000 + 2 * cost.between_brokers_bytes + 3 * 1_000
