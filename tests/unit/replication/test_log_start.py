"""Where a log begins for its clients: told once all who may lead next begin there, followed by who leads then."""

import pytest

from data_plane.replication import log_start
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import InvariantBroken

from .setup import START, acked, everybody, leader, opened, record


def test_a_log_start_is_agreed_when_all_who_may_lead_next_begin_there() -> None:
    state = leader(known=record((1, 2), eligible=(3,)), min_insync=3)
    opened(state, 2)
    opened(state, 3)
    state.want_log_start(60, 0)
    assert not state.start.settled
    assert state.may_report_start(0), "what was told before still holds"
    acked(state, 2, START, log_start=60)
    assert not state.may_report_start(60)
    acked(state, 3, START, log_start=59)
    assert not state.start.settled
    acked(state, 3, START, log_start=60)
    assert state.start.settled and state.may_report_start(60)


def test_a_log_start_waits_for_those_who_were_eligible_last() -> None:
    state = leader(known=record((1,), last_known=(2,)))
    state.want_log_start(60, 0)
    assert not state.start.settled
    opened(state, 2, begins=60)
    assert state.start.settled


def test_a_new_leader_tells_no_log_start_that_another_may_not_hold_to() -> None:
    state = leader((1, 2, 3), log_start=60)
    assert not state.may_report_start(60)
    opened(state, 2, begins=60)
    opened(state, 3, begins=20)
    assert not state.may_report_start(60)
    acked(state, 3, START, log_start=70)
    assert state.may_report_start(60)


def test_the_only_replica_tells_where_its_log_begins() -> None:
    assert leader(known=record((1,), replicas=(1,), replica_generations=(1,)), log_start=60).may_report_start(
        60
    )


def test_whoever_joins_may_begin_earlier_and_the_record_says_where_it_shall() -> None:
    state = leader((1, 2), log_start=60)
    opened(state, 2, begins=60)
    assert state.may_report_start(60)
    opened(state, 3, begins=20)
    proposal = state.propose(0, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2, 3)
    assert proposal.record.log_start == 60
    assert state.may_report_start(60), "it is in the record as soon as the follower is in the set"
    state.want_log_start(80, 0)
    acked(state, 2, START, log_start=80)
    assert not state.start.settled, "whoever is proposed counts already"
    state.proposal_applied(proposal.record)
    assert not state.start.settled
    acked(state, 3, START, log_start=80)
    assert state.may_report_start(80)


def test_a_log_start_that_somebody_does_not_confirm_goes_into_the_record_after_a_while() -> None:
    state = leader(known=record((1,), eligible=(2, 3)), now_ms=0, log_start=60)
    assert not state.quiet
    assert state.propose(log_start.START_WAIT_MS - 1, everybody) is None
    proposal = state.propose(log_start.START_WAIT_MS, everybody)
    assert proposal is not None
    assert (proposal.in_sync, proposal.record.eligible, proposal.record.log_start) == ((1,), (2, 3), 60)
    assert not state.may_report_start(60)
    state.proposal_applied(proposal.record)
    assert state.may_report_start(60)
    assert state.propose(9_999_999, everybody) is None, "written once"


def test_what_a_leader_writes_itself_does_not_stop_it_from_telling_what_it_told() -> None:
    state = leader(known=record((1,), eligible=(2,)), log_start=0)
    state.want_log_start(60, 0)
    proposal = state.propose(log_start.START_WAIT_MS, everybody)
    assert proposal is not None
    state.proposal_applied(proposal.record)
    assert state.record.log_start == state.start.agreed == 60
    assert state.may_report_start(0), "its own log begins there until it has moved"
    assert state.may_report_start(60)


def test_an_agreed_log_start_is_written_nowhere() -> None:
    state = leader((1, 2, 3), log_start=60)
    opened(state, 2, begins=60)
    opened(state, 3, begins=60)
    assert state.propose(log_start.START_WAIT_MS, everybody) is None


def test_a_new_leader_begins_where_the_record_says_and_tells_nothing_before() -> None:
    state = leader(known=record((1,), eligible=(2, 3), log_start=60), log_start=20)
    assert state.start.wanted == 60 and state.start.settled
    assert not state.may_report_start(20)
    assert state.may_report_start(60)


def test_a_log_start_does_not_pass_the_watermark() -> None:
    with pytest.raises(InvariantBroken):
        leader().want_log_start(START + 1, 0)


@pytest.mark.parametrize(
    ("recorded", "starts", "reached"),
    [(0, [], 60), (0, [60, 61], 60), (0, [60, 59], 59), (60, [0, -1], 60), (70, [0], 60), (59, [-1], 59)],
)
def test_a_start_is_held_by_everybodys_own_or_by_the_record(
    recorded: int, starts: list[int], reached: int
) -> None:
    assert log_start.reached_by_all(60, recorded=recorded, starts=starts) == reached


def test_a_start_that_moves_on_before_all_have_followed_is_agreed_as_far_as_they_have() -> None:
    state = leader((1, 2))
    opened(state, 2)
    for step in range(1, 60):
        now_ms = step * log_start.START_WAIT_MS / 2
        state.want_log_start(step, now_ms)
        acked(state, 2, START, log_start=step - 1, now_ms=now_ms)
        assert state.start.agreed == step - 1
        assert state.propose(now_ms, everybody) is None, "it moves on, so nobody is waited for in vain"
    later_ms = 30 * log_start.START_WAIT_MS
    state.want_log_start(80, later_ms)
    proposal = state.propose(later_ms + log_start.START_WAIT_MS, everybody)
    assert proposal is not None and proposal.record.log_start == 80


def test_a_follower_that_opens_again_lower_is_believed() -> None:
    state = leader((1, 2, 3))
    opened(state, 2, begins=70)
    opened(state, 3, begins=70)
    opened(state, 2, begins=0)
    state.want_log_start(60, 0)
    assert not state.start.settled
    assert BrokerId(2) in state.electable


@pytest.mark.parametrize("nearer", ["when it is wanted", "when a follower says so"])
def test_a_log_start_that_comes_nearer_is_waited_for_from_that_moment_on(nearer: str) -> None:
    state, at_ms = leader((1, 2)), 5_000.0
    if nearer == "when it is wanted":
        opened(state, 2, begins=20)
        state.want_log_start(60, at_ms)
    else:
        opened(state, 2)
        state.want_log_start(60, 0)
        acked(state, 2, START, log_start=20, now_ms=at_ms)
    assert state.propose(at_ms + log_start.START_WAIT_MS - 1, everybody) is None
    proposal = state.propose(at_ms + log_start.START_WAIT_MS, everybody)
    assert proposal is not None and proposal.record.log_start == 60
