"""Frequent keys found from a sample, in bounded memory."""

import random
import tracemalloc

import pytest

from penstock.client.producing.key_sampler import (
    HALVED_MS,
    KEY_BYTES_MAX,
    KEYS,
    LOOK_MS,
    PARTITIONS_MAX,
    SAMPLED_OF,
    KeySampler,
    KeySketch,
)


def test_a_key_that_is_in_more_than_its_part_of_the_sample_is_never_missing() -> None:
    dice, sketch = random.Random(1), KeySketch(0.0)
    true = 0
    for _ in range(20_000):
        hot = dice.random() < 0.2
        true += hot
        sketch.add(b"hot" if hot else b"%d" % dice.randrange(100_000), 0.0)
    first = sketch.top(1, 0.0)[0]
    assert first.key == b"hot" and first.size == 3
    assert first.count - first.error <= true <= first.count


@pytest.mark.parametrize("seed", range(5))
def test_counts_bound_the_truth_from_both_sides(seed: int) -> None:
    dice, sketch = random.Random(seed), KeySketch(0.0)
    true: dict[bytes, int] = {}
    for _ in range(3_000):
        key = b"%d" % int(dice.expovariate(0.05))
        true[key] = true.get(key, 0) + 1
        sketch.add(key, 0.0)
    found = sketch.top(KEYS, 0.0)
    for one in found:
        assert one.count - one.error <= true[one.key] <= one.count
    frequent = {key for key, count in true.items() if count > sketch.sampled // KEYS}
    assert frequent <= {one.key for one in found} or not frequent


def test_the_key_that_goes_is_the_one_with_the_smallest_count() -> None:
    dice, sketch = random.Random(3), KeySketch(0.0)
    counts: dict[bytes, int] = {}
    for number in range(5_000):
        now = number // 1_000 * HALVED_MS
        if number % 1_000 == 0:
            sketch.top(1, now)
            counts = {key: counter.count for key, counter in sketch._counters.items()}
        key = b"%d" % int(dice.expovariate(0.02))
        if key not in counts and len(counts) == KEYS:
            gone = set(counts)
            least = min(counts.values())
            sketch.add(key, now)
            (out,) = gone - set(sketch._counters)
            assert counts.pop(out) == least
            counts[key] = least + 1
        else:
            sketch.add(key, now)
            counts[key] = counts.get(key, 0) + 1
        assert counts == {key: counter.count for key, counter in sketch._counters.items()}


def test_keys_that_come_by_turns_are_seen_alike() -> None:
    sampler, left, seen = KeySampler(), 0, [0] * 32
    left = sampler.gap
    for number in range(200_000):
        left -= 1
        if not left:
            left = sampler.sample("orders", 0, b"%d" % (number % 32), 0.0)
            seen[number % 32] += 1
    assert sum(seen) == pytest.approx(200_000 / SAMPLED_OF, rel=0.1)
    ((_, sketch),) = sampler.sketches()
    assert sketch.sampled == pytest.approx(200_000, rel=0.01), (
        "each look counts for those since the one before"
    )
    assert min(seen) > 0 and max(seen) < 3 * sum(seen) / 32


def test_what_was_frequent_fades_and_what_is_frequent_now_is_seen() -> None:
    sketch = KeySketch(0.0)
    for _ in range(1_000):
        sketch.add(b"old", 0.0)
    for _ in range(100):
        sketch.add(b"new", 5 * HALVED_MS)
    assert [one.key for one in sketch.top(2, 5 * HALVED_MS)] == [b"new", b"old"]
    assert sketch.top(2, 1e12) == [] and sketch.sampled == 0


def test_long_keys_and_many_partitions_take_no_more_than_their_bound() -> None:
    tracemalloc.start()
    sampler = KeySampler()
    for number in range(40 * PARTITIONS_MAX):
        sampler.sample("orders", number % (2 * PARTITIONS_MAX), b"%d" % number + bytes(100_000), 0.0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sketches = sampler.sketches()
    assert len(sketches) == PARTITIONS_MAX and used < 4 << 20
    for _, sketch in sketches:
        assert all(len(one.key) == KEY_BYTES_MAX and one.size > 100_000 for one in sketch.top(KEYS, 0.0))


def test_a_topic_that_is_gone_leaves_nothing() -> None:
    sampler = KeySampler()
    sampler.sample("orders", 0, b"k", 0.0)
    sampler.sample("other", 0, b"k", 0.0)
    sampler.forget("orders")
    assert [where for where, _ in sampler.sketches()] == [("other", 0)]


@pytest.mark.parametrize("per_second", [2, 20, 200, 2_000, 20_000, 200_000])
def test_a_producer_of_few_messages_looks_at_more_of_them(per_second: int) -> None:
    """At no rate more looks than one each LOOK_MS or one of SAMPLED_OF, and enough for a share to say something."""
    dice, sampler = random.Random(per_second), KeySampler()
    left, now = sampler.gap, 0.0
    seconds = min(60.0, 300_000 / per_second)
    for _ in range(int(seconds * per_second)):
        now += 1_000 / per_second
        left -= 1
        if not left:
            left = sampler.sample(
                "orders", 0, b"hot" if dice.random() < 0.5 else b"%d" % dice.randrange(10_000), now
            )
    ((_, sketch),) = sampler.sketches()
    assert sketch.looks >= 20
    assert sampler.looks <= 1.5 * seconds * max(1_000 / LOOK_MS, per_second / SAMPLED_OF) + 20
    (first,) = sketch.top(1, now)
    assert first.key == b"hot"
    assert 0.25 < (first.count - first.error) / sketch.sampled < 0.75


def test_a_burst_after_a_rest_is_no_burst_of_looks() -> None:
    sampler = KeySampler()
    left, now = sampler.gap, 0.0
    for _ in range(20):
        now += 10_000.0
        for _ in range(10_000):
            left -= 1
            if not left:
                left = sampler.sample("orders", 0, b"k", now)
    assert sampler.looks < 20 * (10_000 / SAMPLED_OF + 10)
