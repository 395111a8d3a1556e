"""What a round of the usage pipeline costs: the fold of one partition's readings, and whole rounds as a service ages.

`python -m benchmarks.usage_rounds --days 1 50 --file-s 20 --folder DIR` measures other ages and other files of bronze.
"""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.figures import Benchmark, Measured, median
from benchmarks.usage_load import DAY_MS, EACH_MS, FILE_MS, Bronze, Load
from spark_usage import bronze, readings
from spark_usage.configuration import SparkConfiguration
from spark_usage.decode import decode
from spark_usage.manifest import Catalog
from spark_usage.rest import at_rest
from spark_usage.rounds import fold
from spark_usage.session import start_session

READINGS = (10_000, 40_000, 100_000)
DAYS = (1, 10)
AGE = 400
"""Days."""
_ROUNDS = 3
_WARM = 1_000
_HOUR_MS = 3_600_000


def folds(folder: Path) -> list[Measured]:
    """Seconds from decoded readings of one partition to its intervals: points, views, intervals; medians of three."""
    spark = start_session(SparkConfiguration(), folder / "spark")
    try:
        took: dict[int, list[tuple[float, float]]] = {count: [] for count in (_WARM, *READINGS)}
        for count in (_WARM, *READINGS * _ROUNDS):
            took[count].append(_fold_s(spark, count))
    finally:
        spark.stop()
    wall = {count: median([seconds for seconds, _ in took[count]]) for count in READINGS}
    busy = {count: median([seconds for _, seconds in took[count]]) for count in READINGS}
    beside = {f"{count // 1_000}k_s": wall[count] for count in READINGS[:-1]}
    beside |= {f"{count // 1_000}kprocessor_s": busy[count] for count in READINGS}
    return [Measured(name="usage_fold_100k_s", value=wall[100_000], unit="s", beside=beside)]


def _fold_s(spark: SparkSession, count: int) -> tuple[float, float]:
    """Of the clock and of the processors."""
    load = Load(brokers=1, partitions=1)
    rows: list[dict[str, object]] = []
    while load.readings < count:
        rows += load.rows((len(rows) + 1) * 10_000)
    facts = decode(spark.createDataFrame(pa.Table.from_pylist(rows, schema=bronze.SCHEMA))).localCheckpoint()
    began, busy = time.monotonic(), processor_s()
    seen = readings.viewed(readings.points_of(facts)).localCheckpoint()
    intervals = readings.intervals_of(seen).localCheckpoint()
    took, busy = time.monotonic() - began, processor_s() - busy
    if intervals.count() < count:
        raise AssertionError(f"{count} readings required, {intervals.count()} intervals found")
    return took, busy


def rounds(folder: Path, days: Sequence[int] = DAYS, file_ms: int = FILE_MS) -> list[Measured]:
    """Seconds of a round with news, and of one without, over bronze of so many days."""
    datasets = folder / "datasets"
    made = Bronze(datasets, file_ms)
    spark = start_session(SparkConfiguration(), folder / "spark")
    try:
        Bronze(folder / "warm", file_ms).grow(1)
        _round(spark, folder / "warm", {"0": 8640, "1": 8640, "2": 8640})
        measured = []
        for age in days:
            made.grow(age)
            busy = processor_s()
            with_news = _round(spark, datasets, made.load.offsets)
            busy = processor_s() - busy
            at_rest = _round(spark, datasets, made.load.offsets)
            beside = {
                "processor_s": busy, "at_rest_s": at_rest, "readings": made.load.readings, "files": made.files,
                "records": sum(made.load.offsets.values()),
            }  # fmt: skip
            measured.append(
                Measured(name=f"usage_round_{age}_days_s", value=with_news, unit="s", beside=beside)
            )
            print(f"  {measured[-1].line()}", file=sys.stderr, flush=True)
        return measured
    finally:
        spark.stop()


