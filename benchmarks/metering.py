"""What metering costs: the same batches to brokers that read usage into `__usage` and to such that do not, in turn.

Both count: the odometer is part of the log. What is compared is what the setting `metering` turns off: reading the
partitions, records of `__usage` with their replication, the tally of requests.
"""

from pathlib import Path

from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured, median
from benchmarks.throughput import RECORDS_PER_BATCH, batch_of, batches_per_s, small_batches_per_s

ROUNDS = 3
_SMALL_BATCHES = 240_000
"""Half a minute: longer than a reading's period twice over."""
_FULL_BATCHES = 1_500


def metering_overhead(folder: Path) -> list[Measured]:
    """Percent of throughput, medians of three rounds. A negative one is noise."""
    rates: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for number in range(ROUNDS):
        for metered in (True, False) if number % 2 else (False, True):
            rates[metered].append(_rates(folder / f"{number}-{metered}", metered=metered))
    small, small_without = (median([rate for rate, _ in rates[metered]]) for metered in (True, False))
    full, full_without = (median([rate for _, rate in rates[metered]]) for metered in (True, False))
    return [
        Measured(
            name="metering_overhead_percent",
            value=100 * (1 - full / full_without),
            unit="% of full batches' throughput",
            beside={
                "batches_per_s": full,
                "batches_per_s_without": full_without,
                "small_percent": 100 * (1 - small / small_without),
                "small_batches_per_s": small,
                "small_batches_per_s_without": small_without,
            },
        )
    ]


def _rates(folder: Path, *, metered: bool) -> tuple[float, float]:
    """Batches a second of brokers started so: of one message over 1,000 partitions, of 10,000 over three."""
    folder.mkdir()
    with BenchCluster(folder, metering=metered) as cluster:
        small = run(small_batches_per_s(cluster, "small", _SMALL_BATCHES))
        full = batches_per_s(
            cluster, "full", [batch_of(RECORDS_PER_BATCH, 100)], _FULL_BATCHES, durability="fsync"
        )
    return small, full


BENCHMARK = Benchmark(figures=("metering_overhead_percent",), run=metering_overhead, seconds=360, quick=False)
