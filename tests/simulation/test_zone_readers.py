"""Consumers that read from followers while brokers fail: every promise to a reader holds, and followers do serve."""

import os

import pytest

from data_plane.testkit.activities import Activity
from data_plane.testkit.forks import run_forked
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.swarm import ZONES, draw_plan
from tests.simulation import plans

pytestmark = pytest.mark.slow

SEEDS = range(12 if os.environ.get("FULL") else 3)
WALL_S_MAX = 300.0


def run_near(seed: int) -> SeedResult:
    """One seed, in a process of its own."""
    return Scenario(plans.nearest_is_a_follower(seed)).run()


@pytest.mark.timeout(1_200)
def test_readers_of_followers_see_what_readers_of_leaders_would() -> None:
    served = 0
    for answer in run_forked(run_near, SEEDS, jobs=2, wall_s_max=WALL_S_MAX):
        assert answer.result is not None, answer.ending
        result = answer.result
        assert result.passed, f"seed {result.seed}: {result.violated}: {result.explanation}"
        served += result.activities.get(Activity.READ_NEAR.value, 0)
    assert served > 0


def test_a_third_of_the_seeds_reads_from_followers() -> None:
    zones = [draw_plan(seed).reader_zone for seed in range(300)]
    assert 70 < sum(zone is not None for zone in zones) < 130
    assert {*ZONES} == {zone for zone in zones if zone is not None}
