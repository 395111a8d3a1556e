"""The high watermark of a leader: whose ends count, when it moves, that it never goes back."""

from data_plane.replication import in_sync
from penstock.contract.ids import BrokerId

from .setup import COMMITTED, START, acked, advanced, carry_out, everybody, gone, leader, opened, record


def test_watermark_waits_for_the_slowest_in_sync_follower() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 110, 110, 1)
    assert acked(state, 2, 110)
    assert state.high_watermark == START
    assert acked(state, 3, 104)
    assert state.high_watermark == 104


def test_watermark_does_not_wait_for_a_follower_out_of_sync() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110)
    assert state.high_watermark == 110


def test_watermark_waits_for_an_in_sync_follower_that_has_not_opened_yet() -> None:
    state = leader()
    advanced(state, 110, 110, 1)
    opened(state, 2, 110, last_epoch=5)
    assert state.high_watermark == COMMITTED


def test_watermark_stands_still_below_min_in_sync() -> None:
    state = leader((1,))
    advanced(state, 110, 110, 1)
    assert state.high_watermark == COMMITTED
    assert not state.enough_in_sync


def test_watermark_stands_still_when_the_controller_takes_a_member_out() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    assert state.record_seen(record((1,), partition_epoch=8))
    carry_out(state)
    acked(state, 2, 110)
    assert state.high_watermark == START
    assert state.in_sync_count == 1


def test_watermark_moves_on_when_the_laggard_leaves_the_set() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110)
    assert state.record_seen(record((1, 2), partition_epoch=8))
    carry_out(state)
    assert state.high_watermark == 110


def test_a_single_replica_commits_by_itself_with_min_one() -> None:
    state = leader((1,), min_insync=1)
    advanced(state, 110, 107, 1)
    assert state.high_watermark == 107


def test_strict_watermark_waits_for_the_leaders_own_sync() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, START, 1)
    acked(state, 2, 110)
    assert state.high_watermark == START
    advanced(state, 110, 108, 2)
    assert state.high_watermark == 108


def test_strict_watermark_waits_for_the_followers_sync() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110, durable=103)
    assert state.high_watermark == 103


def test_relaxed_watermark_counts_written_ends() -> None:
    state = leader((1, 2), strict=False)
    opened(state, 2)
    advanced(state, 110, START, 1)
    acked(state, 2, 110, durable=START)
    assert state.high_watermark == 110


def test_watermark_never_goes_back_when_a_follower_opens_again_lower() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110)
    opened(state, 2, 105, last_epoch=5)
    assert state.high_watermark == 110
    advanced(state, 120, 120, 2)
    acked(state, 2, 108)
    assert state.high_watermark == 110


def test_committed_offset_keeps_the_old_watermark_when_the_ends_are_lower() -> None:
    assert in_sync.committed_offset(high_watermark=9, in_sync_count=3, min_insync=2, ends=[12, 5, 7]) == 9


def test_what_a_lost_follower_held_still_counts_while_it_is_in_sync() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 105, 1)
    acked(state, 2, 110)
    gone(state, 2)
    advanced(state, 110, 110, 2)
    assert state.high_watermark == 110


def test_a_proposed_member_counts_before_anybody_answers() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    assert state.propose(1, everybody) is not None
    advanced(state, 110, 110, 1)
    acked(state, 2, 110)
    assert state.high_watermark == START
    assert state.maximal == (1, 2, 3)


def test_a_member_proposed_to_leave_counts_until_the_store_has_answered() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 110, 110, 1)
    acked(state, 2, 110, now_ms=1)
    proposal = state.propose(20_000, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2)
    assert state.high_watermark == START
    state.proposal_applied(proposal.record)
    carry_out(state)
    assert state.high_watermark == 110


def test_a_new_leader_is_not_ready_before_its_watermark_reaches_its_epoch() -> None:
    state = leader((1, 2), high_watermark=60)
    assert not state.ready
    opened(state, 2, START)
    assert state.ready


def test_a_record_that_names_another_leader_stops_everything() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    assert not state.record_seen(record((2,), leader=BrokerId(2), leader_epoch=6, partition_epoch=8))
    carry_out(state)
    acked(state, 2, 110)
    assert state.high_watermark == START
    assert state.propose(99_999, everybody) is None


def test_my_own_reelection_deposes_the_earlier_epoch_too() -> None:
    state = leader((1, 2))
    assert not state.record_seen(record((1,), leader_epoch=6, partition_epoch=8))
    carry_out(state)
