"""What is left of a failing seed is less than there was, and breaks the same invariant, every time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.testkit.forks import run_forked
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.shrink import as_table, run_plan, shrink
from data_plane.testkit.swarm import Plan
from tests.simulation.bug import PlantedBug, planted
from tests.simulation.plans import leaders_come_and_go
from tests.simulation.planted_bugs import BUGS

BUG: PlantedBug = next(bug for bug in BUGS if bug.name == "duplicate appended")
"""Any seed finds it: its producer sends batches again that were acknowledged."""


def run_with_bug(plan: Plan) -> SeedResult:
    """One run, in a process of its own, with the bug planted there."""
    with planted(BUG.target, BUG.wrong):
        return run_plan(plan)


def in_own_process(run: Callable[[Plan], SeedResult], plan: Plan) -> SeedResult:
    (answer,) = run_forked(run, [plan], jobs=1, wall_s_max=120.0)
    assert answer.result is not None, answer.ending
    return answer.result


@pytest.mark.pure
@pytest.mark.slow
def test_a_planted_bug_is_found_by_fewer_faults_and_clients_and_by_the_same_invariant() -> None:
    plan = replace(leaders_come_and_go(1), consumers=1, sdk_consumers=1, chaos_s=3.0)
    failed = in_own_process(run_with_bug, plan)
    assert failed.violated == "I4"
    small = shrink(plan, failed, run=run_with_bug, runs_max=5)
    again = in_own_process(run_with_bug, small.plan)
    assert (again.violated, again.trace_hash) == ("I4", small.result.trace_hash), "a plan is one run"
    assert len(small.result.harms) < len(failed.harms)
    assert small.plan.consumers + small.plan.sdk_consumers == 0 < plan.consumers + plan.sdk_consumers
    shown = small.lines()
    assert shown[0].startswith("seed 1 violates I4")
    assert len(shown) < 200
    clean = in_own_process(run_plan, small.plan)
    assert clean.passed, "the product as it is has nothing of it"


def test_a_table_tells_time_node_and_event_and_repetitions_once() -> None:
    lines = [
        "    1.000000  b0         start        b0.1",
        "    2.000000  b0         committed    orders-0 0 to 3",
        "    2.100000  b0         committed    orders-0 3 to 5",
        "    3.000000  checker    I10          it is gone",
    ]
    table = as_table(lines)
    assert [line.split(None, 2) for line in table[1:]] == [
        ["1.000000", "b0", "start b0.1"],
        ["2.100000", "b0", "committed orders-0 3 to 5"],
        ["3.000000", "checker", "I10 it is gone"],
    ]
