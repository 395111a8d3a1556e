"""Who is not admitted, again and again, is told so at a rate; who made one mistake is told at once."""

import pytest

from data_plane.throttling import turned_away
from data_plane.throttling.turned_away import ANSWERED_PER_S, HELD_PER_ADDRESS_MAX, TurnedAway

HERE, THERE = "192.0.2.1", "192.0.2.2"


def test_the_first_refusals_of_an_address_are_told_at_once_and_the_next_at_the_rate() -> None:
    refusals = TurnedAway()
    waits = [refusals.hold_ms(HERE, 0) for _ in range(2 * ANSWERED_PER_S)]
    assert waits[:ANSWERED_PER_S] == [0.0] * ANSWERED_PER_S
    assert waits[ANSWERED_PER_S] == pytest.approx(1_000 / ANSWERED_PER_S)
    assert waits[-1] == pytest.approx(1_000)
    assert refusals.hold_ms(THERE, 0) == 0


def test_an_address_is_told_at_once_again_after_a_while() -> None:
    refusals = TurnedAway()
    for _ in range(2 * ANSWERED_PER_S):
        refusals.hold_ms(HERE, 0)
    assert refusals.hold_ms(HERE, 500) > 0
    assert refusals.hold_ms(HERE, 3_000) == 0


def test_few_wait_at_once_and_others_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned_away, "HELD_PER_ADDRESS_MAX", 3)
    monkeypatch.setattr(turned_away, "HELD_MAX", 5)
    refusals = TurnedAway()

    def held(address: str) -> int:
        return sum(refusals.hold_ms(address, 0) > 0 for _ in range(ANSWERED_PER_S + 10))

    assert [held(HERE), held(THERE), held("192.0.2.3")] == [3, 2, 0]
    refusals.released(HERE)
    assert refusals.hold_ms(HERE, 0) > 0, "there is room for one more"
    assert refusals.hold_ms(HERE, 0) == 0
    for _ in range(3):
        refusals.released(HERE)
    for _ in range(2):
        refusals.released(THERE)
    assert refusals._held == {}
    assert refusals._held_in_all == 0


def test_who_hangs_up_and_calls_again_does_not_move_the_answers_of_its_address_away() -> None:
    refusals = TurnedAway()
    for _ in range(100_000):
        if refusals.hold_ms(HERE, 0):
            refusals.released(HERE)
    assert 0 < refusals.hold_ms(HERE, 0) <= 1_000 * HELD_PER_ADDRESS_MAX / ANSWERED_PER_S


def test_addresses_that_called_long_ago_are_forgotten() -> None:
    refusals = TurnedAway()
    for number in range(1_001):
        refusals.hold_ms(f"192.0.2.{number}", 0)
    refusals.hold_ms("198.51.100.1", 60_000)
    assert list(refusals._next_ms) == ["198.51.100.1"]
