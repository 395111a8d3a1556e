"""Paces: the rate holds over any window, order holds through refusals, and what is delayed follows the rate."""

import random

import pytest

from data_plane.throttling.pacing import BURST_MS, COME_BACK_MS_MAX, HOLD_MS_MAX, Pace, part_led
from penstock.contract.ids import BrokerId
from tests.unit.controller.setup import ACME, Store, record


def test_what_comes_within_the_rate_passes_at_once() -> None:
    pace = Pace(1_000)
    for second in range(10):
        assert pace.enter(1_000, second * 1000.0) == 0


def test_what_comes_at_once_is_held_until_its_turn() -> None:
    pace = Pace(1_000)
    waits = [pace.enter(500, 10_000.0) for _ in range(4)]
    assert waits == [0, 500 - BURST_MS, 1000 - BURST_MS, 1500 - BURST_MS]


@pytest.mark.parametrize("seed", range(5))
def test_over_any_window_no_more_passes_than_the_rate_a_short_burst_and_one_batch(seed: int) -> None:
    dice = random.Random(seed)
    pace, size_max = Pace(50_000), 8_000
    now, passed = 0.0, []
    for _ in range(4_000):
        now += dice.choice((0.0, 1.0, 10.0, 400.0 * dice.random()))
        size = dice.randrange(1, size_max)
        wait = pace.enter(size, now)
        if wait is not None:
            assert 0 <= wait <= HOLD_MS_MAX
            passed.append((now + wait, size))
    assert passed == sorted(passed, key=lambda each: each[0]), "first in, first out"
    for start in range(0, len(passed), 37):
        total = 0
        for at, size in passed[start:]:
            total += size
            assert total <= 50_000 * (at - passed[start][0] + BURST_MS) / 1000 + 2 * size_max


def test_a_full_pace_is_used_up_and_not_wasted_by_refusals() -> None:
    pace, now, passed = Pace(100_000), 0.0, 0
    while now < 60_000:
        if pace.enter(10_000, now) is not None:
            passed += 10_000
        now += 5
    assert passed >= 100_000 * 60


def test_one_who_comes_back_when_told_finds_room_and_nothing_slips_in_before() -> None:
    pace = Pace(1_000)
    while pace.enter(100, 0.0) is not None:
        pass
    told = pace.come_back_in_ms(0.0)
    for now in range(0, told - 1, 50):
        assert pace.enter(1, float(now)) is None
    assert pace.enter(100, float(told)) is not None


def test_what_may_not_be_refused_is_held_however_long() -> None:
    pace = Pace(10)
    waits = [pace.enter(1_000, 0.0, may_refuse=False) for _ in range(3)]
    assert waits == [0, 100_000 - BURST_MS, 200_000 - BURST_MS]


def test_another_rate_counts_for_what_is_still_to_pass() -> None:
    pace = Pace(1_000)
    pace.enter(2_000 + BURST_MS, 0.0)
    assert pace.clears_in_ms(0.0) == 2_000
    pace.change(2_000, 0.0)
    assert pace.clears_in_ms(0.0) == 1_000


def test_what_is_delayed_passes_at_the_new_rate() -> None:
    """A share that grows lets go at once what was delayed at the small one."""
    pace = Pace(100)
    places = []
    for _ in range(3):
        places.append(pace.let_in)
        pace.enter(100, 0.0)
    assert [pace.wait_ms(place, 0.0) for place in places] == [0, 750, 1_750]
    pace.change(100_000, 0.0)
    assert all(pace.wait_ms(place, 10.0) == 0 for place in places)
    pace.change(10, 10.0)
    pace.enter(1_000, 10.0)
    place = pace.let_in
    pace.enter(1, 10.0)
    assert pace.wait_ms(place, 10.0) > 90_000, "a smaller rate counts for what was let in before"


