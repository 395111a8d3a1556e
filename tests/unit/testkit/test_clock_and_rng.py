"""Simulated clocks run with virtual time and jump; simulated randomness is a function of its seed."""

import asyncio

from data_plane.testkit.clock import EPOCH_MS, SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng


def test_clocks_run_with_virtual_time_at_their_own_rate_and_skew() -> None:
    loop = SimLoop(1)
    right = SimClock(loop)
    wrong = SimClock(loop, skew_ms=-5000, rate=1.01, monotonic_start_ms=77)
    loop.run_until_complete(asyncio.sleep(100))
    assert right.now_ms() == EPOCH_MS + 100_000
    assert wrong.now_ms() == EPOCH_MS - 5000 + 101_000
    assert 101_076 < wrong.monotonic_ms() < 101_078
    loop.close()


def test_a_jump_moves_the_wall_clock_only() -> None:
    loop = SimLoop(1)
    clock = SimClock(loop)
    clock.jump(-60_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (EPOCH_MS - 60_000, 0)
    clock.correct()
    assert clock.now_ms() == EPOCH_MS
    loop.close()


def test_randomness_is_a_function_of_the_seed() -> None:
    one, same, other = SimRng("a"), SimRng("a"), SimRng("b")
    drawn = [(rng.random_bytes(16), rng.uniform(0, 1)) for rng in (one, same, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert not one.chance("anything")


def test_named_branches_are_on_for_some_seeds_and_counted() -> None:
    taken_by_seed = []
    for seed in range(40):
        chances = Chances(seed)
        rng = SimRng(seed, chances)
        taken = sum(rng.chance("slow") for _ in range(300))
        taken_by_seed.append(taken)
        assert (chances.reached["slow"].offered, chances.reached["slow"].taken) == (300, taken)
    assert 5 < sum(taken == 0 for taken in taken_by_seed) < 35


def test_no_branch_is_taken_once_disabled() -> None:
    chances = Chances(1, on_chance=1.0, taken_chance_max=1.0)
    rng = SimRng(1, chances)
    chances.enabled = False
    assert not any(rng.chance("slow") for _ in range(100))
