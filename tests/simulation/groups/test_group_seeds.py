"""Seeds of a group's life under faults: no commit goes back, nothing is left unread, everybody gets his share."""

import gc
from collections.abc import Callable
from functools import partial

import pytest

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import Key, OffsetKey, Record
from data_plane.node.groups import group_partition
from data_plane.node.groups.group_partition import GroupPartition
from data_plane.testkit.forks import run_forked
from data_plane.testkit.group_readers import Life
from tests.simulation.groups.group_story import ROUNDS, GroupStory
from tests.simulation.groups.lost_commits import LostCommit, ShortenedLog

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


def keep_logs_very_short() -> None:
    """Logs are written anew every few records, a record or two at a time, so that faults meet it half done."""
    for name, value in (("_SHORT", 20), ("_STALE", 2), ("_REWRITTEN_A_TICK", 2), ("_LOOK_MS", 100)):
        assert hasattr(group_partition, name)
        setattr(group_partition, name, value)


def live_short(seed: int) -> Life | str:
    keep_logs_very_short()
    return live(seed)


@pytest.mark.pure
def test_nothing_is_forgotten_when_logs_are_kept_short(full: bool) -> None:
    shortened = 0
    for answer in run_forked(live_short, range(1, 51) if full else SEEDS, jobs=2, wall_s_max=300.0):
        wrong = verdict(answer.result) if answer.result is not None else answer.ending
        assert not wrong, f"seed {answer.item}: {wrong}"
        assert isinstance(answer.result, Life)
        shortened += answer.result.shortened
    assert shortened > 0


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


def live_scripted(plant: Callable[[], None], story: type[GroupStory]) -> str:
    """What did not hold; empty when all did."""
    plant()
    gc.disable()
    try:
        story(1).run()
    except AssertionError as broken:
        return str(broken)
    return ""


def scripted(plant: Callable[[], None], story: type[GroupStory] = LostCommit) -> str:
    """In a process of its own, so that nothing planted stays."""
    (answer,) = run_forked(partial(live_scripted, story=story), [plant], jobs=1, wall_s_max=300.0)
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


@pytest.mark.pure
@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_bug_is_found(rule: str) -> None:
    assert "was acknowledged" in scripted(partial(plant, *PLANTED[rule]))


def rewrite_without_offsets() -> None:
    """Planted: what is kept of offsets is not written again."""
    keep_logs_very_short()
    kept = Coordinator.kept

    def forgetful(self: Coordinator, key: Key) -> tuple[Record, float] | None:
        return None if isinstance(key, OffsetKey) else kept(self, key)

    Coordinator.kept = forgetful  # type: ignore[method-assign]


def cut_before_it_is_committed() -> None:
    """Planted: the log begins where the rewrite began as soon as that has."""
    keep_logs_very_short()
    begun = GroupPartition._keep_short

    def hasty(self: GroupPartition) -> None:
        begun(self)
        if self._rewrite is not None and self.leading.high_watermark >= self._rewrite.begin:
            self._rewrite.keys, self._rewrite.part = iter(()), []

    GroupPartition._keep_short = hasty  # type: ignore[method-assign]


@pytest.mark.pure
def test_an_offset_committed_long_ago_outlives_the_log_it_was_written_to() -> None:
    assert scripted(keep_logs_very_short, ShortenedLog) == ""


@pytest.mark.pure
@pytest.mark.parametrize("bug", [rewrite_without_offsets, cut_before_it_is_committed])
def test_a_log_cut_off_before_all_is_written_anew_is_found(bug: Callable[[], None]) -> None:
    assert "was acknowledged" in scripted(bug, ShortenedLog)
