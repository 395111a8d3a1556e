"""Who joins and leaves the in-sync set, and how a proposal with any outcome is settled."""

from typing import Any

import pytest

from data_plane.replication import in_sync
from data_plane.replication.in_sync import BrokerView
from data_plane.replication.opening import Accepted, Refused
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId

from .setup import START, acked, advanced, carry_out, everybody, gone, leader, opened, record

JOINABLE: dict[str, Any] = {
    "end": 120,
    "high_watermark": 110,
    "leader_epoch_start_offset": 100,
    "following": True,
    "seen_epoch": 50,
    "registered_epoch": 50,
    "active": True,
}


def test_a_follower_that_meets_every_condition_may_join() -> None:
    assert in_sync.may_join(**JOINABLE)


@pytest.mark.parametrize(
    "broken",
    [
        {"end": 109},
        {"end": 105, "high_watermark": 90, "leader_epoch_start_offset": 106},
        {"following": False},
        {"seen_epoch": 49},
        {"registered_epoch": 0},
        {"active": False},
    ],
    ids=[
        "watermark not reached", "epoch start not reached", "not opened in this epoch",
        "earlier registration", "fenced", "draining",
    ],
)  # fmt: skip
def test_each_condition_alone_keeps_a_follower_out(broken: dict[str, Any]) -> None:
    assert not in_sync.may_join(**{**JOINABLE, **broken})


def test_a_follower_that_wants_to_stay_out_does_not_join_until_it_opens_again() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3, wants_in=False)
    assert state.propose(0, everybody) is None
    opened(state, 3)
    proposal = state.propose(0, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)


def test_a_follower_that_caught_up_is_proposed() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    proposal = state.propose(1, everybody)
    assert proposal is not None
    assert proposal.in_sync == (1, 2, 3)
    assert proposal.members == ((1, 50), (2, 50), (3, 50))
    assert proposal.base_partition_epoch == 7
    assert proposal.record == record((1, 2, 3), partition_epoch=8)


def test_a_follower_below_the_epoch_start_is_not_proposed_though_it_has_the_stale_watermark() -> None:
    state = leader((1,), high_watermark=60)
    opened(state, 2, 80)
    assert state.propose(1, everybody) is None
    acked(state, 2, START)
    proposal = state.propose(2, everybody)
    assert proposal is not None
    assert proposal.in_sync == (1, 2)


def test_a_leader_whose_watermark_is_still_stale_can_grow_the_set_and_so_become_ready() -> None:
    """Elected from the eligible ones with nobody else: the watermark moves only once a second one is in."""
    state = leader((1,), high_watermark=60)
    opened(state, 2, START)
    assert not state.ready
    proposal = state.propose(1, everybody)
    assert proposal is not None
    state.proposal_applied(proposal.record)
    carry_out(state)
    assert state.ready
    assert state.high_watermark == START


def test_a_strict_follower_joins_by_what_is_durable() -> None:
    state = leader((1, 2))
    opened(state, 3, START, durable=80)
    assert state.propose(1, everybody) is None
    acked(state, 3, START)
    assert state.propose(2, everybody) is not None


def test_a_follower_that_registered_again_since_it_opened_is_not_proposed() -> None:
    state = leader((1, 2))
    opened(state, 3)
    assert state.propose(1, lambda b: BrokerView(60 if b == 3 else 50, True)) is None


def test_a_follower_that_left_its_stream_is_not_proposed() -> None:
    state = leader((1, 2))
    opened(state, 3)
    gone(state, 3)
    assert state.propose(1, everybody) is None


def test_a_replica_that_another_writer_took_out_joins_once_it_has_opened_again() -> None:
    """It found damage in itself: what it acknowledged before is no evidence, though its stream has not ended yet."""
    state = leader()
    opened(state, 2)
    opened(state, 3)
    assert state.record_seen(state.record.changed(in_sync=(1, 2)))
    assert state.propose(1, everybody) is None
    assert not acked(state, 3, START), "its old stream proves nothing"
    assert state.propose(2, everybody) is None
    opened(state, 3)
    proposal = state.propose(3, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)


