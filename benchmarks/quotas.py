"""How much of a tenant's produce rate one partition reaches, and how exactly three brokers keep it together.

Each figure is counted in acknowledged bytes over ten seconds, which begin two seconds after the load, from idle.
"""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Benchmark, Measured

RATE = 4_000_000
"""Bytes a second: far below what the machine can, so that only the rate counts."""
MESSAGE_BYTES = 1_000
ROUNDS = 3
SKIPPED_S = 2.0
WINDOW_S = 10.0
_FLUSH_S = 60.0
_IDLE_S = 4.0
"""After which brokers have given their leases up."""


class _Load:
    """One thread that sends as fast as the client lets it; `partition` of a message's number."""

    def __init__(self, client: penstock.Client, partition: Callable[[int], int]) -> None:
        self.acknowledged: list[float] = []
        self._partition = partition
        self._producer = client.producer(compression="none", linger_ms=5, batch_bytes=64_000)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        payload, number = os.urandom(MESSAGE_BYTES), 0
        while not self._stop.is_set():
            delivery = self._producer.send("shared", payload, partition=self._partition(number))
            delivery.add_done_callback(self._done)
            number += 1
        self._producer.flush(_FLUSH_S)
        self._producer.close()

    def _done(self, delivery: penstock.Delivery) -> None:
        if delivery.exception() is None:
            self.acknowledged.append(time.monotonic())

    def percent(self) -> float:
        """Of the rate, in the window."""
        self._thread.start()
        began = time.monotonic()
        time.sleep(SKIPPED_S + WINDOW_S)
        self._stop.set()
        self._thread.join()
        first, last = began + SKIPPED_S, began + SKIPPED_S + WINDOW_S
        passed = sum(first <= at < last for at in self.acknowledged) * MESSAGE_BYTES
        return 100 * passed / (RATE * WINDOW_S)


def quotas(folder: Path) -> list[Measured]:
    """The worst of the rounds. Of the spread load seven of ten messages go to one broker, one to the last."""
    uneven = (0, 0, 0, 0, 0, 0, 0, 1, 1, 2)
    with BenchCluster(folder) as cluster:
        cluster.topic("shared", 3, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.admin.wait_until_seen(
            cluster.admin.put_tenant(cluster.spec.tenant, generation=1, produce_bytes_per_s=RATE)
        )
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:

            def measured(partition: Callable[[int], int]) -> float:
                time.sleep(_IDLE_S)
                return _Load(client, partition).percent()

            one = [measured(partial(_always, number)) for number in range(3)]
            spread = [measured(lambda number: uneven[number % len(uneven)]) for _ in range(ROUNDS)]
    errors = [abs(percent - 100) for percent in (*one, *spread)]
    return [
        Measured(
            name="quota_reach_percent",
            value=min(one),
            unit="% of the rate, all load on one partition",
            beside={"best": max(one)},
        ),
        Measured(
            name="quota_error_percent",
            value=max(errors),
            unit="% above or below the rate over 10 s",
            beside={"spread_least": min(spread), "spread_most": max(spread)},
        ),
    ]


def _always(partition: int, number: int) -> int:
    return partition


BENCHMARK = Benchmark(figures=("quota_reach_percent", "quota_error_percent"), run=quotas, seconds=130)
