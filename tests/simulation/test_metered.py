"""Brokers that meter under faults: what stands in `__usage` is what was committed, and a seed is one trace."""

import os

import pytest

from data_plane.testkit.forks import run_forked
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.swarm import draw_plan, with_metering

pytestmark = pytest.mark.slow

SEEDS = range(12 if os.environ.get("FULL") else 3)
AGAIN = 2
"""The seed that runs twice."""
WALL_S_MAX = 300.0


def run_metered(seed: int) -> SeedResult:
    """One seed, in a process of its own."""
    return Scenario(with_metering(draw_plan(seed))).run()


@pytest.mark.timeout(1_200)
def test_what_is_metered_under_faults_is_what_was_committed_and_a_seed_is_one_trace() -> None:
    traces: dict[int, set[str]] = {}
    for answer in run_forked(run_metered, [*SEEDS, AGAIN], jobs=2, wall_s_max=WALL_S_MAX):
        assert answer.result is not None, answer.ending
        result = answer.result
        assert result.passed, f"seed {result.seed}: {result.violated}: {result.explanation}"
        traces.setdefault(result.seed, set()).add(result.trace_hash)
    assert all(traces[AGAIN]) and len(traces[AGAIN]) == 1
    assert len(traces) == len(SEEDS)
