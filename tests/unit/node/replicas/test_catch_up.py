"""The rate of catching up: shared, never for replicas in sync or near the end."""

from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.stats import NodeStats
from penstock.contract.ids import BrokerId

RATE = 1_000_000
FAR, NEAR, IN_SYNC = BrokerId(4), BrokerId(5), BrokerId(2)


class HandMovedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


def test_a_rate_is_kept_over_time_and_counts_what_went_out() -> None:
    clock, stats = HandMovedClock(), NodeStats()
    catch_up = CatchUp(RATE, clock, stats)
    clock.ms = 1_000
    sent = 0
    while clock.ms < 11_000:
        wait_ms = catch_up.wait_ms()
        if wait_ms == 0:
            catch_up.sent(50_000)
            sent += 50_000
        else:
            clock.ms += wait_ms
    assert sent == pytest.approx(10 * RATE, rel=0.03)
    assert stats.catch_up_bytes == sent


@pytest.mark.pure
def test_nothing_waits_without_a_rate() -> None:
    catch_up = CatchUp(0, HandMovedClock(), NodeStats())
    assert not catch_up.concerns(partition(), leader({FAR: 0}), FAR, 1)


@pytest.mark.pure
def test_only_who_is_far_behind_and_not_in_sync_is_concerned() -> None:
    catch_up = CatchUp(RATE, HandMovedClock(), NodeStats())
    ends = {FAR: 0, NEAR: 990, IN_SYNC: 0}
    assert catch_up.concerns(partition(), leader(ends), FAR, 2_000)
    assert not catch_up.concerns(partition(), leader(ends), NEAR, 2_000), "10 offsets are 1,000 bytes"
    assert not catch_up.concerns(partition(), leader(ends), IN_SYNC, 2_000)


def partition() -> Any:
    """1,000 offsets of 100 bytes."""
    return SimpleNamespace(log=SimpleNamespace(log_end_offset=1_000, log_start_offset=0, size_bytes=100_000))


def leader(ends: dict[BrokerId, int]) -> Any:
    return SimpleNamespace(
        record=SimpleNamespace(in_sync=(IN_SYNC,)), counted_end_of=lambda broker: ends[broker]
    )
