"""What a leader's state hands out to be done, in which order, and that nothing is left of it after its epoch."""

import pytest

from data_plane.replication.effects import Effects, Look
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import NO_EPOCH
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import InvariantBroken

from .setup import (
    COMMITTED,
    DURABLE,
    EPOCH,
    START,
    Log,
    acked,
    advanced,
    carry_out,
    everybody,
    leader,
    log_of,
    newest_of,
    opened,
    record,
)


def elected(log: Log) -> LeaderState:
    """As it is made: nothing is carried out yet."""
    return LeaderState(BrokerId(1), record(), log, min_insync=2, strict=True, now_ms=0)


def test_the_fields_stand_in_the_order_in_which_they_are_carried_out() -> None:
    assert Effects._fields == (
        "begin_epoch", "unsynced_bytes", "push", "high_watermark", "durable_end", "committed", "outdated", "look",
    )  # fmt: skip


def test_a_leader_epoch_is_noted_before_a_follower_is_accepted_in_it() -> None:
    state = elected(Log(START, DURABLE, COMMITTED))
    with pytest.raises(InvariantBroken, match="noted before a follower"):
        opened(state, 2)
    assert state.take_effects().begin_epoch == EPOCH
    opened(state, 2)
    assert state.take_effects().begin_epoch == NO_EPOCH, "once"


def test_what_the_record_says_is_deleted_was_committed() -> None:
    log = Log(START, 50, 10)
    state = LeaderState(BrokerId(1), record((1,), log_start=60), log, min_insync=2, strict=True, now_ms=0)
    effects = state.take_effects()
    assert (effects.high_watermark, effects.committed) == (60, True)
    log.log_end_offset, log.durable_end_offset = 40, 30
    shorter = LeaderState(BrokerId(1), record((1,), log_start=60), log, min_insync=2, strict=True, now_ms=0)
    assert shorter.take_effects().high_watermark == 40, "within the log"


def test_a_batch_is_to_be_synced_and_pushed_at_once_and_is_not_committed_by_that() -> None:
    state = leader()
    log_of(state).log_end_offset += 2
    state.appended(300, 1)
    log_of(state).log_end_offset += 2
    state.appended(500, 1)
    effects = carry_out(state)
    assert (effects.unsynced_bytes, effects.push) == (800, True)
    assert (effects.durable_end, effects.high_watermark, effects.committed) == (START, COMMITTED, False)
    effects = advanced(state, 120, 110, 2)
    assert (effects.durable_end, effects.high_watermark) == (110, COMMITTED), "no follower has opened"


def test_what_was_handed_out_is_not_handed_out_again() -> None:
    state = leader((1,), min_insync=1)
    assert advanced(state, 110, 110, 1).committed
    effects = carry_out(state)
    assert effects == Effects(NO_EPOCH, 0, False, 110, 110, False, False, Look.UNNEEDED)


def test_a_batch_is_committed_only_when_it_is_durable_on_the_leader_too() -> None:
    state = leader((1, 2))
    opened(state, 2)
    assert not advanced(state, 110, START, 1).committed
    acked(state, 2, 110)
    assert state.high_watermark == START
    effects = advanced(state, 110, 110, 2)
    assert (effects.high_watermark, effects.durable_end, effects.committed) == (110, 110, True)


def test_the_watermark_does_not_move_before_the_store_has_confirmed_the_in_sync_set() -> None:
    state = leader((1,))
    opened(state, 2)
    proposal = state.propose(1, everybody)
    assert proposal is not None and proposal.in_sync == (1, 2)
    advanced(state, 110, 110, 2)
    acked(state, 2, 110)
    assert state.high_watermark == COMMITTED, "two hold it; that they are in sync is only proposed"
    state.proposal_unknown()
    assert not carry_out(state).committed
    state.proposal_applied(proposal.record)
    assert carry_out(state).committed
    assert state.high_watermark == 110


def test_a_replica_out_of_sync_that_moves_is_looked_at_now_and_one_in_sync_costs_nothing() -> None:
    state = leader((1, 2))
    state.follower_acked(BrokerId(2), 50, START, START, 1, handle=newest_of(state, 2), leader_epoch=EPOCH)
    assert carry_out(state).look is Look.UNNEEDED, "it has not opened: ignored"
    log_of(state).log_end_offset += 1
    state.appended(100, 1)
    assert carry_out(state).look is Look.IN_TIME
    opened(state, 3)
    state.follower_acked(BrokerId(3), 50, START, START, 1, handle=newest_of(state, 3), leader_epoch=EPOCH)
    assert carry_out(state).look is Look.NOW
    whole = leader()
    opened(whole, 2)
    whole.follower_acked(BrokerId(2), 50, START, START, 1, handle=newest_of(whole, 2), leader_epoch=EPOCH)
    assert carry_out(whole).look is Look.UNNEEDED


def test_a_leader_reads_its_log_while_its_epoch_lasts_and_not_after() -> None:
    state = leader((1,), min_insync=1)
    log = log_of(state)
    log.log_end_offset, log.durable_end_offset, log.high_watermark = 110, 107, 105
    assert (state.log_end, state.high_watermark, state.counted_end_of(BrokerId(1))) == (110, 105, 107)
    state.end()
    log.log_end_offset, log.durable_end_offset, log.high_watermark = 104, 102, 103  # as a follower
    assert (state.log_end, state.high_watermark, state.counted_end_of(BrokerId(1))) == (110, 105, 107)


def test_a_leader_whose_epoch_is_over_has_nothing_to_be_done() -> None:
    state = leader((1, 2))
    opened(state, 3)
    proposal = state.propose(1, everybody)
    assert proposal is not None
    state.end()
    state.proposal_applied(proposal.record)  # the store's answer comes late
    acked_late = state.follower_acked(
        BrokerId(3), 50, START, START, 2, handle=newest_of(state, 3), leader_epoch=EPOCH
    )
    assert acked_late
    with pytest.raises(InvariantBroken, match="epoch 5 is over here"):
        state.take_effects()
