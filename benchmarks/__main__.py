"""Run benchmarks and print each figure beside its goal: `make bench`, `ONLY=name`, `ALL=1`."""

import argparse
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.budgets import BENCHMARK as BUDGETS
from benchmarks.client_rates import kilobyte_rates, sdk_rates
from benchmarks.curves.benchmark import BENCHMARK as CURVES
from benchmarks.durability import BENCHMARK as DURABILITY
from benchmarks.failover import leader_kill
from benchmarks.figures import GOALS, Benchmark, Measured
from benchmarks.frames import BENCHMARK as FRAMES
from benchmarks.idle_clients import BENCHMARK as IDLE_CLIENTS
from benchmarks.key_changes import BENCHMARK as KEY_CHANGES
from benchmarks.latency import steady_load
from benchmarks.links import BENCHMARK as LINKS
from benchmarks.many_partitions import BENCHMARK as MANY_PARTITIONS
from benchmarks.many_tenants import BENCHMARK as MANY_TENANTS
from benchmarks.metering import BENCHMARK as METERING
from benchmarks.metering import NOISE as METERING_NOISE
from benchmarks.noisy_neighbour import BENCHMARK as NOISY_NEIGHBOUR
from benchmarks.peers.benchmark import PEERS, PEERS_QUICK
from benchmarks.placement import BENCHMARK as PLACEMENT
from benchmarks.planned_moves import planned_moves
from benchmarks.quotas import BENCHMARK as QUOTAS
from benchmarks.recovery import BENCHMARK as RECOVERY
from benchmarks.rest_flood import BENCHMARK as REST_FLOOD
from benchmarks.ten_thousand_topics import BENCHMARK as TEN_THOUSAND_TOPICS
from benchmarks.throughput import floor_ratios, full_batches, small_batches
from benchmarks.topic_creation import BENCHMARK as TOPIC_CREATION
from benchmarks.topic_creation import TOGETHER_BENCHMARK
from benchmarks.usage_memory import MEMORY
from benchmarks.usage_priced import BENCHMARK as USAGE_PRICED
from benchmarks.usage_rounds import AGES, AT_REST, FOLDS, ROUNDS
from benchmarks.usage_scale import SCALE, WORKERS
from local import guardian

BENCHMARKS = (
    Benchmark(figures=("broker_fsync_floor_ratio", "ack_p99_floor_ratio"), run=floor_ratios, seconds=120),
    Benchmark(
        figures=(
            "broker_100b_fsync_msgs_per_s",
            "broker_100b_replicated_msgs_per_s",
            "broker_1kb_fsync_mb_per_s",
        ),
        run=full_batches,
        seconds=40,
    ),
    Benchmark(figures=("small_batches_per_s",), run=small_batches, seconds=40),
    Benchmark(
        figures=(
            "client_100b_zstd_fsync_msgs_per_s",
            "consume_100b_msgs_per_s",
            "consume_batches_100b_msgs_per_s",
        ),
        run=sdk_rates,
        seconds=60,
    ),
    Benchmark(
        figures=("produce_1kb_none_msgs_per_s", "consume_1kb_msgs_per_s"), run=kilobyte_rates, seconds=40
    ),
    Benchmark(
        figures=(
            *("ack_p50_ms", "ack_p99_ms", "e2e_p99_ms", "ack_p99_500_partitions_ms"),
            *("brokers_cpu_s_per_1000", "commit_ms"),
        ),
        run=steady_load,
        seconds=210,
    ),
    Benchmark(figures=("leader_kill_p99_s",), run=leader_kill, seconds=540),
    Benchmark(figures=("planned_move_ms",), run=planned_moves, seconds=60),
    PLACEMENT,
    RECOVERY,
    METERING,
    METERING_NOISE,
    DURABILITY,
    FRAMES,
    LINKS,
    CURVES,
    NOISY_NEIGHBOUR,
    REST_FLOOD,
    QUOTAS,
    BUDGETS,
    KEY_CHANGES,
    TOPIC_CREATION,
    TOGETHER_BENCHMARK,
    TEN_THOUSAND_TOPICS,
    MANY_TENANTS,
    MANY_PARTITIONS,
    IDLE_CLIENTS,
    USAGE_PRICED,
    MEMORY,
    FOLDS,
    ROUNDS,
    AT_REST,
    AGES,
    SCALE,
    WORKERS,
    PEERS,
    PEERS_QUICK,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one figure; it is printed last as one JSON line")
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--folder", type=Path, default=Path("var"), help="where clusters rest while it runs")
    arguments = parser.parse_args()
    chosen = [b for b in BENCHMARKS if wanted(b, arguments.only, everything=arguments.all)]
    if not chosen:
        names = ", ".join(name for benchmark in BENCHMARKS for name in benchmark.figures)
        print(f"no figure {arguments.only!r}; there are: {names}", file=sys.stderr)
        return 2
    guardian.guard()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    load_before = os.getloadavg()[0]
    measured: list[Measured] = []
    failed = False
    for number, benchmark in enumerate(chosen, 1):
        names = ", ".join(benchmark.figures)
        print(f"[{number}/{len(chosen)}] {names} (about {benchmark.seconds} s)", file=sys.stderr, flush=True)
        try:
            with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="bench-") as folder:
                measured += benchmark.run(Path(folder))
        except Exception:
            failed = True
            print(f"not measured: {names}", file=sys.stderr)
            traceback.print_exc()
    _show(measured, load_before)
    if failed:
        return 1
    if arguments.only:
        print(next(one.line() for one in measured if one.name == arguments.only))
    return 0


def wanted(benchmark: Benchmark, only: str | None, *, everything: bool) -> bool:
    if only:
        return only in benchmark.figures
    return not benchmark.named_only and (benchmark.quick or everything)


def _show(measured: list[Measured], load_before: float) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    table = Table(title=f"{machine}, {day}, load average {load_before:.1f} before the start")
    for column in ("figure", "value", "unit", "goal", "", "beside"):
        table.add_column(column, justify="right" if column == "value" else "left")
    by_name = {one.name: one.value for one in measured}
    for one in measured:
        goal, met = _judged(one, by_name)
        beside = ", ".join(f"{name} {value:.4g}" for name, value in one.beside.items())
        table.add_row(one.name, f"{one.value:,.3f}", one.unit, goal, met, beside)
    Console(width=160).print(table)


def _judged(one: Measured, by_name: dict[str, float]) -> tuple[str, str]:
    if one.name == "ack_p99_500_partitions_ms":
        return "<= 2 x ack_p99_ms", "met" if one.value <= 2 * by_name["ack_p99_ms"] else "NOT met"
    goal = GOALS.get(one.name)
    return ("", "") if goal is None else (str(goal), "met" if goal.met(one.value) else "NOT met")


if __name__ == "__main__":
    sys.exit(main())
