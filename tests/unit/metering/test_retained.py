"""What a leadership keeps, minute by minute, told by hand."""

import pytest

from data_plane.metering.retained import TOTAL_MAX, RetainedOdometer

MINUTE = 60_000
BEGAN = 1_000 * MINUTE + 59_000


def totals(odometer: RetainedOdometer) -> tuple[int, int, int, int]:
    return odometer.since, odometer.until, odometer.byte_minutes, odometer.replicated_byte_minutes


def test_nothing_is_kept_in_the_minute_in_which_it_begins() -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, 500, 3)
    odometer.look(BEGAN + 999, 999.0, 900, 3)
    assert totals(odometer) == (1_000, 1_000, 0, 0)


def test_each_minute_counts_the_smaller_of_the_sizes_at_both_its_looks() -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, 500, 3)
    odometer.look(BEGAN + MINUTE, MINUTE, 700, 3)
    assert totals(odometer) == (1_000, 1_001, 500, 1_500), "what came in the minute is not kept for all of it"
    odometer.look(BEGAN + 2 * MINUTE, 2 * MINUTE, 100, 2)
    assert totals(odometer) == (1_000, 1_002, 600, 1_700), "neither is what is gone, nor a replica that came"
    odometer.look(BEGAN + 12 * MINUTE, 12 * MINUTE, 100, 2)
    assert totals(odometer) == (1_000, 1_012, 1_600, 3_700)


def test_a_look_in_the_same_minute_changes_nothing() -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, 500, 1)
    odometer.look(BEGAN + MINUTE, MINUTE, 500, 1)
    odometer.look(BEGAN + MINUTE + 100, MINUTE + 100, 5, 1)
    odometer.look(BEGAN + 2 * MINUTE, 2 * MINUTE, 500, 1)
    assert totals(odometer) == (1_000, 1_002, 1_000, 1_000)


def test_time_that_only_the_wall_clock_tells_is_not_counted() -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, 500, 1)
    odometer.look(BEGAN + 60 * MINUTE, MINUTE, 500, 1)
    assert totals(odometer) == (1_060, 1_060, 0, 0), "it begins again"
    odometer.look(BEGAN + 61 * MINUTE, 2 * MINUTE, 500, 1)
    assert totals(odometer) == (1_060, 1_061, 500, 500)


def test_a_clock_that_was_set_back_counts_no_minute_twice() -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, 500, 1)
    odometer.look(BEGAN + 5 * MINUTE, 5 * MINUTE, 500, 1)
    odometer.look(BEGAN + 2 * MINUTE, 6 * MINUTE, 500, 1)
    assert totals(odometer) == (1_000, 1_005, 2_500, 2_500)
    odometer.look(BEGAN + 6 * MINUTE, 10 * MINUTE, 500, 1)
    assert totals(odometer) == (1_000, 1_006, 3_000, 3_000)


@pytest.mark.parametrize(("beyond", "began"), [(0, 1_000), (1, 1_001)])
def test_totals_that_no_reading_can_hold_begin_again(beyond: int, began: int) -> None:
    odometer = RetainedOdometer(BEGAN, 0.0, TOTAL_MAX + beyond, 1)
    odometer.look(BEGAN + MINUTE, MINUTE, TOTAL_MAX + beyond, 1)
    assert odometer.since == began
    assert odometer.replicated_byte_minutes <= TOTAL_MAX
