"""Whose clock is off: held against the middle of all, measured by round trips, and known for a few seconds (RL107)."""

from data_plane.controller.clocks import FAR_OFF_MS, HOLDS_MS, ROUND_TRIP_MS_MAX, ClockComparison, ClockOffset
from penstock.contract.ids import BrokerId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
WALL = 1_700_000_000_000
NOW = 50_000.0
"""The controller's monotonic clock when its wall clock shows `WALL`."""
TWO_HOURS_MS = 7_200_000


def answer(
    clocks: ClockComparison, broker: BrokerId, off_ms: int = 0, *, at_ms: float = NOW, trip_ms: float = 10.0
) -> None:
    """`broker`, whose monotonic clock shows 1 s less, answers a beat that came back at `at_ms`."""
    halfway_ms = at_ms - trip_ms / 2
    wall_ms = round(WALL + halfway_ms - NOW) + off_ms
    clocks.answered(broker, wall_ms, at_ms - trip_ms, halfway_ms - 1_000, at_ms)


def compared(**off_ms: int) -> ClockComparison:
    clocks = ClockComparison()
    for name, off in off_ms.items():
        answer(clocks, {"one": ONE, "two": TWO, "three": THREE}[name], off)
    return clocks


def off_ms(clocks: ClockComparison, broker: BrokerId) -> int | None:
    found = clocks.found(broker, WALL, NOW)
    return None if found is None else found.off_ms


def test_a_controller_alone_knows_nothing() -> None:
    assert ClockComparison().own_off_ms(WALL, NOW) is None
    assert compared(one=0).found(TWO, WALL, NOW) is None


def test_the_one_that_differs_from_the_others_is_off() -> None:
    clocks = compared(one=0, two=60_000)
    assert (clocks.own_off_ms(WALL, NOW), off_ms(clocks, ONE), off_ms(clocks, TWO)) == (0, 0, 60_000)


def test_a_controller_whose_own_clock_is_off_says_so_of_itself_and_not_of_the_others() -> None:
    clocks = compared(one=-7_000, two=-7_000)
    assert (clocks.own_off_ms(WALL, NOW), off_ms(clocks, ONE), off_ms(clocks, TWO)) == (7_000, 0, 0)


def test_of_two_that_differ_nobody_knows_which_is_wrong() -> None:
    clocks = compared(one=10_000)
    assert (clocks.own_off_ms(WALL, NOW), off_ms(clocks, ONE)) == (-5_000, 5_000)


def test_half_the_round_trip_is_not_counted_as_a_difference() -> None:
    clocks = ClockComparison()
    answer(clocks, ONE, trip_ms=400.0)
    assert off_ms(clocks, ONE) == 0


def test_an_answer_that_took_too_long_says_nothing() -> None:
    clocks = ClockComparison()
    answer(clocks, ONE, trip_ms=ROUND_TRIP_MS_MAX + 1)
    assert off_ms(clocks, ONE) is None
    answer(clocks, ONE)
    answer(clocks, ONE, 90_000, trip_ms=ROUND_TRIP_MS_MAX + 1)
    assert off_ms(clocks, ONE) == 0


def test_who_is_gone_is_not_counted() -> None:
    clocks = compared(one=0, two=60_000, three=60_000)
    clocks.forget(ONE)
    assert clocks.own_off_ms(WALL, NOW) == -60_000


def test_a_broker_is_told_by_which_answer_of_its_own_it_was_found_out() -> None:
    clocks = compared(one=0)
    assert clocks.found(ONE, WALL, NOW) == ClockOffset(off_ms=0, answered_ms=NOW - 5 - 1_000)
    later = NOW + HOLDS_MS / 2
    answer(clocks, TWO, at_ms=later)
    assert clocks.found(ONE, WALL + HOLDS_MS // 2, later) == ClockOffset(
        off_ms=0, answered_ms=NOW - 5 - 1_000
    )


