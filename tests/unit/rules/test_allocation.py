"""Allocation keeps the cost to the micro-unit, whatever was used, in whichever order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.invariant import InvariantBroken
from penstock.rules.allocation import (
    GIB,
    METERS,
    MILLION,
    Allocation,
    Asset,
    Driver,
    Idle,
    Kind,
    Per,
    Share,
    allocate,
    apportion,
    month_after,
    month_of,
    rate_micro,
    used_of,
)

FIRST, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
UINT64 = 2**64 - 1
HOUR = timedelta(hours=1)


def asset(
    price_micro: int,
    *,
    driver: Driver = Driver.BYTES_IN,
    per: Per = Per.MONTH,
    amount: int = 1,
    capacity: int | None = None,
    begins: datetime = FIRST,
    ends: datetime | None = END,
    name: str = "a",
) -> Asset:
    return Asset(
        name=name, kind=Kind.HOSTS, driver=driver, amount=amount, price_micro=price_micro, per=per,
        begins=begins, ends=ends, capacity_month=capacity,
    )  # fmt: skip


def month(assets: list[Asset], usage: dict[str, dict[str, int]], idle: Idle = Idle.SPREAD) -> Allocation:
    return allocate(assets, usage, FIRST, END, idle=idle)


def bytes_in(**tenants: int) -> dict[str, dict[str, int]]:
    return {name: {"bytes_in": quantity} for name, quantity in tenants.items()}


def loaded(found: Allocation) -> dict[str, int]:
    return {tenant: share.loaded_micro for tenant, share in found.shares.items()}


# -- dividing -------------------------------------------------------------------------------------------


def test_the_largest_remainders_are_rounded_up_and_equal_ones_in_order() -> None:
    assert apportion(10, {"a": 1, "b": 1, "c": 1}) == {"a": 4, "b": 3, "c": 3}
    assert apportion(10, {"a": 1, "b": 1, "c": 1}, ["c", "a", "b"]) == {"a": 3, "b": 3, "c": 4}
    assert apportion(10, {"a": 5, "b": 6, "c": 0}) == {"a": 5, "b": 5, "c": 0}
    assert apportion(1, {"a": 1, "b": 2}) == {"a": 0, "b": 1}


def test_without_a_weight_nothing_is_divided() -> None:
    assert apportion(10, {"a": 0, "b": 0}) == {"a": 0, "b": 0}
    assert apportion(10, {}) == {}


@pytest.mark.parametrize(("total", "weights"), [(-1, {"a": 1}), (1, {"a": -1, "b": 5})])
def test_nothing_negative_is_divided(total: int, weights: dict[str, int]) -> None:
    with pytest.raises(InvariantBroken):
        apportion(total, weights)


def test_a_cost_of_many_tenants_is_divided_to_the_micro_unit() -> None:
    """As many as there are in a large service: the parts are far smaller than a micro-unit."""
    draw = Random(17)
    weights = {number: draw.randrange(UINT64) for number in range(200_000)}
    parts = apportion(10_007, weights)
    assert sum(parts.values()) == 10_007 and set(parts.values()) == {0, 1}


@given(st.integers(0, 10**18), st.dictionaries(st.integers(), st.integers(0, UINT64), max_size=20))
def test_parts_add_up_and_are_within_one_of_the_exact_part(total: int, weights: dict[int, int]) -> None:
    parts, whole = apportion(total, weights), sum(weights.values())
    assert sum(parts.values()) == (total if whole else 0)
    assert all(abs(parts[key] * whole - total * weight) < max(whole, 1) for key, weight in weights.items())


# -- what an asset costs --------------------------------------------------------------------------------


def test_hours_months_and_periods_have_their_price() -> None:
    assert asset(100_000, per=Per.HOUR, amount=3).cost_micro(FIRST, END) == 3 * 100_000 * 720
    assert asset(100_000, amount=3).cost_micro(FIRST, END) == 300_000
    assert asset(100_000, ends=None).cost_micro(FIRST, END) == 100_000
    half = asset(100_001, begins=FIRST + 15 * 24 * HOUR)
    assert half.cost_micro(FIRST, END) == 50_001, "half of a unit is rounded up"
    year = asset(
        365, per=Per.PERIOD, begins=datetime(2026, 1, 1, tzinfo=UTC), ends=datetime(2027, 1, 1, tzinfo=UTC)
    )
    assert year.cost_micro(FIRST, END) == 30
    assert year.cost_micro(END, month_after(END)) == 31
    assert asset(5).cost_micro(END, month_after(END)) == 0


_MOMENTS = st.integers(0, 500_000).map(
    lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)


@given(st.lists(_MOMENTS, min_size=3, max_size=8, unique=True), st.sampled_from(Per), st.integers(0, 10**15))
def test_what_months_cost_adds_up_to_the_whole(moments: list[datetime], per: Per, price: int) -> None:
    first, *between, last = sorted(moments)
    one = asset(price, per=per, begins=first, ends=last)
    marks = [first - HOUR, *between, last + HOUR]
    parts = [one.cost_micro(a, b) for a, b in pairwise(marks)]
    assert min(parts) >= 0
    assert sum(parts) == one.cost_micro(first, last)
    if per is Per.PERIOD:
        assert sum(parts) == price


@pytest.mark.parametrize(
    "wrong",
    [
        {"price_micro": -1}, {"amount": -1}, {"ends": FIRST}, {"per": Per.PERIOD, "ends": None},
        {"capacity_month": 0}, {"driver": Driver.NONE, "capacity_month": 5},
    ],
)  # fmt: skip
def test_an_asset_that_cannot_be_does_not_exist(wrong: dict[str, object]) -> None:
    with pytest.raises(InvariantBroken):
        replace(asset(1), **wrong)  # type: ignore[arg-type]


# -- whose it is ----------------------------------------------------------------------------------------


def test_direct_idle_and_overhead_of_a_small_service() -> None:
    """Half of the disks is idle; overhead and idle follow direct costs."""
    found = month(
        [asset(1_000, capacity=200), asset(300, driver=Driver.NONE)], bytes_in(acme=75, other=25, quiet=0)
    )
    assert found.shares == {
        "acme": Share(direct_micro=375, idle_micro=375, overhead_micro=225),
        "other": Share(direct_micro=125, idle_micro=125, overhead_micro=75),
        "quiet": Share(),
    }
    assert (found.cost_micro, found.direct_micro, found.idle_micro, found.overhead_micro) == (
        1_300,
        500,
        500,
        300,
    )
    assert (found.idle_kept_micro, found.unspread_micro) == (0, 0)
    (disks, _) = found.assets
    assert (disks.used, disks.capacity, disks.idle_micro) == (100, 200, 500)


def test_the_service_may_keep_what_is_idle() -> None:
    found = month([asset(1_000, capacity=200)], bytes_in(acme=100), Idle.KEPT)
    assert found.shares["acme"] == Share(direct_micro=500)
    assert (found.idle_micro, found.idle_kept_micro) == (500, 500)


def test_without_a_capacity_nothing_is_idle_and_above_it_nothing_is_negative() -> None:
    for capacity in (None, 1, 100):
        found = month([asset(1_000, capacity=capacity)], bytes_in(acme=75, other=25))
        assert (loaded(found), found.idle_micro) == ({"acme": 750, "other": 250}, 0)


def test_a_capacity_is_of_the_time_that_the_asset_is_there() -> None:
    half = asset(1_000, capacity=200, begins=FIRST + 15 * 24 * HOUR)
    assert month([half], bytes_in(acme=50)).assets[0].capacity == 100


def test_a_month_without_use_costs_no_tenant_anything() -> None:
    assets = [asset(1_000), asset(200, capacity=5), asset(30, driver=Driver.NONE)]
    usages: list[dict[str, dict[str, int]]] = [{}, bytes_in(acme=0), {"acme": {}}]
    for usage in usages:
        found = month(assets, usage)
        assert set(loaded(found).values()) <= {0}
        assert (found.cost_micro, found.idle_kept_micro, found.unspread_micro) == (1_230, 200, 1_030)


def test_each_driver_counts_its_meters() -> None:
    used = {"bytes_in": 1, "bytes_out": 10, "messages_in": 100, "messages_out": 1_000, "requests": 10_000}
    assert {driver.value: used_of(driver, used) for driver in METERS} == {
        "bytes": 11, "bytes_in": 1, "bytes_out": 10, "messages": 1_100, "messages_in": 100, "messages_out": 1_000,
        "none": 0,
    }  # fmt: skip
    assert used_of(Driver.BYTES, {"bytes_in": -5}) == 0


def test_costs_per_million_and_gib_are_rounded_once() -> None:
    assert rate_micro(150, 1_000_000, MILLION) == 150
    assert rate_micro(1, 2_000_000, MILLION) == 1
    assert rate_micro(10**12, 1, GIB) == 10**12 * 2**30
    assert rate_micro(5, 0, MILLION) is None


_QUANTITY = st.one_of(st.integers(0, 3), st.integers(0, UINT64))
_USAGE = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("bytes_in", "bytes_out", "messages_in"), _QUANTITY)),
    max_size=12,
)


@st.composite
def _assets(draw: st.DrawFn) -> Asset:
    driver = draw(st.sampled_from(Driver))
    begins = FIRST + timedelta(minutes=draw(st.integers(-90_000, 40_000)))
    ends = begins + timedelta(minutes=draw(st.integers(1, 90_000)))
    capacity = None if driver is Driver.NONE else draw(st.none() | st.integers(1, UINT64))
    return asset(
        draw(st.integers(0, 10**15)), driver=driver, per=draw(st.sampled_from(Per)), amount=draw(st.integers(0, 10**6)),
        capacity=capacity, begins=begins, ends=ends,
    )  # fmt: skip


@given(st.lists(_assets(), max_size=6), _USAGE, st.sampled_from(Idle), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_the_cost_is_kept_in_any_order_and_no_share_is_negative(
    assets: list[Asset], usage: dict[str, dict[str, int]], idle: Idle, order: Random
) -> None:
    found = month(assets, usage, idle)
    assert found.cost_micro == sum(one.cost_micro(FIRST, END) for one in assets)
    assert sum(loaded(found).values()) + found.idle_kept_micro + found.unspread_micro == found.cost_micro
    for share in found.shares.values():
        assert min(share.direct_micro, share.idle_micro, share.overhead_micro) >= 0
    for one in found.assets:
        parts = (one.direct_micro, one.idle_micro, one.overhead_micro, one.unspread_micro)
        assert min(parts) >= 0 and sum(parts) == one.cost_micro
    if sum(share.direct_micro for share in found.shares.values()):
        assert not found.idle_kept_micro or idle is Idle.KEPT
    tenants = list(usage)
    order.shuffle(tenants)
    again = month(order.sample(assets, len(assets)), {tenant: usage[tenant] for tenant in tenants}, idle)
    assert dict(again.shares) == dict(found.shares)


@given(
    st.lists(_assets(), max_size=4), st.dictionaries(st.sampled_from(["bytes_in", "bytes_out"]), _QUANTITY)
)
def test_one_tenant_bears_all_that_is_spread(assets: list[Asset], used: dict[str, int]) -> None:
    found = month(assets, {"acme": used})
    assert loaded(found)["acme"] == found.cost_micro - found.idle_kept_micro - found.unspread_micro
    if found.direct_micro:
        assert found.idle_kept_micro == 0


# -- months ---------------------------------------------------------------------------------------------


def test_a_month_is_read_or_none() -> None:
    assert month_of("2026-11") == (FIRST, END)
    assert month_of("2026-12") == (END, datetime(2027, 1, 1, tzinfo=UTC))
    for wrong in (
        "2026-13",
        "2026-00",
        "2026-1",
        "26-11",
        "2026/11",
        "9999-01",
        "1969-12",
        "٢٠٢٦-11",
        "+026-11",
        "",
    ):
        assert month_of(wrong) is None, wrong
