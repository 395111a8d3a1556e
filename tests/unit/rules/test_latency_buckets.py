"""Latencies in log buckets: each value to 1 %, merging is adding, percentiles of what was counted."""

from random import Random

from penstock.rules.latency_buckets import (
    BUCKET_MAX,
    THRESHOLD_BUCKETS,
    THRESHOLDS_MS,
    bucket_of,
    merged,
    middle_us,
    percentile_us,
)


def test_the_middle_of_a_bucket_is_within_one_percent_of_each_latency_in_it() -> None:
    random = Random(1)
    for _ in range(2_000):
        micros = 10 ** random.uniform(2, 8)
        error = abs(middle_us(bucket_of(micros / 1_000)) - micros)
        assert error <= micros * 0.0101 + 0.5, micros


def test_the_smallest_and_the_largest_have_a_bucket() -> None:
    assert bucket_of(0.0) == bucket_of(-1.0) == bucket_of(0.001) == 0
    assert bucket_of(1e12) == BUCKET_MAX


def test_percentiles_of_merged_histograms_are_those_of_all_latencies_to_one_percent() -> None:
    random = Random(2)
    latencies = [random.lognormvariate(1, 1.5) for _ in range(3_000)]
    parts: list[dict[int, int]] = [{}, {}, {}]
    for at, one in enumerate(latencies):
        part = parts[at % 3]
        part[bucket_of(one)] = part.get(bucket_of(one), 0) + 1
    whole = merged(parts)
    assert sum(whole.values()) == 3_000 and list(whole) == sorted(whole)
    latencies.sort()
    for per_mille in (500, 950, 990, 999, 1_000):
        true_us = latencies[max(1, -(-3_000 * per_mille // 1_000)) - 1] * 1_000
        found = percentile_us(whole, per_mille)
        assert found is not None and abs(found - true_us) <= true_us * 0.0101 + 0.5, per_mille


def test_without_requests_there_is_no_percentile() -> None:
    assert percentile_us({}, 990) is None


def test_a_latency_at_a_threshold_is_not_above_it_and_one_two_percent_longer_is() -> None:
    for threshold, bucket in zip(THRESHOLDS_MS, THRESHOLD_BUCKETS, strict=True):
        assert bucket_of(float(threshold)) <= bucket < bucket_of(threshold * 1.0203)
