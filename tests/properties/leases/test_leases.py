"""Whatever is lost, late or replaced: all brokers together never hold more than the limit and their floors."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.leases.division import KEPT, divide
from tests.properties.leases.model import LIMIT, TERMS, Faults, Model

_rates = st.sampled_from((0.0, 0.05, 0.3))


def everyone_now_and_then(seed: int) -> Callable[[int, float], int]:
    dice = random.Random(f"{seed}/wishes")
    turns = [[dice.choice((0, 0, LIMIT // 20, LIMIT // 3, LIMIT)) for _ in range(9)] for _ in range(20)]
    return lambda broker, now_ms: turns[int(now_ms / 3_000) % 20][broker]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    brokers=st.integers(1, 5),
    loss=_rates,
    late=_rates,
    repeat=_rates,
    cuts=st.sampled_from((0.0, 0.02, 0.1)),
    changes=st.sampled_from((0.0, 0.02, 0.1)),
    restarts=st.sampled_from((0.0, 0.02)),
)
def test_together_never_more_than_the_limit_and_the_floors(
    seed: int,
    brokers: int,
    loss: float,
    late: float,
    repeat: float,
    cuts: float,
    changes: float,
    restarts: float,
) -> None:
    faults = Faults(loss=loss, late=late, repeat=repeat, cuts=cuts, changes=changes, restarts=restarts)
    Model(seed, brokers, faults, everyone_now_and_then(seed)).run(90_000)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    brokers=st.integers(1, 4),
    others=st.integers(1, 8),
    wishes_max=st.integers(1, 4),
    loss=_rates,
    late=_rates,
    cuts=st.sampled_from((0.0, 0.1)),
    changes=st.sampled_from((0.0, 0.1)),
    restarts=st.sampled_from((0.0, 0.02)),
)
def test_never_more_where_a_broker_has_more_limits_than_a_request_takes(
    seed: int,
    brokers: int,
    others: int,
    wishes_max: int,
    loss: float,
    late: float,
    cuts: float,
    changes: float,
    restarts: float,
) -> None:
    faults = Faults(loss=loss, late=late, repeat=late, cuts=cuts, changes=changes, restarts=restarts)
    terms = replace(TERMS, wishes_max=wishes_max)
    Model(seed, brokers, faults, everyone_now_and_then(seed), terms, others=others).run(90_000)


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_all_of_the_limit_goes_to_the_only_broker_that_wants_it_within_two_seconds(
    brokers: int, seed: int
) -> None:
    """First to one, then all load moves to another."""
    last = 1 if brokers == 1 else 2

    def wishes(broker: int, now_ms: float) -> int:
        return LIMIT if broker == (1 if now_ms < 20_000 else last) else 0

    model = Model(seed, brokers, Faults(), wishes)
    model.run(10_000)
    model.run(12_000)
    assert model.usable(model.brokers[0]) >= 0.95 * LIMIT
    model.run(22_000)
    assert model.usable(model.brokers[last - 1]) >= 0.95 * LIMIT


@pytest.mark.parametrize("seed", range(5))
def test_a_new_hungry_broker_has_its_even_part_within_two_seconds(seed: int) -> None:
    def wishes(broker: int, now_ms: float) -> int:
        return LIMIT if broker == 1 or now_ms >= 20_000 else 0

    model = Model(seed, 3, Faults(), wishes)
    model.run(22_000)
    shares = [model.usable(broker) for broker in model.brokers]
    assert all(abs(share - LIMIT / 3) < 0.02 * LIMIT for share in shares), shares


@pytest.mark.parametrize("seed", range(5))
def test_who_cannot_reach_the_coordinator_has_its_safe_share_in_the_end_and_the_others_the_rest(
    seed: int,
) -> None:
    model = Model(seed, 3, Faults(), lambda broker, now_ms: LIMIT)
    model.run(20_000)
    cut = next(broker for broker in model.brokers if broker.books is None)
    cut.cut_until_ms = 60_000
    model.run(40_000)
    assert model.usable(cut) == model.safe
    assert sum(model.usable(broker) for broker in model.brokers) >= 0.95 * LIMIT
    model.run(65_000)
    assert abs(model.usable(cut) - LIMIT / 3) < 0.02 * LIMIT


def test_a_change_of_the_coordinator_takes_nothing_from_who_holds_a_lease() -> None:
    model = Model(3, 3, Faults(), lambda broker, now_ms: LIMIT if broker == 1 else 0)
    model.run(20_000)
    least = LIMIT
    for step in range(200):
        if step == 20:
            model._take_seat()
        model.run(20_000 + step * 50)
        least = min(least, model.usable(model.brokers[0]))
    assert least >= 0.95 * LIMIT


def test_who_wants_nothing_says_nothing() -> None:
    model = Model(1, 3, Faults(), lambda broker, now_ms: 0)
    model.run(TERMS.learn_ms)
    reports = model.messages
    model.run(600_000)
    assert model.messages == reports <= 6


@given(st.integers(-100, 10_000), st.lists(st.integers(1, 12_000), max_size=6))
def test_a_division_is_fair_and_leaves_nothing_that_is_wanted(capacity: int, wants: list[int]) -> None:
    parts = divide(capacity, wants)
    together = sum(parts)
    assert together <= max(0, capacity)
    if sum(wants) >= capacity:
        assert all(part <= want for part, want in zip(parts, wants, strict=True))
        assert together > capacity - max(1, len(wants))
        short = [part for part, want in zip(parts, wants, strict=True) if part < want]
        if short:
            assert max(parts) <= max(short) + 1
    elif wants:
        (beyond,) = {part - want for part, want in zip(parts, wants, strict=True)}
        kept, least_kept = capacity - together, capacity // KEPT
        assert beyond >= 0, "what none wants is spread evenly"
        assert least_kept <= kept < least_kept + len(wants) or (kept < least_kept and beyond == 0)
