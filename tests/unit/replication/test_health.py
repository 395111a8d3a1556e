"""A replica's health: every state meets everything that can happen to it."""

import pytest

from data_plane.replication.health import (
    Damaged,
    Health,
    LostTail,
    ReadOnly,
    Remedy,
    Retired,
    Sound,
    Standing,
    at_boot,
    damaged,
    gave_up,
    made_whole,
    reason_of,
    remedy,
    retired,
    takes_role,
)

ONLY, ALONE, REPLACEABLE = Standing.ONLY, Standing.ALONE, Standing.REPLACEABLE
BAD, OLD = "bad checksum", "what was found before"
DAMAGED, LOST = Damaged(reason=OLD), LostTail(reason=OLD)
READ_ONLY, READ_ONLY_LOST = ReadOnly(reason=OLD), ReadOnly(reason=OLD, tail_lost=True)
GONE = Retired(reason=OLD)
STATES: tuple[Health, ...] = (Sound(), READ_ONLY, READ_ONLY_LOST, DAMAGED, gave_up(DAMAGED), LOST, GONE)


@pytest.mark.parametrize(
    ("before", "standing", "after"),
    [
        (Sound(), ONLY, ReadOnly(reason=BAD)),
        (Sound(), ALONE, Sound()),
        (Sound(), REPLACEABLE, Damaged(reason=BAD)),
        (READ_ONLY, ONLY, READ_ONLY),
        (READ_ONLY, ALONE, READ_ONLY),
        (READ_ONLY, REPLACEABLE, Damaged(reason=BAD)),
        (READ_ONLY_LOST, ONLY, READ_ONLY_LOST),
        (READ_ONLY_LOST, ALONE, READ_ONLY_LOST),
        (READ_ONLY_LOST, REPLACEABLE, LostTail(reason=BAD)),
        *(
            (state, standing, state)
            for state in (DAMAGED, gave_up(DAMAGED), LOST, GONE)
            for standing in Standing
        ),
    ],
)
def test_damage_is_told_once_and_never_makes_a_replica_better(
    before: Health, standing: Standing, after: Health
) -> None:
    assert damaged(before, BAD, standing) == after


@pytest.mark.parametrize("tail_lost", [False, True])
def test_what_recovery_finds_stops_all_but_the_only_replica(tail_lost: bool) -> None:
    assert at_boot("", tail_lost=tail_lost, only=False) == Sound()
    assert at_boot(BAD, tail_lost=tail_lost, only=True) == ReadOnly(reason=BAD, tail_lost=tail_lost)
    expected = LostTail(reason=BAD) if tail_lost else Damaged(reason=BAD)
    assert at_boot(BAD, tail_lost=tail_lost, only=False) == expected


@pytest.mark.parametrize("before", STATES)
def test_a_retired_replica_stays_retired(before: Health) -> None:
    after = retired(before, BAD)
    assert not takes_role(after)
    for standing in Standing:
        assert damaged(after, "another", standing) == after
    assert gave_up(after) == made_whole(after) == retired(after, "another") == after
    assert reason_of(after) == (OLD if before == GONE else BAD)


@pytest.mark.parametrize("before", STATES[:-1])
def test_a_replica_of_which_all_that_is_bad_was_cut_is_sound(before: Health) -> None:
    assert made_whole(before) == Sound()


def _remedy(health: Health, *, declared: bool = False, counted_on: bool = False, led: bool = True) -> Remedy:
    return remedy(health, loss_declared=declared, counted_on=counted_on, led=led, damage_named=True)


def test_a_damaged_replica_is_fetched_again_only_once_it_was_given_up_and_nobody_counts_on_it() -> None:
    for health in (DAMAGED, LOST):
        assert _remedy(health) is Remedy.GIVE_UP
        assert _remedy(gave_up(health)) is Remedy.FETCH_AGAIN
        assert _remedy(gave_up(health), counted_on=True) is Remedy.GIVE_UP
        assert _remedy(gave_up(health), led=False) is Remedy.NONE
        assert _remedy(health, declared=True) is Remedy.ACCEPT_LOSS


def test_the_evidence_of_a_broken_invariant_is_kept() -> None:
    for health, expected in ((gave_up(DAMAGED), Remedy.NONE), (gave_up(LOST), Remedy.FETCH_AGAIN)):
        found = remedy(health, loss_declared=False, counted_on=False, led=True, damage_named=False)
        assert found is expected


@pytest.mark.parametrize("health", [READ_ONLY, READ_ONLY_LOST])
def test_the_only_replica_waits_for_an_operator(health: Health) -> None:
    assert takes_role(health)
    assert _remedy(health, counted_on=True) is Remedy.NONE
    assert _remedy(health, declared=True) is Remedy.ACCEPT_LOSS


@pytest.mark.parametrize("health", [Sound(), GONE])
def test_nothing_is_done_for_what_is_sound_or_goes(health: Health) -> None:
    for declared in (False, True):
        for counted_on in (False, True):
            assert _remedy(health, declared=declared, counted_on=counted_on) is Remedy.NONE
