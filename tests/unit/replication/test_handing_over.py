"""When a leader may hand over: it takes nothing more, all is committed, and the next one holds it."""

from penstock.contract.ids import BrokerId

from .setup import acked, advanced, leader, opened

TWO, FOUR = BrokerId(2), BrokerId(4)


def test_nothing_is_handed_over_while_batches_are_taken() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    assert not state.handed_to(TWO)
    state.taking = False
    assert state.handed_to(TWO)
    assert state.handed_to(BrokerId(1)), "a reassignment may leave the leader where it is"


def test_the_next_leader_must_hold_everything_and_all_must_be_committed() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 120, 120, 1)
    state.taking = False
    assert not state.handed_to(TWO)
    acked(state, 2, 120)
    assert not state.handed_to(TWO), "broker 3 is in sync and does not hold it: it is not committed"
    acked(state, 3, 120)
    assert state.handed_to(TWO)


def test_what_is_only_written_is_not_held_where_that_counts() -> None:
    state = leader()
    opened(state, 2)
    opened(state, 3)
    advanced(state, 120, 120, 1)
    state.taking = False
    acked(state, 3, 120)
    acked(state, 2, 120, durable=100)
    assert not state.handed_to(TWO)


def test_a_follower_that_opened_again_with_less_is_not_handed_to_though_all_was_committed() -> None:
    state = leader((1, 2))
    opened(state, 2)
    advanced(state, 120, 120, 1)
    acked(state, 2, 120)
    state.taking = False
    assert state.handed_to(TWO)
    opened(state, 2, 119, last_epoch=5)
    assert state.high_watermark == 120 and not state.handed_to(TWO)


def test_nobody_outside_the_in_sync_set_takes_over() -> None:
    state = leader((1, 2))
    opened(state, 2)
    opened(state, 3)
    state.taking = False
    assert state.handed_to(TWO)
    assert not state.handed_to(BrokerId(3))
    assert not state.handed_to(FOUR)
