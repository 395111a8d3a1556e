"""Whose clock is off: held against the middle of all, measured by round trips (RL107)."""

from data_plane.controller.clocks import ROUND_TRIP_MS_MAX, ClockComparison
from penstock.contract.ids import BrokerId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
NOW = 1_700_000_000_000


def compared(**off_ms: int) -> ClockComparison:
    clocks = ClockComparison()
    for name, off in off_ms.items():
        clocks.answered({"one": ONE, "two": TWO, "three": THREE}[name], NOW + 5 + off, NOW, 10.0)
    return clocks


def test_a_controller_alone_knows_nothing() -> None:
    assert ClockComparison().off_ms(None) is None
    assert compared(one=0).off_ms(TWO) is None


def test_the_one_that_differs_from_the_others_is_off() -> None:
    clocks = compared(one=0, two=60_000)
    assert (clocks.off_ms(None), clocks.off_ms(ONE), clocks.off_ms(TWO)) == (0, 0, 60_000)


def test_a_controller_whose_own_clock_is_off_says_so_of_itself_and_not_of_the_others() -> None:
    clocks = compared(one=-7_000, two=-7_000)
    assert (clocks.off_ms(None), clocks.off_ms(ONE), clocks.off_ms(TWO)) == (7_000, 0, 0)


def test_of_two_that_differ_nobody_knows_which_is_wrong() -> None:
    clocks = compared(one=10_000)
    assert (clocks.off_ms(None), clocks.off_ms(ONE)) == (-5_000, 5_000)


def test_half_the_round_trip_is_not_counted_as_a_difference() -> None:
    clocks = ClockComparison()
    clocks.answered(ONE, NOW + 200, NOW, 400.0)
    assert clocks.off_ms(ONE) == 0


def test_an_answer_that_took_too_long_says_nothing() -> None:
    clocks = compared(one=0)
    clocks.answered(ONE, NOW + 90_000, NOW, ROUND_TRIP_MS_MAX + 1)
    assert clocks.off_ms(ONE) == 0


def test_who_is_gone_is_not_counted() -> None:
    clocks = compared(one=0, two=60_000, three=60_000)
    clocks.forget(ONE)
    assert clocks.off_ms(None) == -60_000
