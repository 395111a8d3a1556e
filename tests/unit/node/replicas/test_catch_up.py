"""The rate of catching up: shared, never for replicas in sync or near the end."""

from dataclasses import replace

import pytest

from data_plane.node.replicas.catch_up import CatchUp
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.leader import LeaderState
from tests.unit.log.miniature import SMALL, Miniature
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, OTHER, held_by, led

RATE = 1_000_000
OFFSETS = 100


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


@pytest.mark.parametrize(
    ("rested_ms", "at_once"), [(1, 1_000), (50, 50_000), (100, 100_000), (60_000, 100_000)]
)
def test_what_was_not_used_goes_out_at_once_up_to_a_tenth_of_a_second(rested_ms: int, at_once: int) -> None:
    clock = HandMovedClock()
    catch_up = CatchUp(RATE, clock, NodeStats())
    assert catch_up.wait_ms() > 0, "it begins with nothing"
    clock.ms = rested_ms
    sent = 0
    while catch_up.wait_ms() == 0:
        catch_up.sent(500)
        sent += 500
    assert sent == at_once


def test_what_was_overdrawn_is_waited_for() -> None:
    clock = HandMovedClock()
    catch_up = CatchUp(RATE, clock, NodeStats())
    clock.ms = 100
    assert catch_up.wait_ms() == 0
    catch_up.sent(600_000)
    assert catch_up.wait_ms() == pytest.approx(500, abs=1)
    clock.ms += catch_up.wait_ms()
    assert catch_up.wait_ms() == 0


def test_nothing_waits_without_a_rate() -> None:
    replica, leading = far_ahead(0)
    assert not CatchUp(0, HandMovedClock(), NodeStats()).concerns(replica, leading, FOLLOWER, 1)
    assert CatchUp(RATE, HandMovedClock(), NodeStats()).concerns(replica, leading, FOLLOWER, 1)


def test_only_who_is_far_behind_and_not_in_sync_is_concerned() -> None:
    catch_up = CatchUp(RATE, HandMovedClock(), NodeStats())
    assert catch_up.concerns(*far_ahead(0), FOLLOWER, 2_000)
    assert not catch_up.concerns(*far_ahead(OFFSETS - 10), FOLLOWER, 2_000), "10 offsets are some 1,300 bytes"
    assert not catch_up.concerns(*far_ahead(0), OTHER, 2_000)


def far_ahead(follower_end: int) -> tuple[Replica, LeaderState]:
    """A leader of OFFSETS offsets, some 130 bytes each, and its state. What is in sync has nothing of them either."""
    broker = Miniature(settings=replace(SMALL, segment_bytes=1 << 20))
    replica = led(broker)
    broker.fill(OFFSETS // 2)
    held_by(FOLLOWER, replica, follower_end)
    held_by(OTHER, replica, 0)
    assert replica.leading is not None
    return replica, replica.leading
