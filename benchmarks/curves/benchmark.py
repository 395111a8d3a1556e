"""The curves: each axis on a cluster of its own, one point after the other, as a table and one JSON line."""

import gc
import os
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.cluster import BenchCluster
from benchmarks.curves.axes import AXES, COPIES, Axis
from benchmarks.curves.load import TURNS, Cost, costs
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured

Points = list[tuple[int, Cost]]


def curves(folder: Path) -> list[Measured]:
    """Prints the table; the figure is the brokers' processor time of a message of the load in the middle."""
    measured: dict[str, Points] = {}
    loads = []
    for axis in AXES:
        loads.append(os.getloadavg()[0])
        measured[axis.field] = _points(folder / axis.field, axis)
    Console(width=160).print(_table(measured, f"load average {min(loads):.1f} to {max(loads):.1f}"))
    middle = dict(measured[COPIES.field])[3]
    return [
        Measured(
            name="curves",
            value=middle.brokers_cpu_us,
            unit="us of three brokers a message of 100 B, ten a batch",
            details={
                field: {str(value): _rounded(cost) for value, cost in points}
                for field, points in measured.items()
            },
        )
    ]


def _points(folder: Path, axis: Axis) -> Points:
    """What comes first has fewer partitions beside it: topics stay until the cluster ends."""
    folder.mkdir()
    if axis is not COPIES:
        return _on_one_cluster(folder, axis, 3, axis.values)
    points: Points = []
    for copies in axis.values:
        own = folder / str(copies)
        own.mkdir()
        points += _on_one_cluster(own, axis, copies, (copies,))
    return points


def _on_one_cluster(folder: Path, axis: Axis, brokers: int, values: tuple[int, ...]) -> Points:
    points: Points = []
    with BenchCluster(folder, brokers) as cluster:
        for value in values:
            print(f"  {axis.title}: {value:,}", file=sys.stderr, flush=True)
            gc.collect()
            points.append((value, run(costs(cluster, f"{axis.field}-{value}", axis.shape(value)))))
    return points


def _rounded(cost: Cost) -> dict[str, float]:
    return {name: round(value, 3) for name, value in asdict(cost).items()}


def _table(measured: dict[str, Points], loads: str) -> Table:
    table = Table(title=f"A message's cost, medians of {TURNS} turns, {loads}")
    table.add_column("")
    for title in (
        "",
        "messages/s",
        "brokers, us",
        "client, us",
        "to disk, B",
        "between brokers, B",
        "through system calls, B",
    ):
        table.add_column(title, justify="right")
    for axis in AXES:
        for number, (value, cost) in enumerate(measured[axis.field]):
            numbers = [_short(one) for one in asdict(cost).values()]
            table.add_row(axis.title if number == 0 else "", f"{value:,}", *numbers)
        table.add_section()
    return table


def _short(value: float) -> str:
    """Three digits of what is small, whole numbers of what is not."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


BENCHMARK = Benchmark(figures=("curves",), run=curves, seconds=170, quick=False)
