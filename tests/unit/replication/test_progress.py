"""How long ago a follower had all of its leader's log: by what it has now and where the leader was then."""

import pytest

from data_plane.replication.progress import FollowerProgress
from penstock.contract.ids import BrokerId

STEP_MS = 100.0


@pytest.mark.parametrize("steps_behind", [0, 1, 3, 10])
def test_a_follower_that_is_always_behind_by_a_steady_time_never_counts_as_behind_by_more_than_twice_that(
    steps_behind: int,
) -> None:
    progress = FollowerProgress(0.0)
    told_ms = []
    for step in range(1, 200):
        end, leader_end, now_ms = max(0, step - steps_behind), step, step * STEP_MS
        progress.progressed(end, leader_end, now_ms)
        told_ms.append(progress.lag(BrokerId(2), end, leader_end, now_ms, True).caught_up_ms_ago)
    behind_ms = steps_behind * STEP_MS
    assert behind_ms <= max(told_ms[20:]) <= 2 * behind_ms
    assert min(told_ms[20:]) >= behind_ms, "it never had more than it has"


def test_a_follower_that_stands_still_is_behind_by_ever_more_and_then_at_once_by_nothing() -> None:
    progress = FollowerProgress(0.0)
    progress.progressed(5, 10, 0.0)
    for now_ms in (1_000.0, 2_000.0):
        progress.progressed(5, 20, now_ms)
        lag = progress.lag(BrokerId(2), 5, 20, now_ms, False)
        assert (lag.lag, lag.caught_up_ms_ago) == (15, now_ms)
    progress.progressed(20, 20, 3_000.0)
    assert progress.lag(BrokerId(2), 20, 20, 3_500.0, False).caught_up_ms_ago == 0
    assert progress.lag(BrokerId(2), 20, 21, 3_500.0, False).caught_up_ms_ago == 500
