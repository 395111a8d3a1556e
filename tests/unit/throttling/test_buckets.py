"""Token buckets: bursts, refill, waits, and the bound on how many there are."""

import pytest

from data_plane.throttling.buckets import TokenBuckets
from penstock.contract.invariant import InvariantBroken


def test_a_burst_passes_at_once_and_the_next_one_waits() -> None:
    buckets = TokenBuckets(per_minute=60, burst=3)
    assert [buckets.take("a", 0) for _ in range(4)] == [0, 0, 0, 1_000]


def test_a_refused_take_takes_nothing() -> None:
    buckets = TokenBuckets(per_minute=60, burst=1)
    buckets.take("a", 0)
    assert buckets.take("a", 400) == 600
    assert buckets.take("a", 1_000) == 0


def test_waiting_as_told_is_enough_and_a_millisecond_less_is_not() -> None:
    for per_minute in (1, 7, 59, 60, 61, 1_000):
        buckets = TokenBuckets(per_minute=per_minute, burst=2)
        buckets.take("a", 0, 2)
        wait = buckets.wait_ms("a", 0)
        assert buckets.wait_ms("a", wait - 1) > 0
        assert buckets.take("a", wait) == 0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    buckets = TokenBuckets(per_minute=60, burst=2)
    buckets.take("a", 0)
    assert [buckets.take("a", 10**9) for _ in range(3)] == [0, 0, 1_000]


def test_draining_every_millisecond_does_not_stop_the_refill() -> None:
    buckets = TokenBuckets(per_minute=30, burst=1)
    passed = sum(buckets.take("a", now) == 0 for now in range(60_000))
    assert passed == 30


def test_what_has_already_happened_empties_a_bucket_but_not_below_zero() -> None:
    buckets = TokenBuckets(per_minute=60, burst=2)
    for _ in range(10):
        buckets.drain("a", 0)
    assert buckets.wait_ms("a", 0) == 1_000


def test_keys_do_not_share_a_bucket() -> None:
    buckets = TokenBuckets(per_minute=60, burst=1)
    assert buckets.take("a", 0) == 0
    assert buckets.take("b", 0) == 0


def test_a_clock_that_stands_or_jumps_back_gives_nothing() -> None:
    buckets = TokenBuckets(per_minute=60, burst=1)
    buckets.take("a", 5_000)
    assert buckets.take("a", 1_000) == 1_000


def test_made_up_keys_take_bounded_memory_and_push_out_the_oldest() -> None:
    buckets = TokenBuckets(per_minute=60, burst=1, buckets_max=3)
    for number in range(100):
        buckets.take(f"k{number}", number)
        assert len(buckets) <= 3
    assert buckets.take("k99", 99) > 0
    assert buckets.take("k0", 99) == 0


def test_a_key_that_is_in_use_is_not_the_one_pushed_out() -> None:
    buckets = TokenBuckets(per_minute=60, burst=1, buckets_max=2)
    buckets.take("old", 0)
    buckets.take("other", 1)
    buckets.drain("old", 2)
    buckets.take("new", 3)
    assert buckets.wait_ms("old", 3) > 0


def test_more_than_a_full_bucket_cannot_be_asked_for() -> None:
    with pytest.raises(InvariantBroken):
        TokenBuckets(per_minute=60, burst=1).take("a", 0, 2)
