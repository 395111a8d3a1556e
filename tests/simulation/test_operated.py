"""Replicas and leaders are moved about under faults: nothing is lost, and every move comes to its end.

`FULL=1` runs 30 seeds, otherwise 3.
"""

import os

import pytest

from data_plane.testkit.forks import run_forked
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.swarm import draw_plan, with_operator

pytestmark = pytest.mark.slow

SEEDS = range(30 if os.environ.get("FULL") else 3)
WALL_S_MAX = 300.0


def run_operated(seed: int) -> SeedResult:
    """One seed, in a process of its own."""
    return Scenario(with_operator(draw_plan(seed))).run()


@pytest.mark.timeout(1_200)
def test_moves_under_faults_lose_nothing_and_come_to_their_end() -> None:
    asked = 0
    for answer in run_forked(run_operated, SEEDS, jobs=2, wall_s_max=WALL_S_MAX):
        assert answer.result is not None, answer.ending
        result = answer.result
        assert result.passed, f"seed {result.seed}: {result.violated}: {result.explanation}"
        asked += result.counts.get("reassign", 0)
    assert asked > len(SEEDS)