def test_what_a_replica_out_of_sync_said_before_another_writer_changed_the_record_counts_no_more() -> None:
    """It may have given itself up by that write, which then changes nothing but the partition epoch."""
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    before = state.record.partition_epoch
    assert state.record_seen(state.record.changed())
    assert not state.is_followed_by(BrokerId(3)) and state.is_followed_by(BrokerId(2))
    assert carry_out(state).outdated, "its stream is to end"
    assert not carry_out(state).outdated, "once"
    assert not acked(state, 3, START)
    assert state.propose(1, everybody) is None
    late = opened(state, 3, partition_epoch=before)
    assert isinstance(late, Refused) and late.code is ErrorCode.FENCED_LEADER_EPOCH
    assert state.propose(2, everybody) is None
    assert opened(state, 3) == Accepted(START)
    proposal = state.propose(3, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)


def test_a_replica_that_opened_knowing_the_record_need_not_open_again_when_its_leader_sees_it() -> None:
    state = leader((1, 2))
    opened(state, 3, partition_epoch=state.record.partition_epoch + 1)
    assert state.record_seen(state.record.changed())
    assert state.is_followed_by(BrokerId(3))
    assert not carry_out(state).outdated


def test_a_replica_in_sync_may_open_with_an_older_record() -> None:
    """It has given nothing up since; without news of the metadata it goes on to follow."""
    state = leader((1, 2))
    before = state.record.partition_epoch
    assert state.record_seen(state.record.changed())
    assert opened(state, 2, partition_epoch=before) == Accepted(START)
    assert isinstance(opened(state, 3, partition_epoch=before), Refused)


def test_a_broker_of_an_earlier_version_names_no_record_and_opens_again_after_each() -> None:
    state = leader((1, 2))
    assert opened(state, 3, partition_epoch=0) == Accepted(START)
    assert state.record_seen(state.record.changed())
    assert not state.is_followed_by(BrokerId(3))
    assert opened(state, 3, partition_epoch=0) == Accepted(START)


def test_what_the_leader_itself_writes_outdates_nobody() -> None:
    state = leader((1,), min_insync=1)
    opened(state, 2)
    opened(state, 3, 0, last_epoch=-1)
    proposal = state.propose(1, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2)
    state.proposal_applied(proposal.record)
    assert not carry_out(state).outdated
    assert state.is_followed_by(BrokerId(3))
    assert state.record_seen(proposal.record), "the watch shows it afterwards"
    assert state.is_followed_by(BrokerId(3))


def test_a_new_leader_knows_who_is_out_of_sync_only_by_its_own_record() -> None:
    state = leader((1, 2))
    assert isinstance(opened(state, 3, partition_epoch=state.record.partition_epoch - 1), Refused)
    assert opened(state, 3) == Accepted(START)


@pytest.mark.parametrize("seen_first", [False, True])
def test_a_replica_that_its_leader_took_out_joins_on_the_stream_that_it_has(seen_first: bool) -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, START + 10, START + 10, 1)
    acked(state, 2, START + 10, now_ms=2)
    left = state.propose(20_000, everybody)
    assert left is not None and left.in_sync == (1, 2)
    if seen_first:
        assert state.record_seen(left.record), "the answer says who has written it"
        assert state.record.in_sync == (1, 2, 3)
    state.proposal_applied(left.record)
    acked(state, 3, START + 10, now_ms=20_001)
    proposal = state.propose(20_002, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)


@pytest.mark.parametrize(
    "heard", ["refused", "seen, then refused", "unknown, then seen", "unknown, then refused"]
)
def test_a_record_like_the_one_proposed_is_another_writers_unless_the_answer_says_otherwise(
    heard: str,
) -> None:
    """A replica that its leader wants out for lagging finds damage and gives itself up: both write the same record."""
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, START + 10, START + 10, 1)
    acked(state, 2, START + 10, now_ms=2)
    left = state.propose(20_000, everybody)
    assert left is not None and left.in_sync == (1, 2)
    acked(state, 3, START + 10, now_ms=20_001)
    if "unknown" in heard:
        state.proposal_unknown()
    if "seen" in heard:
        assert state.record_seen(left.record)
    if "refused" in heard:
        state.proposal_refused(left.record)
    assert state.record.in_sync == (1, 2)
    assert not state.is_followed_by(BrokerId(3)) and carry_out(state).outdated
    assert state.propose(20_002, everybody) is None


