"""Which benchmarks a run takes, and where percentiles lie."""

from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, wanted
from benchmarks.figures import Benchmark, Measured, median, percentile


def nothing(folder: Path) -> list[Measured]:
    return []


def test_percentiles_go_by_rank() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert median(values) == 3.0
    assert percentile(values, 0.99) == 5.0
    assert percentile(values, 0.0) == 1.0


@pytest.mark.parametrize("everything", [False, True])
def test_a_benchmark_that_needs_peers_runs_only_when_it_is_named(everything: bool) -> None:
    peers = Benchmark(figures=("peers",), run=nothing, seconds=1, named_only=True)
    assert not wanted(peers, None, everything=everything)
    assert wanted(peers, "peers", everything=everything)
    assert not wanted(peers, "another", everything=everything)


def test_no_set_has_the_comparison_with_peers() -> None:
    every = [figure for one in BENCHMARKS if wanted(one, None, everything=True) for figure in one.figures]
    assert "peers" not in every
    assert "small_batches_per_s" in every
