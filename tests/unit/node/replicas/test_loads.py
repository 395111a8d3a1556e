"""Rates of partitions: they follow what is counted, fade, and leave nothing behind."""

import pytest

from data_plane.node.replicas.loads import FOLD_MS, RATE_MS, PartitionLoads
from penstock.contract.ids import TopicId, TopicPartition

BUSY, CALM = (TopicPartition(TopicId(bytes([n]) * 16), 0) for n in (1, 2))


def folded(
    loads: PartitionLoads, *, times: int, took: int = 0, pushed: int = 0, begin_ms: float = 0
) -> float:
    now_ms = begin_ms
    for _ in range(times):
        for _ in range(took):
            loads.took(BUSY, 1_000)
        if pushed:
            loads.pushed(BUSY, pushed)
        now_ms += FOLD_MS
        loads.fold(now_ms)
    return now_ms


def test_a_steady_load_is_told_as_its_bytes_and_batches_a_second() -> None:
    loads = PartitionLoads()
    folded(loads, times=60, took=50, pushed=200_000)
    load = loads.busy()[BUSY]
    assert load.bytes_in_per_s == pytest.approx(10_000, rel=0.01)
    assert load.batches_per_s == pytest.approx(10, rel=0.01)
    assert load.bytes_out_per_s == pytest.approx(40_000, rel=0.01)


def test_a_partition_at_rest_costs_nothing_before_and_after_its_load() -> None:
    loads = PartitionLoads()
    assert loads.busy() == {}
    now_ms = folded(loads, times=10, took=5)
    assert list(loads.busy()) == [BUSY]
    folded(loads, times=100, begin_ms=now_ms)
    assert loads.busy() == {}


def test_what_was_a_rates_length_ago_counts_a_third() -> None:
    loads = PartitionLoads()
    now_ms = folded(loads, times=100, took=50)
    before = loads.busy()[BUSY].bytes_in_per_s
    folded(loads, times=int(RATE_MS / FOLD_MS), begin_ms=now_ms)
    assert loads.busy()[BUSY].bytes_in_per_s == pytest.approx(before / 2.718, rel=0.01)


def test_two_folds_at_one_moment_count_once() -> None:
    loads = PartitionLoads()
    now_ms = folded(loads, times=10, took=50)
    loads.took(CALM, 9)
    before = loads.busy()[BUSY].bytes_in_per_s
    loads.fold(now_ms)
    assert loads.busy()[BUSY].bytes_in_per_s == before