@pytest.mark.parametrize("keeps", [False, True], ids=["joined meanwhile", "kept by the proposal"])
def test_a_replica_that_gives_itself_up_behind_a_change_whose_answer_is_lost_opens_again(keeps: bool) -> None:
    state = leader((1, 2) if not keeps else (1, 3))
    opened(state, 2)
    opened(state, 3)
    proposal = state.propose(1, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)
    state.proposal_unknown()
    assert state.record_seen(proposal.record.changed(in_sync=(1, 2)))
    assert not state.is_followed_by(BrokerId(3)) and carry_out(state).outdated
    assert state.propose(2, everybody) is None


def test_a_fenced_leader_proposes_nothing() -> None:
    state = leader((1, 2))
    opened(state, 3)
    assert state.propose(1, lambda b: BrokerView(0 if b == 1 else 50, b != 1)) is None


def test_a_fenced_member_leaves_with_whatever_else_changes() -> None:
    state = leader((1, 2))
    opened(state, 3)
    proposal = state.propose(1, lambda b: BrokerView(0 if b == 2 else 50, b != 2))
    assert proposal is not None
    assert proposal.in_sync == (1, 3)


# -- leaving --------------------------------------------------------------------------------------------


def test_a_follower_behind_for_too_long_is_proposed_to_leave() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 110, 110, 1_000)
    acked(state, 2, 110, now_ms=1_001)
    assert state.propose(11_000, everybody) is None
    proposal = state.propose(11_001, everybody)
    assert proposal is not None
    assert proposal.in_sync == (1, 2)


def test_a_follower_far_behind_but_recently_even_stays() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 1_000_000, 1_000_000, 5_000)
    assert state.propose(14_999, everybody) is None


def test_a_follower_of_an_idle_partition_stays_for_ever() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    assert state.quiet
    assert state.propose(10_000_000, everybody) is None


def test_a_follower_is_not_late_for_a_batch_that_came_after_a_long_idle_time() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 110, 110, 10_000_000)
    assert state.propose(10_000_001, everybody) is None


def test_a_follower_that_is_always_one_frame_behind_stays() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    end = START
    for step in range(1, 200):
        now = step * 500
        advanced(state, end + 10, end + 10, now)
        acked(state, 2, end, now_ms=now + 1)
        acked(state, 3, end, now_ms=now + 1)
        end += 10
        assert state.propose(now + 2, everybody) is None


def test_a_follower_that_falls_behind_steadily_leaves() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    left = None
    for step in range(1, 200):
        now = step * 500
        end = START + 10 * step
        advanced(state, end, end, now)
        acked(state, 2, end, now_ms=now)
        acked(state, 3, START + 5 * step, now_ms=now)
        left = state.propose(now, everybody)
        if left is not None:
            break
    assert left is not None
    assert left.in_sync == (1, 2)


def test_a_follower_that_never_opened_leaves_after_its_time() -> None:
    state = leader()
    opened(state, 2)
    proposal = state.propose(10_001, everybody)
    assert proposal is not None
    assert proposal.in_sync == (1, 2)


def test_a_member_that_leaves_a_set_too_small_stays_eligible() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 110, 110, 1)
    proposal = state.propose(20_000, everybody)
    assert proposal is not None
    assert (proposal.record.in_sync, proposal.record.eligible) == ((1,), (2,))


def test_joining_back_above_the_minimum_clears_eligible_and_last_known() -> None:
    state = leader((1,), known=record((1,), eligible=(2,), last_known=(3,)))
    opened(state, 2)
    proposal = state.propose(1, everybody)
    assert proposal is not None
    assert (proposal.record.in_sync, proposal.record.eligible, proposal.record.last_known) == ((1, 2), (), ())


# -- outcomes -------------------------------------------------------------------------------------------


def test_one_proposal_is_outstanding_at_a_time() -> None:
    state = leader((1,))
    opened(state, 2)
    assert state.propose(1, everybody) is not None
    opened(state, 3)
    assert state.propose(2, everybody) is None


