"""Attempts: connections begin at the rate, what is known costs nothing, a storm keeps out no one who comes after."""

import random

from data_plane.throttling.attempts import FORGET_MS, KNOWN_MAX, LOOK_MS, ONCE_MS_MIN, Attempts
from penstock.contract.ids import TenantId
from tests.unit.authz.setup import ACME, GLOBEX


def test_a_second_of_the_rate_begins_at_once_and_then_one_after_the_other() -> None:
    attempts = Attempts()
    waits = [attempts.wait_ms(ACME, f"a:{n}", 10, 0.0) for n in range(11)]
    assert waits == [0.0] * 10 + [100.0]
    assert attempts.wait_ms(ACME, "a:10", 10, 99.0) > 0
    assert attempts.wait_ms(ACME, "a:10", 10, 100.0) == 0


def test_a_connection_that_is_known_goes_on_whatever_else_comes() -> None:
    attempts = Attempts()
    assert attempts.wait_ms(ACME, "a:1", 1, 0.0) == 0
    assert attempts.wait_ms(ACME, "a:2", 1, 0.0) == 1_000
    assert all(attempts.wait_ms(ACME, "a:1", 1, 1.0) == 0 for _ in range(100))


def test_a_storm_takes_nothing_from_who_comes_after_it() -> None:
    attempts, now_ms = Attempts(), 0.0
    for n in range(10_000):
        attempts.wait_ms(ACME, f"storm:{n}", 5, now_ms)
        now_ms += 0.1
    assert attempts.wait_ms(ACME, "late", 5, now_ms + 1_000 / 5) == 0
    assert len(attempts._known) <= 5 * (1 + now_ms / 1_000) + 2, "what was refused is not remembered"


def test_tenants_do_not_count_against_one_another_though_they_share_an_address() -> None:
    attempts = Attempts()
    assert attempts.wait_ms(ACME, "nat:1", 1, 0.0) == 0
    assert attempts.wait_ms(ACME, "nat:2", 1, 0.0) > 0
    assert attempts.wait_ms(GLOBEX, "nat:2", 1, 0.0) == 0


def test_a_longer_burst_is_begun_at_once_and_the_rate_holds_over_any_time() -> None:
    for seed in range(5):
        dice, attempts, began = random.Random(seed), Attempts(), list[float]()
        now_ms = 0.0
        for n in range(5_000):
            now_ms += dice.choice((0.0, 1.0, 30.0 * dice.random()))
            if not attempts.wait_ms(ACME, f"a:{n}", 20, now_ms, burst_ms=3_000):
                began.append(now_ms)
        assert began[:60] == sorted(began)[:60] and len(began) > 60
        for first in range(0, len(began), 11):
            for last in range(first, len(began), 17):
                passed_ms = began[last] - began[first]
                assert last - first + 1 <= 20 * (passed_ms + max(ONCE_MS_MIN, 3_000)) / 1000 + 1


def test_without_a_limit_nothing_is_remembered_and_a_limit_that_comes_later_begins_with_its_burst() -> None:
    attempts = Attempts()
    assert attempts.wait_ms(ACME, "a:1", 0, 0.0) == 0 and not attempts._known and not attempts._left
    assert attempts.wait_ms(ACME, "a:1", 1, 1.0) == 0
    assert attempts.wait_ms(ACME, "a:2", 1, 1.0) > 0
    assert attempts.wait_ms(ACME, "a:2", 0, 2.0) == 0 and not attempts._left


def test_what_is_remembered_is_bounded() -> None:
    attempts = Attempts()
    for n in range(KNOWN_MAX + 10):
        assert attempts.wait_ms(ACME, f"a:{n}", 10_000, 1_000.0 * n) == 0
    assert len(attempts._known) == KNOWN_MAX


def test_tenants_of_which_none_came_for_long_are_forgotten() -> None:
    attempts = Attempts()
    for number in range(5_000):
        attempts.wait_ms(TenantId(f"gone-{number}"), "a:1", 5, float(number))
    assert attempts.wait_ms(ACME, "a:2", 5, 5_000.0 + FORGET_MS + LOOK_MS) == 0
    assert len(attempts) == 1