def ages(folder: Path, young: int = 1, old: int = AGE) -> list[Measured]:
    """Seconds of a round over five minutes of news at both ages in days, medians of three: a service that was read once
    an hour until then, with a file of bronze each hour.
    """
    spark = start_session(SparkConfiguration(), folder / "spark")
    took: dict[int, tuple[float, float]] = {}
    try:
        for days in (young, old):
            datasets = folder / f"of-{days}-days"
            made = Bronze(datasets, _HOUR_MS)
            made.load.each_ms = _HOUR_MS
            made.grow(days)
            _round(spark, datasets, made.load.offsets)
            made.load.each_ms, made.file_ms = EACH_MS, FILE_MS
            rounds_s, busy_s = [], []
            for number in range(_ROUNDS + 1):
                made.grow(days + (number + 1) * FILE_MS / DAY_MS)
                busy = processor_s()
                rounds_s.append(_round(spark, datasets, made.load.offsets))
                busy_s.append(processor_s() - busy)
            took[days] = median(rounds_s[1:]), median(busy_s[1:])
            print(f"  {days} days: {took[days][0]:.1f} s, {made.files} files", file=sys.stderr, flush=True)
    finally:
        spark.stop()
    beside = {
        "processor_s": took[old][1], f"at_{young}_days_s": took[young][0],
        f"at_{young}_days_processor_s": took[young][1], "ratio": took[old][1] / took[young][1],
    }  # fmt: skip
    return [Measured(name="usage_round_at_400_days_s", value=took[old][0], unit="s", beside=beside)]


def at_rest_cpu(folder: Path) -> list[Measured]:
    """Processor time of a look that finds nothing to do, medians of five, with the files of an hour and as many as
    `AGE` days have. What the brokers are asked is not in it.
    """
    datasets = folder / "datasets"
    made = Bronze(datasets)
    made.grow(1 / 24)
    made.commit()
    spark = start_session(SparkConfiguration(), folder / "spark")
    try:
        _round(spark, datasets, made.load.offsets)
    finally:
        spark.stop()
    young = _look_s(datasets, made.load.offsets)
    made.age(AGE)
    old = _look_s(datasets, made.load.offsets)
    beside = {"young_s": young, "files": made.files, "days": AGE}
    return [Measured(name="round_at_rest_cpu_s", value=old, unit="s", beside=beside)]


def _look_s(datasets: Path, ends: dict[str, int]) -> float:
    """Raises `AssertionError` when it finds something."""
    took = []
    for _ in range(5):
        began = time.process_time()
        found = at_rest(datasets, Catalog(datasets), ends)
        took.append(time.process_time() - began)
        if found is None:
            raise AssertionError("the round is not at rest")
    return median(took)


def _round(spark: SparkSession, datasets: Path, offsets: dict[str, int]) -> float:
    return fold(spark, datasets, offsets=offsets).seconds


def processor_s() -> float:
    """That this process, Spark's Java process and its Python workers have used, ended workers too: it tells more than
    the clock beside busy neighbours.
    """
    this = psutil.Process()
    used_s = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used_s += times.user + times.system + times.children_user + times.children_system
    return used_s


FOLDS = Benchmark(figures=("usage_fold_100k_s",), run=folds, seconds=120, quick=False)
AGES = Benchmark(figures=("usage_round_at_400_days_s",), run=ages, seconds=600, quick=False)
AT_REST = Benchmark(figures=("round_at_rest_cpu_s",), run=at_rest_cpu, seconds=60, quick=False)
ROUNDS = Benchmark(
    figures=tuple(f"usage_round_{age}_days_s" for age in DAYS), run=rounds, seconds=1_200, quick=False
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage_rounds", description=__doc__)
    parser.add_argument("--days", type=int, nargs="+", default=list(DAYS))
    parser.add_argument(
        "--file-s", type=int, default=FILE_MS // 1000, help="how much time a file of bronze holds"
    )
    parser.add_argument("--folder", type=Path, default=Path("var"))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-") as folder:
        rounds(Path(folder), chosen.days, chosen.file_s * 1000)


if __name__ == "__main__":
    main()
