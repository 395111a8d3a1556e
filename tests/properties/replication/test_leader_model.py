"""The leader's state against a cluster that loses, delays and repeats: nothing committed can be lost.

The same model must also find each planted bug, or it would show nothing.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.replication import eligibility, in_sync
from data_plane.replication.in_sync_change import Settled
from data_plane.replication.leader import LeaderState

from .model import START, Cluster, Violation, steps

STEPS = steps()
WEIGHTS = {
    "push": 4, "sync": 4, "hold": 5, "deliver": 6, "open": 4, "watch": 3, "propose": 4, "answer": 1.5, "append": 3,
    "lose answer": 1.5, "decide late": 1, "other": 0.2, "crash": 0.05, "come back": 0.06, "fence": 0.05,
    "controller": 1, "stream": 0.2, "pass": 0.7, "late open": 0.5, "follower watches": 2, "damage": 0.06,
}  # fmt: skip
"""By a step's first words; 1 unless named."""
STARTS = [((1, 2, 3), START, 2), ((1, 2), START, 2), ((1,), 0, 2), ((1, 2), 4, 2), ((1, 2, 3), START, 3)]


def weight(name: str) -> float:
    return next((value for words, value in WEIGHTS.items() if name.startswith(words)), 1)


def run(seed: int, phases: int = 12) -> Counter[str]:
    """One random run; what it reached. Raises `Violation`, naming the seed."""
    chosen = random.Random(seed)
    cluster = Cluster(*chosen.choice(STARTS))
    names = list(STEPS)
    for _ in range(phases):
        # Each phase has its own mixture, so that a part stands still while the others go on, and rare steps are common.
        weights = [weight(name) * chosen.choice((0.02, 0.3, 1, 3)) for name in names]
        for name in chosen.choices(names, weights, k=25):
            STEPS[name](cluster)
            try:
                cluster.check()
            except Violation as broken:
                raise Violation(f"seed {seed}, after {name!r}: {broken}") from None
    return Counter(cluster.steps_reached)


def search(seeds: int) -> Violation | None:
    """The first violation within so many seeds."""
    for seed in range(seeds):
        try:
            run(seed)
        except Violation as broken:
            return broken
    return None


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(STARTS), st.lists(st.sampled_from(sorted(STEPS)), max_size=60))
def test_no_order_of_events_loses_what_is_committed(
    start: tuple[tuple[int, ...], int, int], names: list[str]
) -> None:
    cluster = Cluster(*start)
    for name in names:
        STEPS[name](cluster)
        cluster.check()


def test_random_runs_lose_nothing_and_reach_every_protocol_step(full: bool) -> None:
    reached: Counter[str] = Counter()
    for seed in range(4_000 if full else 400):
        reached += run(seed)
    wanted = (
        "opened", "committed", "crashed", "came back", "emptied", "proposed", "applied", "refused", "unknown",
        "applied late", "gave up", "outdated",
    )  # fmt: skip
    assert [step for step in wanted if reached[step] < 20] == []


def _forget_proposal(self: LeaderState) -> None:
    self._change = Settled()


def _eligible_whatever(record: Any, members: Any, least: int) -> Any:
    left = tuple(
        b for b in record.replicas if (b in record.in_sync or b in record.eligible) and b not in members
    )
    return left, ()


PLANTED: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "the watermark moves below min in-sync": (
        in_sync, "committed_offset",
        lambda *, high_watermark, in_sync_count, min_insync, ends: max(high_watermark, min(ends)),
    ),
    "the watermark follows the fastest": (
        in_sync, "committed_offset",
        lambda *, high_watermark, in_sync_count, min_insync, ends: max(high_watermark, *ends),
    ),
    "no maximal set": (in_sync, "maximal_in_sync", lambda committed, proposed: committed),
    "written counts as durable": (
        in_sync, "counted_end", lambda *, strict, written_end, durable_end: written_end,
    ),
    "join without reaching the leader-epoch start": (
        in_sync, "reached_epoch_start", lambda *, end, leader_epoch_start_offset: True,
    ),
    "previous broker epoch accepted at join": (
        in_sync, "same_registration", lambda *, seen_epoch, registered_epoch: True,
    ),
    "join whatever it holds": (
        in_sync, "may_join",
        lambda *, end, high_watermark, leader_epoch_start_offset, following, seen_epoch, registered_epoch, active:
            following and active and seen_epoch == registered_epoch,
    ),
    "unknown outcome taken as refused": (LeaderState, "proposal_unknown", _forget_proposal),
    "what was acknowledged before a replica gave itself up counts": (
        LeaderState, "_outdate_followers", lambda self: None,
    ),
    "eligible though the watermark moved on": (eligibility, "eligible_after", _eligible_whatever),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.pure
def test_the_model_finds_the_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = PLANTED[bug]
    monkeypatch.setattr(owner, name, wrong)
    found: Exception | None
    try:
        found = search(3_000)
    except Exception as raised:
        pytest.fail(f"{bug}: found by {raised!r}, not by a broken promise")
    assert found is not None