def test_what_a_broker_is_told_holds_a_few_seconds_by_its_own_clock() -> None:
    told = ClockOffset(off_ms=0, answered_ms=1_000.0)
    assert told.holds(1_000.0) and told.holds(1_000.0 + HOLDS_MS)
    assert not told.holds(1_001.0 + HOLDS_MS)
    assert not told.holds(1_000.0 + TWO_HOURS_MS)
    assert not told.holds(999.0), "the machine was started since"


def test_an_answer_of_long_ago_is_no_comparison() -> None:
    clocks = compared(one=0)
    later = NOW + HOLDS_MS + 1
    assert clocks.found(ONE, WALL + HOLDS_MS + 1, later) is None
    assert clocks.own_off_ms(WALL + HOLDS_MS + 1, later) is None


def test_a_controller_for_which_hours_have_passed_goes_by_no_answer_from_before() -> None:
    clocks = compared(one=0, two=0)
    wall_ms, now_ms = WALL + TWO_HOURS_MS, NOW + TWO_HOURS_MS
    assert clocks.own_off_ms(wall_ms, now_ms) is None
    answer(clocks, ONE, -TWO_HOURS_MS, at_ms=now_ms)
    assert clocks.own_off_ms(wall_ms, now_ms) is None, "of two that differ nobody knows which is wrong"
    assert clocks.found(ONE, wall_ms, now_ms) is None
    answer(clocks, TWO, -TWO_HOURS_MS, at_ms=now_ms)
    assert clocks.own_off_ms(wall_ms, now_ms) == TWO_HOURS_MS
    found = clocks.found(ONE, wall_ms, now_ms)
    assert found is not None and found.off_ms == 0


def test_two_of_three_go_by_each_other_once_the_third_is_gone() -> None:
    clocks = compared(one=0, two=0)
    later = NOW + HOLDS_MS + 1
    answer(clocks, ONE, at_ms=later)
    assert clocks.own_off_ms(WALL + HOLDS_MS + 1, later) is None
    clocks.forget(TWO)
    assert clocks.own_off_ms(WALL + HOLDS_MS + 1, later) == 0


def test_a_controller_whose_wall_clock_is_set_knows_it_before_anybody_answers_again() -> None:
    assert compared(one=0, two=0).own_off_ms(WALL + 60_000, NOW) == 60_000


def test_a_clock_that_is_hours_off_is_far_off_until_it_is_found_right_again() -> None:
    clocks = compared(two=-TWO_HOURS_MS, three=300)
    assert clocks.far_off(ONE, WALL, NOW) == (TWO,)
    later = NOW + HOLDS_MS + 1
    assert clocks.far_off(ONE, WALL + HOLDS_MS + 1, later) == (TWO,), "nobody was compared since"
    answer(clocks, TWO, at_ms=later)
    answer(clocks, THREE, at_ms=later)
    assert clocks.far_off(ONE, WALL + HOLDS_MS + 1, later) == ()


def test_the_controllers_own_clock_may_be_the_one_that_is_far_off() -> None:
    assert compared(two=TWO_HOURS_MS, three=TWO_HOURS_MS).far_off(ONE, WALL, NOW) == (ONE,)


def test_of_two_clocks_that_differ_neither_is_far_off() -> None:
    assert compared(two=2 * TWO_HOURS_MS).far_off(ONE, WALL, NOW) == ()


def test_a_clock_that_is_minutes_off_takes_no_leadership_away() -> None:
    assert compared(two=-FAR_OFF_MS, three=60_000).far_off(ONE, WALL, NOW) == ()


def test_a_broker_that_is_gone_is_not_far_off_when_it_comes_back() -> None:
    clocks = compared(two=-TWO_HOURS_MS, three=0)
    assert clocks.far_off(ONE, WALL, NOW) == (TWO,)
    clocks.forget(TWO)
    assert clocks.far_off(ONE, WALL, NOW) == ()
