"""Seeds of a group's life under faults: no commit goes back, nothing is left unread, everybody gets his share."""

import gc

import pytest

from data_plane.testkit.forks import run_forked
from tests.simulation.groups.group_story import GroupStory, Life

pytestmark = pytest.mark.slow

SEEDS = range(1, 5)


def live(seed: int) -> Life | str:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return GroupStory(seed).run()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def test_groups_live_through_faults(full: bool) -> None:
    seeds = range(1, 101) if full else SEEDS
    failed: list[str] = []
    moved = kinds = 0
    for answer in run_forked(live, seeds, jobs=2, wall_s_max=300.0):
        life = answer.result
        if not isinstance(life, Life):
            failed.append(f"seed {answer.item}: {life or answer.ending}")
        elif life.back:
            failed.append(f"seed {answer.item}: commits went back: {life.back}\n{life.faults}")
        else:
            moved += life.moved
            kinds = max(kinds, len({fault.split()[1] for fault in life.faults}))
    assert not failed, "\n".join(failed)
    assert moved > 0
    assert kinds >= 3
