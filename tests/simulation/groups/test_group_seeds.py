"""Seeds of a group's life under faults: no commit goes back, nothing is left unread, everybody gets his share."""

import gc
from collections.abc import Callable
from functools import partial

import pytest

from data_plane.node.group_partition import GroupPartition
from data_plane.testkit.forks import run_forked
from tests.simulation.groups.group_story import ROUNDS, GroupStory, Life
from tests.simulation.groups.lost_commits import LostCommit

pytestmark = pytest.mark.slow

SEEDS = range(1, 3)


def live(seed: int, rounds: int = ROUNDS) -> Life | str:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return GroupStory(seed, rounds).run()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def verdict(life: Life | str | None) -> str:
    """Empty when all held."""
    if not isinstance(life, Life):
        return life or "no result"
    if life.back or life.forgotten:
        return f"commits went back {life.back} or were forgotten {life.forgotten}\n{life.faults}"
    return ""


def test_groups_live_through_faults(full: bool) -> None:
    failed: list[str] = []
    moved = kinds = 0
    for answer in run_forked(live, range(1, 101) if full else SEEDS, jobs=2, wall_s_max=300.0):
        life = answer.result
        wrong = verdict(life) if life is not None else answer.ending
        if wrong:
            failed.append(f"seed {answer.item}: {wrong}")
        elif isinstance(life, Life):
            moved += life.moved
            kinds = max(kinds, len({fault.split()[1] for fault in life.faults}))
    assert not failed, "\n".join(failed)
    assert moved > 0
    assert kinds >= 3


def test_the_same_seed_gives_the_same_trace() -> None:
    hashes = [
        answer.result.trace_hash
        for _ in range(2)
        for answer in run_forked(partial(live, rounds=3), [3], jobs=1, wall_s_max=300.0)
        if isinstance(answer.result, Life)
    ]
    assert len(hashes) == 2
    assert hashes[0] == hashes[1]


# -- what was acknowledged ------------------------------------------------------------------------------


def live_scripted(plant: Callable[[], None]) -> str:
    """What did not hold; empty when all did."""
    plant()
    gc.disable()
    try:
        LostCommit(1).run()
    except AssertionError as broken:
        return str(broken)
    return ""


def scripted(plant: Callable[[], None]) -> str:
    """In a process of its own, so that nothing planted stays."""
    (answer,) = run_forked(live_scripted, [plant], jobs=1, wall_s_max=300.0)
    return answer.ending if answer.result is None else answer.result


def nothing() -> None:
    """The product as it is."""


async def answer_without_waiting(self: GroupPartition, end: int) -> None:
    """RL88 broken: answered before it is committed."""


async def serve_without_replay(self: GroupPartition) -> None:
    """RL79 broken: a new coordinator serves before it knows anything."""
    self.core.loaded(self._clock.monotonic_ms())
    self.serving = True
    self.replica.on_commit[self] = self._committed
    self.replica.on_role[self] = self._role_changed


def plant(name: str, bug: object) -> None:
    setattr(GroupPartition, name, bug)


PLANTED = {"RL88": ("_until_committed", answer_without_waiting), "RL79": ("load", serve_without_replay)}


def test_an_acknowledged_commit_outlives_its_coordinator() -> None:
    assert scripted(nothing) == ""


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_bug_is_found(rule: str) -> None:
    assert "was acknowledged" in scripted(partial(plant, *PLANTED[rule]))