def test_a_refused_proposal_no_longer_counts() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    assert state.propose(1, everybody) is not None
    advanced(state, 110, 110, 2)
    acked(state, 2, 110)
    state.proposal_refused(record((1, 2)))
    carry_out(state)
    assert state.maximal == (1, 2)
    assert state.high_watermark == 110


def test_a_refused_proposal_that_an_earlier_try_applied_is_adopted() -> None:
    state = leader((1, 2))
    opened(state, 3)
    proposal = state.propose(1, everybody)
    assert proposal is not None
    state.proposal_unknown()
    state.proposal_refused(proposal.record)
    carry_out(state)
    assert state.record.in_sync == (1, 2, 3)


def test_an_unknown_outcome_keeps_the_maximal_set_and_is_proposed_again_unchanged() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    proposal = state.propose(1, everybody)
    state.proposal_unknown()
    advanced(state, 110, 110, 2)
    acked(state, 2, 110)
    assert state.high_watermark == START
    assert state.propose(3, lambda b: BrokerView(99, True)) == proposal


def test_a_record_of_the_same_partition_epoch_does_not_settle_an_unknown_outcome() -> None:
    state = leader((1, 2))
    opened(state, 3)
    state.propose(1, everybody)
    state.proposal_unknown()
    state.record_seen(record((1, 2)))
    carry_out(state)
    assert state.maximal == (1, 2, 3)


def test_a_newer_record_settles_an_unknown_outcome() -> None:
    state = leader((1, 2))
    opened(state, 3)
    state.propose(1, everybody)
    state.proposal_unknown()
    state.record_seen(record((1,), partition_epoch=8))
    carry_out(state)
    assert state.maximal == (1,)


def test_it_is_known_whether_an_earlier_try_may_still_be_applied() -> None:
    state = leader((1, 2))
    opened(state, 3)
    state.proposal_unknown()
    assert not state.unresolved, "nothing was proposed"
    proposal = state.propose(1, everybody)
    assert proposal is not None and not state.unresolved
    state.proposal_unknown()
    assert state.unresolved
    assert state.propose(2, everybody) == proposal and state.unresolved, "the first try is still on its way"
    state.proposal_refused(record((1, 2), partition_epoch=8))
    carry_out(state)
    assert not state.unresolved


def test_a_deposed_leader_proposes_and_commits_nothing_whatever_it_hears_later() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    proposal = state.propose(1, everybody)
    assert proposal is not None
    assert not state.record_seen(record((2, 3), leader=BrokerId(2), leader_epoch=6, partition_epoch=8))
    carry_out(state)
    state.proposal_unknown()
    state.proposal_applied(record((1, 2, 3), partition_epoch=9))
    carry_out(state)
    assert not state.unresolved and state.propose(2, everybody) is None
    advanced(state, 110, 110, 2)
    for follower in (2, 3):
        acked(state, follower, 110)
    assert state.high_watermark == START
    assert not state.record_seen(record((1, 2, 3), partition_epoch=10))
    carry_out(state)


def test_an_older_record_changes_nothing() -> None:
    state = leader((1, 2))
    assert state.record_seen(record((1, 2, 3), partition_epoch=6))
    carry_out(state)
    assert state.record.in_sync == (1, 2)


def test_a_replica_with_a_new_generation_is_a_new_replica() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    state.record_seen(record((1, 2), replica_generations=(1, 1, 2), partition_epoch=8))
    carry_out(state)
    assert state.counted_end_of(BrokerId(3)) == -1
    assert state.counted_end_of(BrokerId(2)) == START
    assert state.propose(1, everybody) is None


def test_a_partition_with_a_replica_out_of_sync_or_behind_is_not_quiet() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    assert not state.quiet
    whole = leader()
    opened(whole, 2)
    opened(whole, 3)
    advanced(whole, 110, 110, 1)
    assert not whole.quiet


def test_whoever_may_lead_next_is_in_sync_or_perhaps_so_or_eligible() -> None:
    alone = leader(known=record((1,), eligible=(2,)))
    assert alone.electable == (1, 2)
    opened(alone, 3)
    assert alone.propose(0, everybody) is not None
    assert alone.electable == (1, 3, 2)
