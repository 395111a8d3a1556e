"""Committed, durable and written ends are different offsets, at the leader and at followers: which of them counts."""

import pytest

from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import Accepted, Diverging, StartOver
from data_plane.replication.own_log import last_ends
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import InvariantBroken

from .setup import (
    COMMITTED,
    DURABLE,
    START,
    Log,
    acked,
    advanced,
    carry_out,
    everybody,
    leader,
    log_of,
    opened,
    record,
)

TWO = BrokerId(2)


# -- as an epoch begins ---------------------------------------------------------------------------------


def test_the_epoch_begins_where_the_log_is_written_to() -> None:
    state = leader((1,))
    opened(state, 2, (DURABLE + START) // 2)
    assert state.propose(1, everybody) is None, "it lacks what the leader has not synced yet"
    acked(state, 2, START)
    assert state.propose(2, everybody) is not None


def test_a_log_may_be_known_to_be_committed_beyond_what_is_durable_here() -> None:
    """A follower notes the leader's watermark as far as its own log is written."""
    assert leader(high_watermark=DURABLE + 3).high_watermark == DURABLE + 3


def test_what_the_record_says_is_deleted_was_committed_though_it_is_not_durable_here() -> None:
    assert leader(known=record(log_start=DURABLE + 3)).high_watermark == DURABLE + 3


# -- opening --------------------------------------------------------------------------------------------


def test_a_follower_is_pushed_from_where_it_is_written_to() -> None:
    assert opened(leader(), 2, START, durable=COMMITTED) == Accepted(START)


def test_an_empty_follower_may_begin_between_the_watermark_and_the_end() -> None:
    assert opened(leader(), 2, DURABLE, last_epoch=-1) == Accepted(DURABLE)


def test_a_follower_diverges_by_what_it_has_written() -> None:
    assert opened(leader(log_end=200), 2, 130, durable=START, last_epoch=3) == Diverging(3, START)
    assert opened(leader(), 2, 150, durable=COMMITTED, last_epoch=-1, stored_from=10) == StartOver(10)


def test_a_follower_is_before_the_first_segment_by_what_it_has_written() -> None:
    assert opened(leader(), 2, 65, durable=55, stored_from=60) == Accepted(65)


@pytest.mark.parametrize(("strict", "counted"), [(True, COMMITTED), (False, START)])
def test_an_open_says_both_ends_of_a_follower(strict: bool, counted: int) -> None:
    state = leader(strict=strict)
    opened(state, 2, START, durable=COMMITTED)
    assert state.counted_end_of(TWO) == counted


# -- joining --------------------------------------------------------------------------------------------


def committed_to(mark: int, *, written: int) -> LeaderState:
    """Brokers 1 and 2 have that durably; the leader's log goes on."""
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, written, mark, 1)
    acked(state, 2, mark)
    assert (state.high_watermark, state.log_end) == (mark, written)
    return state


def test_a_follower_joins_that_has_what_is_committed_though_more_is_written() -> None:
    state = committed_to(110, written=130)
    opened(state, 3, 110, last_epoch=5)
    proposal = state.propose(1, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)


def test_a_follower_does_not_join_without_what_is_committed_though_it_reached_the_epoch() -> None:
    state = committed_to(110, written=130)
    opened(state, 3, 109, last_epoch=5)
    assert state.propose(1, everybody) is None


def test_a_log_begins_at_most_at_what_is_committed() -> None:
    state = committed_to(110, written=130)
    with pytest.raises(InvariantBroken, match="at most at its watermark"):
        state.want_log_start(111, 1)
    state.want_log_start(110, 1)


# -- leaving --------------------------------------------------------------------------------------------


def proposed_at(state: LeaderState, now_ms: float) -> tuple[int, ...]:
    proposal = state.propose(now_ms, everybody)
    return state.record.in_sync if proposal is None else proposal.in_sync


def test_a_follower_that_writes_and_does_not_sync_leaves() -> None:
    """It says all the time that it has written everything."""
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1_000)
    acked(state, 2, 110, durable=START, now_ms=1_001)
    advanced(state, 120, 120, 9_000)
    acked(state, 2, 120, durable=START, now_ms=9_001)
    assert proposed_at(state, 11_000) == (1, 2)
    assert proposed_at(state, 11_001) == (1,)


def test_a_follower_that_opens_again_without_a_sync_is_as_late_as_it_was() -> None:
    state = leader((1, 2), log_end=200)
    opened(state, 2, 200, durable=150, last_epoch=5, now_ms=9_000)
    assert proposed_at(state, 10_000) == (1, 2)
    assert proposed_at(state, 10_001) == (1,)


def test_a_follower_that_opens_behind_is_late_though_it_has_what_is_committed() -> None:
    state = leader((1, 2), log_end=200)
    opened(state, 2, 150, last_epoch=5, now_ms=9_000)
    assert state.high_watermark == 150
    assert proposed_at(state, 10_001) == (1,)


def test_a_follower_is_not_late_for_what_the_leader_itself_has_not_synced() -> None:
    state = committed_to(110, written=130)
    assert proposed_at(state, 99_999) == (1, 2)


def test_a_follower_was_caught_up_when_it_had_what_was_durable_at_the_leader_then() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 1_000, 110, 500)
    acked(state, 2, 105, now_ms=600)
    advanced(state, 1_000, 200, 700)
    acked(state, 2, 150, now_ms=9_000)
    advanced(state, 1_000, 300, 9_500)
    acked(state, 2, 210, now_ms=12_000)
    assert proposed_at(state, 19_000) == (1, 2), "it reached the 200 of the ninth second"
    assert proposed_at(state, 19_001) == (1,)


# -- what is told and done ------------------------------------------------------------------------------


def test_a_follower_that_has_written_all_and_not_synced_it_is_no_quiet_one() -> None:
    state = leader()
    opened(state, 2, START, durable=DURABLE)
    opened(state, 3)
    assert not state.quiet
    acked(state, 2, START)
    assert state.quiet


def test_lag_is_told_by_the_ends_that_count() -> None:
    state = leader()
    opened(state, 2)
    advanced(state, 120, 110, 30)
    acked(state, 2, 115, durable=104, now_ms=40)
    lag = state.describe(80)[0]
    assert (lag.broker, lag.end_offset, lag.lag, lag.caught_up_ms_ago) == (2, 104, 6, 50)
    relaxed = leader(strict=False)
    opened(relaxed, 2)
    advanced(relaxed, 120, 110, 30)
    acked(relaxed, 2, 115, durable=104, now_ms=40)
    lag = relaxed.describe(80)[0]
    assert (lag.end_offset, lag.lag) == (115, 5)


def test_what_is_written_counts_at_once_where_nothing_has_to_be_durable() -> None:
    state = leader((1,), min_insync=1, strict=False)
    log_of(state).log_end_offset = 110
    state.appended(300, 1)
    assert carry_out(state).high_watermark == 110
    strict = leader((1,), min_insync=1)
    log_of(strict).log_end_offset = 110
    strict.appended(300, 1)
    assert carry_out(strict).high_watermark == START


def test_the_ends_of_a_log_whose_epoch_is_over_stay_four_numbers() -> None:
    last = last_ends(Log(110, 107, 103, 20))
    assert (last.log_start_offset, last.high_watermark) == (20, 103)
    assert (last.durable_end_offset, last.log_end_offset) == (107, 110)