def test_while_another_rate_is_hoped_for_only_what_is_too_much_for_that_is_refused() -> None:
    pace = Pace(100)
    pace.hope(1_000, 1_000.0)
    assert [pace.enter(2_500, 999.0) is None for _ in range(3)] == [False, False, True]
    assert 2_900 < pace.come_back_in_ms(999.0) < 3_600, "at the rate that is hoped for"
    assert pace.enter(1, 1_000.0) is None and pace.refused == 2
    assert pace.refuses_for_ms(1_000.0) > 30_000


def test_no_one_is_kept_away_for_what_was_let_in_at_a_rate_that_was_larger_for_a_moment() -> None:
    """A share falls to its floor between two leases: what was held at the large one takes minutes at the floor."""
    pace = Pace(1_500_000)
    while pace.enter(400_000, 0.0) is not None:
        pass
    pace.change(20_000, 0.0)
    assert pace.enter(400_000, 0.0) is None
    assert pace.refuses_for_ms(0.0) > 200_000
    assert pace.come_back_in_ms(0.0) == COME_BACK_MS_MAX
    pace.change(1_500_000, 500.0)
    assert pace.enter(400_000, float(COME_BACK_MS_MAX)) is not None, "its turn came long before"


def test_what_a_broker_leads_of_a_tenant() -> None:
    store = Store()
    store.topic(record(), record(partition=1), record(partition=2, leader=2), record(partition=3, leader=-1))
    assert part_led(store.image, BrokerId(1), ACME) == (2, 3)


def test_a_pace_that_was_full_a_second_time_refuses_again_only_when_it_is_full() -> None:
    pace, now_ms = Pace(1_000), 0.0
    for _ in range(2):
        while pace.enter(500, now_ms) is not None:
            pass
        assert pace.clears_in_ms(now_ms) > HOLD_MS_MAX
        now_ms += pace.clears_in_ms(now_ms) - HOLD_MS_MAX / 2 - 1
        assert pace.enter(1, now_ms + 0.5) is None, "not half empty yet"
        now_ms += 1
        assert pace.enter(1_000, now_ms) is not None
        assert pace.enter(500, now_ms) is not None, "it holds more than half again, and is not full"


def test_a_longer_burst_is_stored_while_nothing_is_let_in_and_used_at_once() -> None:
    pace = Pace(100, BURST_MS, 5_000)
    assert not pace.is_filling(0.0)
    assert pace.enter(5_000, 0.0) == 0
    assert pace.enter(100, 0.0) == 0 and pace.enter(100, 0.0) == 1_000, (
        "one batch passes whole, the next waits"
    )
    assert pace.is_filling(10_000.0)
    assert not pace.is_filling(52_000.0 + 100)
    assert pace.enter(5_000, 1_000_000.0) == 0 and pace.enter(1, 1_000_000.0) == 0
    assert pace.enter(1, 1_000_000.0) == 10, "no more is stored, however long it rests"


def test_a_burst_that_is_taken_back_is_gone_at_once_and_another_one_is_filled_first() -> None:
    pace = Pace(1_000, BURST_MS, 5_000)
    pace.allow_burst(100, 0, 0.0)
    assert [pace.enter(100, 0.0) for _ in range(3)] == [0, 0, 100]
    pace.allow_burst(BURST_MS, 5_000, 0.0)
    assert pace.is_filling(0.0) and pace.clears_in_ms(0.0) == 200


def test_what_is_taken_passes_now_or_is_not_let_in() -> None:
    pace = Pace(1_000)
    assert [pace.take(300, 0.0) for _ in range(3)] == [True, False, False] and pace.let_in == 300
    assert not pace.take(300, 49.0) and pace.take(300, 50.0)
    assert pace.enter(100, 50.0) == 300, "and counts as what is entered does"


def test_a_usual_burst_asks_for_nothing_to_be_stored() -> None:
    pace = Pace(100)
    pace.enter(10_000, 0.0, may_refuse=False)
    assert not pace.is_filling(0.0)
