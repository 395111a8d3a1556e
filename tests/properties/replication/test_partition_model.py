"""Many leader epochs of one partition: what is committed is kept and shown, all heals, and planted bugs are found."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from data_plane.controller import elections
from data_plane.replication import eligibility, follower, in_sync
from data_plane.replication import leader as leader_module

from . import partition
from .model import Violation
from .partition import Cluster, Step, steps

STEPS = steps()
DELETING = steps(deletes=True)
WEIGHTS = {
    "deliver": 15, "decide late": 0.5, "pass": 0.2, "crash": 0.05, "lose disk": 0.2, "start": 0.5, "register": 2,
    "see one": 0.5, "see all": 2, "control": 0.5, "suspect": 0.03, "produce": 4, "sync": 5, "propose": 1.5,
    "hear answer": 1, "lose answer": 0.4, "open": 3, "pull": 6, "hold": 6, "stream": 0.1,
    "delete": 2, "trim": 2,
}  # fmt: skip
"""By a step's first words."""


OFTEN = {"crash": 3, "start": 4, "register": 2, "suspect": 2, "control": 2, "propose": 3, "hear answer": 3}
"""Times as often where records are deleted: it takes elections to show who begins where."""


def weight(name: str) -> float:
    return next(value for words, value in WEIGHTS.items() if name.startswith(words))


def often(name: str) -> float:
    return next((times for words, times in OFTEN.items() if name.startswith(words)), 1)


def run_deleting(seed: int) -> Counter[str]:
    """As `run`, and records are deleted."""
    return run(seed, acts=DELETING)


def run(seed: int, phases: int = 12, acts: dict[str, Step] = STEPS) -> Counter[str]:
    """One random run that ends healed; what it reached. Raises `Violation`, naming the seed."""
    chosen = random.Random(seed)
    cluster = Cluster(
        lambda probability: chosen.random() < probability, min_insync=chosen.choice((1, 2, 2, 2, 3))
    )
    if cluster.min_insync == 1:
        cluster.disks_lost = 1  # with one copy demanded, none may be lost
    names = list(acts)
    step = "start"
    try:
        for _ in range(phases):
            weights = [weight(name) * chosen.choice((0.05, 0.5, 1, 3)) for name in names]
            if acts is DELETING:
                weights = [often(name) * weight for name, weight in zip(names, weights, strict=True)]
            for step in chosen.choices(names, weights, k=80):
                acts[step](cluster)
                cluster.check()
        step = "heal"
        cluster.heal()
    except Violation as broken:
        raise Violation(f"seed {seed}, at {step!r}: {broken}") from None
    return Counter(cluster.reached_steps)


def search(seeds: range) -> Violation | None:
    """The first violation among these seeds."""
    for seed in seeds:
        try:
            run(seed)
        except Violation as broken:
            return broken
    return None


def test_random_runs_keep_all_that_is_committed_and_heal(full: bool) -> None:
    reached: Counter[str] = Counter()
    for seed in range(2_000 if full else 120):
        reached += run(seed)
    wanted = (
        "crash", "disk lost", "registered", "registration unknown", "noticed a fence", "fenced", "elected",
        "plan applied", "proposal applied", "proposal refused", "proposal unknown", "proposal applied late",
        "diverged", "committed",
    )  # fmt: skip
    assert [step for step in wanted if reached[step] < 10] == []


def test_random_runs_tell_no_log_start_that_a_later_leader_does_not_hold_to(full: bool) -> None:
    reached: Counter[str] = Counter()
    for seed in range(2_000 if full else 60):
        reached += run_deleting(seed)
    wanted = ("crash", "elected", "log start moved", "log start told", "proposal applied", "fenced")
    assert [step for step in wanted if reached[step] < 10] == []


def _cut_at_watermark(self: follower.FollowerState, *, high_watermark: int, **_: object) -> int:
    self.phase = follower.Phase.IDLE
    return high_watermark


def _strip_like_clean(record: Any, broker: Any, *, min_insync: int) -> Any:
    return elections.without_broker(record, broker, min_insync=min_insync)


PLANTED: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "unclean replica stays eligible": (elections, "strip_unclean", _strip_like_clean),
    "no eligible replicas": (eligibility, "eligible_after", lambda record, members, least: ((), ())),
    "truncate to the watermark": (follower.FollowerState, "diverging", _cut_at_watermark),
    "no divergence seen": (leader_module, "divergence", lambda position, *, epoch_lookup, log_end: None),
    "a broker returns with what it led": (elections, "departures", lambda *args, **kwargs: []),
    "latest offset told before the epoch start": (
        in_sync, "leader_ready", lambda *, high_watermark, leader_epoch_start_offset: True,
    ),
    "the watermark moves below min in-sync": (
        in_sync, "committed_offset",
        lambda *, high_watermark, in_sync_count, min_insync, ends: max(high_watermark, min(ends)),
    ),
    "written counts as durable": (
        in_sync, "counted_end", lambda *, strict, written_end, durable_end: written_end,
    ),
    "no maximal set": (in_sync, "maximal_in_sync", lambda committed, proposed: committed),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.pure
def test_the_model_finds_the_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(bug, *PLANTED[bug], monkeypatch, range(600))


@pytest.mark.pure
def test_the_model_finds_that_the_own_epochs_end_is_ignored_when_truncating(
    full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two logs never agree again. The short form begins near a seed with the elections that it takes."""

    def wrong(*, epoch_lookup: Any, log_end: int, divergence_epoch: int, divergence_end: int) -> int:
        return min(log_end, divergence_end)

    seeds = range(4_000) if full else range(570, 600)
    assert_found("own epoch's end ignored", follower, "truncation_point", wrong, monkeypatch, seeds)


def assert_found(
    bug: str,
    owner: object,
    name: str,
    wrong: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    seeds: range,
) -> None:
    """The runs break a promise with the bug in place, and raise nothing else."""
    monkeypatch.setattr(owner, name, wrong)
    if hasattr(partition, name):
        monkeypatch.setattr(partition, name, wrong)
    try:
        found = search(seeds)
    except Exception as raised:
        pytest.fail(f"{bug}: found by {raised!r}, not by a broken promise")
    assert found is not None, f"{bug}: not found within {seeds}"
