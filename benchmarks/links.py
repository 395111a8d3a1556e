"""What TLS between brokers costs: the same batches to a cluster with it and to one without, in turns."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured, median
from benchmarks.throughput import RECORDS_PER_BATCH, batch_of, batches_per_s, latency_p99_ms
from local import processes

ROUNDS = 3
_BATCHES = 300
_THOUSANDS = _BATCHES * RECORDS_PER_BATCH / 1_000


def links(folder: Path) -> list[Measured]:
    """Full batches over three partitions with three copies in memory, so that the disk limits neither; and the time of
    one batch of 10 KB that is synced on three copies."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    p99s: dict[bool, list[float]] = {True: [], False: []}
    cpu: dict[bool, list[float]] = {True: [], False: []}
    batches = [batch_of(RECORDS_PER_BATCH, 100)]
    for number in range(ROUNDS):
        for tls in (True, False) if number % 2 else (False, True):
            own = folder / f"{number}-{'tls' if tls else 'plain'}"
            own.mkdir()
            with _brokers(tls=tls), BenchCluster(own) as cluster:
                batches_per_s(cluster, "warm", batches, _BATCHES // 3, durability="replicated")
                used = cluster.cpu_s()
                rates[tls].append(
                    batches_per_s(cluster, "measured", batches, _BATCHES, durability="replicated")
                )
                cpu[tls].append((cluster.cpu_s() - used) / _THOUSANDS)
                p99s[tls].append(run(latency_p99_ms(cluster, cluster.topic("latency", 1))))
    return [
        Measured(
            name="replicate_tls_ratio",
            value=median([tls / plain for tls, plain in zip(rates[True], rates[False], strict=True)]),
            unit="of the rate in plain text",
            beside={
                "tls_msgs_per_s": median(rates[True]) * RECORDS_PER_BATCH,
                "plain_msgs_per_s": median(rates[False]) * RECORDS_PER_BATCH,
                "tls_cpu_ms_per_1000": median(cpu[True]) * 1e3,
                "plain_cpu_ms_per_1000": median(cpu[False]) * 1e3,
            },
        ),
        Measured(
            name="ack_p99_tls_ratio",
            value=median([tls / plain for tls, plain in zip(p99s[True], p99s[False], strict=True)]),
            unit="times the p99 in plain text",
            beside={"tls_p99_ms": median(p99s[True]), "plain_p99_ms": median(p99s[False])},
        ),
    ]


@contextmanager
def _brokers(*, tls: bool) -> Iterator[None]:
    """Within the block brokers are started with or without TLS between them."""
    usual = processes.command_line

    def plain(config: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks.plain_broker", "--config", str(config)]

    processes.command_line = usual if tls else plain
    try:
        yield
    finally:
        processes.command_line = usual


BENCHMARK = Benchmark(
    figures=("replicate_tls_ratio", "ack_p99_tls_ratio"), run=links, seconds=90, quick=False
)
