"""What is done to a cluster besides producing and reading is really done, and a wrong product is found by it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.testkit.activities import Activity
from data_plane.testkit.faults import FaultKind, Step
from data_plane.testkit.forks import run_forked
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.swarm import ZONES, Plan, with_metering, with_operator
from tests.simulation.bug import planted
from tests.simulation.plans import plan_of

pytestmark = pytest.mark.slow

WALL_S_MAX = 200.0
SEED = 5
LIVES_MAX = 6


def busy_plan(seed: int) -> Plan:
    """Everything at once, with a few faults that lose nothing."""
    plan = plan_of(seed, (FaultKind.KILL, FaultKind.CUT), (Step.PRODUCE, Step.ELECTION))
    busy = with_operator(with_metering(replace(plan, fault_gap_s=1.0, chaos_s=15.0)))
    read = replace(busy, sdk_consumers=max(1, busy.sdk_consumers), reader_zone=ZONES[seed % len(ZONES)])
    return replace(read, grouped=True, throttled=True, changing=True, stopped=True)


def stopping_plan(seed: int) -> Plan:
    """Nothing but clean stops."""
    return replace(plan_of(seed, (FaultKind.CLOCK_JUMP,), (Step.PRODUCE,)), stopped=True, fault_gap_s=3.0)


def changing_plan(seed: int) -> Plan:
    """Nothing but a topic that changes its shape."""
    return replace(plan_of(seed, (FaultKind.CLOCK_JUMP,), (Step.PRODUCE,)), changing=True, fault_gap_s=3.0)


def run(seed: int) -> SeedResult:
    """A busy life in a process of its own, which makes the plan: compiled settings do not go to another process."""
    (answer,) = run_forked(_run, [seed], jobs=1, wall_s_max=WALL_S_MAX)
    assert answer.result is not None, answer.ending
    return answer.result


def _run(seed: int) -> SeedResult:
    return Scenario(busy_plan(seed)).run()


def test_lives_in_which_everything_is_done_hold_every_invariant() -> None:
    """One life may be over before its tenant is throttled or its partitions grow; a few do all of it."""
    missing = {what.value for what in Activity}
    for seed in range(SEED, SEED + LIVES_MAX):
        result = run(seed)
        assert result.passed, f"seed {seed}: {result.violated}: {result.explanation}"
        missing -= set(result.activities)
        if not missing:
            return
    raise AssertionError(f"never done in {LIVES_MAX} lives: {missing}")


async def _nothing(*_: object) -> None:
    """Done wrong: it is left out."""


@pytest.mark.pure
@pytest.mark.parametrize(
    ("plan", "target", "wrong", "violated"),
    [
        (
            stopping_plan,
            "data_plane.node.replicas.committer:Committer.checkpoint",
            lambda right: _nothing,
            "I22",
        ),
        (
            changing_plan,
            "data_plane.node.serving.record_deletion:_begins",
            lambda right: lambda replica, offset: True,
            "I23",
        ),
        (
            changing_plan,
            "data_plane.testkit.disk:SimDisk.remove_directory",
            lambda right: lambda disk, path: None,
            "I18",
        ),
    ],
    ids=["a clean stop without a checkpoint", "a deletion confirmed at once", "a deleted topic's files stay"],
)
def test_what_is_done_wrong_is_found(
    plan: Callable[[int], Plan], target: str, wrong: Callable[[Any], Any], violated: str
) -> None:
    with planted(target, wrong):
        result = Scenario(plan(SEED)).run()
    assert result.violated == violated, result.explanation
    assert Scenario(plan(SEED)).run().passed
