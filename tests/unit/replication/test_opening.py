"""What a leader answers to a follower that opens: accepted, diverging, start over, or refused."""

import pytest

from data_plane.replication.opening import Accepted, Diverging, Refused, StartOver
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId

from .setup import COMMITTED, START, acked, advanced, gone, leader, opened


def test_a_follower_with_the_same_history_is_pushed_from_where_it_ends() -> None:
    assert opened(leader(log_end=120), 2, 117, last_epoch=5) == Accepted(117)


def test_an_empty_follower_is_pushed_from_the_beginning() -> None:
    assert opened(leader(), 2, 0, last_epoch=-1) == Accepted(0)


def test_a_follower_past_the_end_of_its_last_epoch_diverges_there() -> None:
    """Epoch 3 ends at 100 here; the follower has 30 more batches of it that nobody committed."""
    assert opened(leader(log_end=200), 2, 130, last_epoch=3) == Diverging(3, START)


def test_a_follower_with_an_epoch_the_leader_never_had_diverges_at_the_next_lower_one() -> None:
    assert opened(leader(log_end=200), 2, 90, last_epoch=4) == Diverging(3, START)


def test_a_follower_older_than_the_leaders_first_epoch_diverges_at_its_start() -> None:
    assert opened(leader(), 2, 20, last_epoch=1) == Diverging(1, 0)


def test_an_answer_that_is_not_accepted_changes_nothing() -> None:
    state = leader((1, 2))
    opened(state, 2, 130, last_epoch=3)
    advanced(state, 140, 140, 1)
    assert not acked(state, 2, 140)
    assert state.high_watermark == COMMITTED


def test_a_follower_before_the_log_start_starts_over_there() -> None:
    assert opened(leader(log_end=200), 2, 40, last_epoch=3, stored_from=60) == StartOver(60)


def test_an_empty_log_that_ends_beyond_the_leaders_starts_over() -> None:
    assert opened(leader(), 2, 150, last_epoch=-1, stored_from=10) == StartOver(10)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_only_the_equal_leader_epoch_is_answered(epoch: int, code: ErrorCode) -> None:
    answer = opened(leader(), 2, leader_epoch=epoch)
    assert isinstance(answer, Refused)
    assert answer.code is code


@pytest.mark.parametrize(
    ("seen", "registered", "code"),
    [
        (49, 50, ErrorCode.FENCED_LEADER_EPOCH),
        (51, 50, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (50, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_only_the_registered_broker_epoch_is_answered(seen: int, registered: int, code: ErrorCode) -> None:
    answer = opened(leader(), 2, broker_epoch=seen, registered=registered)
    assert isinstance(answer, Refused)
    assert answer.code is code


@pytest.mark.parametrize(
    ("generation", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_only_the_current_replica_generation_is_answered(generation: int, code: ErrorCode) -> None:
    answer = opened(leader(), 2, generation=generation)
    assert isinstance(answer, Refused)
    assert answer.code is code


def test_a_broker_that_holds_no_replica_is_refused() -> None:
    answer = opened(leader(), 9)
    assert isinstance(answer, Refused)
    assert answer.code is ErrorCode.NOT_FOUND
    assert "broker 9" in answer.message


@pytest.mark.parametrize(
    ("broker_epoch", "leader_epoch", "end", "durable"),
    [(49, 5, 110, 110), (50, 4, 110, 110), (50, 5, 111, 111), (50, 5, 105, 106)],
    ids=["earlier registration", "earlier leader epoch", "beyond the leader's log", "durable beyond written"],
)
def test_held_that_cannot_be_true_is_ignored(
    broker_epoch: int, leader_epoch: int, end: int, durable: int
) -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    assert not acked(state, 2, end, durable=durable, broker_epoch=broker_epoch, leader_epoch=leader_epoch)
    assert state.high_watermark == START


def test_held_without_an_open_is_ignored() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    gone(state, 2)
    assert not acked(state, 2, 110)
    assert not acked(state, 9, 110)


@pytest.mark.parametrize(("broker_epoch", "handle"), [(50, 4), (50, 5), (49, 9)])
def test_an_open_that_arrives_after_a_newer_one_changes_nothing(broker_epoch: int, handle: int) -> None:
    """On an older stream, of this life or the one before: what it says may no longer be so."""
    state = leader((1, 2))
    assert opened(state, 2, handle=5) == Accepted(START)
    late = opened(state, 2, 90, broker_epoch=broker_epoch, registered=broker_epoch, handle=handle)
    assert isinstance(late, Refused) and late.code is ErrorCode.FENCED_LEADER_EPOCH
    assert state.is_newest_open(BrokerId(2), 50, 5)
    advanced(state, 110, 110, 1)
    assert not acked(state, 2, 110, broker_epoch=broker_epoch, handle=handle) or handle == 5
    gone(state, 2, handle=4)
    assert state.is_followed_by(BrokerId(2)), "it is not what it opened last that ended"
    assert acked(state, 2, 110, handle=5)
    assert state.counted_end_of(BrokerId(2)) == 110


@pytest.mark.parametrize("terms", [{"registered": 0}, {"generation": 2}, {"end": 130}])
def test_a_newer_open_ends_what_was_opened_before_whatever_its_answer(terms: dict[str, int]) -> None:
    state = leader((1, 2))
    opened(state, 3)
    assert not isinstance(opened(state, 3, **terms), Accepted)  # type: ignore[arg-type]
    assert not state.is_followed_by(BrokerId(3))
    assert not acked(state, 3, START)


def test_held_that_arrives_late_takes_nothing_back() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110)
    assert acked(state, 2, 105)
    assert state.counted_end_of(BrokerId(2)) == 110


def test_a_new_leader_epoch_knows_nothing_of_its_followers() -> None:
    state = leader()
    assert [(lag.following, lag.end_offset, lag.lag) for lag in state.describe(0)] == [(False, -1, -1)] * 2


def test_lag_is_told_by_follower() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3, 40)
    advanced(state, 110, 110, 30)
    two, three = state.describe(80)
    assert (two.broker, two.in_sync, two.lag, two.caught_up_ms_ago) == (2, True, 10, 50)
    assert (three.broker, three.in_sync, three.lag) == (3, False, 70)
