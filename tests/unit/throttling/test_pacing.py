"""Paces: the rate holds over any window, order holds through refusals, and brokers share by what they lead."""

import random

import pytest

from data_plane.metadata import model
from data_plane.throttling.pacing import BURST_MS, HOLD_MS_MAX, SHARE_CHECK_MS, Pace, Pacing, part_led
from penstock.contract.ids import BrokerId, TenantId, TopicId
from tests.unit.controller.setup import ACME, ORDERS, Store, record


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


def paced(store: Store, rate: int) -> None:
    tenant = model.TenantRecord(tenant=ACME, quotas=model.TenantQuotas(produce_bytes_per_s=rate))
    store.put(model.tenant_key(ACME), tenant.encode())


def test_brokers_share_the_rate_by_the_partitions_they_lead() -> None:
    store = Store()
    store.topic(record(), record(partition=1), record(partition=2, leader=2), record(partition=3, leader=-1))
    paced(store, 3_000)
    assert part_led(store.image, BrokerId(1), ACME) == (2, 3)
    shares = [Pacing(store.image, BrokerId(broker)).of(ACME, 0.0) for broker in (1, 2)]
    assert [pace.bytes_per_s for pace in shares if pace] == [2_000, 1_000]


def test_the_share_follows_the_leaders_and_the_rate_and_ends_with_the_limit() -> None:
    store = Store()
    store.topic(record(), record(partition=1, leader=2))
    paced(store, 2_000)
    pacing = Pacing(store.image, BrokerId(1))
    pace = pacing.of(ACME, 0.0)
    assert pace is not None and pace.bytes_per_s == 1_000
    store.put(model.block_key(ORDERS, 0), model.encode_block({0: record(), 1: record(partition=1)}))
    assert pacing.of(ACME, 1.0) is pace and pace.bytes_per_s == 1_000, "looked at now and then"
    assert pacing.of(ACME, SHARE_CHECK_MS + 1.0) is pace and pace.bytes_per_s == 2_000
    paced(store, 500)
    assert pacing.of(ACME, SHARE_CHECK_MS + 2.0) is pace and pace.bytes_per_s == 500, (
        "a new rate counts at once"
    )
    paced(store, 0)
    assert pacing.of(ACME, SHARE_CHECK_MS + 3.0) is None
    assert pacing.of(TenantId("nobody"), 0.0) is None


def test_a_tenant_without_leaders_still_has_a_pace() -> None:
    store = Store()
    store.topic(record(leader=-1), topic_id=TopicId(b"t" * 16))
    paced(store, 10)
    pace = Pacing(store.image, BrokerId(1)).of(ACME, 0.0)
    assert pace is not None and pace.bytes_per_s == 10


def test_a_rate_that_is_set_a_second_time_begins_with_nothing_owed() -> None:
    store = Store()
    store.topic(record())
    paced(store, 1_000)
    pacing = Pacing(store.image, BrokerId(1))
    first = pacing.of(ACME, 0.0)
    assert first is not None
    first.enter(100_000, 0.0, may_refuse=False)
    paced(store, 0)
    assert pacing.of(ACME, 1.0) is None
    paced(store, 1_000)
    again = pacing.of(ACME, 2.0)
    assert again is not None and again.enter(10, 2.0) == 0


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
