"""Seeds of a group's life under faults: no commit goes back, nothing is left unread, everybody gets his share."""

import gc
import os
from collections.abc import Callable
from functools import partial

import pytest

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.requests import Commit, CommitAnswer, Decision
from data_plane.node.group_partition import GroupPartition
from data_plane.testkit.forks import run_forked
from tests.simulation.groups.group_story import ROUNDS, GroupStory, Life

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


# -- planted bugs ---------------------------------------------------------------------------------------


async def answer_without_waiting(self: GroupPartition, end: int) -> None:
    """RL88 broken: answered before it is committed."""


async def serve_without_replay(self: GroupPartition) -> None:
    """RL79 broken: a new coordinator serves before it knows anything."""
    self.core.loaded(self._clock.monotonic_ms())
    self.serving = True
    self.replica.on_commit[self] = self._committed
    self.replica.on_role[self] = self._role_changed


def commit_without_fence(self: Coordinator, request: Commit) -> Decision[CommitAnswer]:
    """RL87 broken: whoever commits, commits."""
    group = self._groups.get((request.tenant, request.group))
    return Decision(CommitAnswer(), self._offset_records(group, request))


def live_with(plant: Callable[[], None], seed: int) -> Life | str:
    plant()
    return live(seed)


def plant(owner: type, name: str, bug: object) -> None:
    setattr(owner, name, bug)  # in a process of its own


PLANTED = {
    "RL88": (GroupPartition, "_until_committed", answer_without_waiting, 5),
    "RL79": (GroupPartition, "load", serve_without_replay, 1),
    "RL87": (Coordinator, "commit", commit_without_fence, 7),
}
"""With the seed that found it last, which is tried first."""
TRIES = 8


@pytest.mark.parametrize("rule", PLANTED if os.environ.get("FULL") else ["RL88"])
def test_a_planted_bug_is_found(rule: str) -> None:
    owner, name, bug, first = PLANTED[rule]
    work = partial(live_with, partial(plant, owner, name, bug))
    for seed in [first, *(seed for seed in range(1, TRIES) if seed != first)]:
        (answer,) = run_forked(work, [seed], jobs=1, wall_s_max=300.0)
        if verdict(answer.result):
            return
    pytest.fail(f"{TRIES} seeds did not find it")
