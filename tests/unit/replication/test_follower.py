"""A follower: where it cuts its log, which pushes it takes, how far it calls its log committed."""

import pytest

from data_plane.replication.follower import (
    BelowWatermark,
    BrokenPush,
    FollowerState,
    IgnorePush,
    Phase,
    TakePush,
    follower_watermark,
    start_over_point,
    truncation_point,
)
from data_plane.replication.opening import Position
from penstock.contract.ids import BrokerId


def own_epochs(epoch: int) -> tuple[int, int]:
    """Own log: epoch 2 from 0, epoch 4 from 40, epoch 6 from 70; it ends at 90."""
    for start_of, end in ((6, 90), (4, 70), (2, 40)):
        if epoch >= start_of:
            return start_of, end
    return epoch, 0


def following(*, strict: bool = True, loss_declared: bool = False) -> FollowerState:
    state = FollowerState(
        BrokerId(1), leader_epoch=7, replica_generation=1, strict=strict, loss_declared=loss_declared
    )
    state.open(3, Position(log_end_offset=90, durable_end_offset=85, last_epoch=6))
    state.accepted()
    return state


@pytest.mark.parametrize(
    ("epoch", "leaders_end", "cut"),
    [
        (6, 80, 80),
        (6, 200, 90),
        (5, 75, 70),
        (4, 60, 60),
        (3, 45, 40),
        (1, 0, 0),
        (-1, 30, 30),
    ],
    ids=[
        "same epoch, leader ends earlier",
        "same epoch, own log ends earlier",
        "own next lower epoch ends earlier",
        "next lower epoch, leader ends earlier",
        "two epochs back",
        "before the own first epoch",
        "the leader knows no epoch",
    ],
)
def test_the_cut_is_where_both_logs_still_agree(epoch: int, leaders_end: int, cut: int) -> None:
    assert (
        truncation_point(
            epoch_lookup=own_epochs, log_end=90, divergence_epoch=epoch, divergence_end=leaders_end
        )
        == cut
    )


def cut(state: FollowerState, epoch: int, end_offset: int, *, high_watermark: int) -> int:
    return state.diverging(
        epoch=epoch,
        end_offset=end_offset,
        epoch_lookup=own_epochs,
        log_end=90,
        high_watermark=high_watermark,
    )


def test_the_cut_never_depends_on_the_watermark() -> None:
    for watermark in (0, 10, 80):
        state = following()
        assert cut(state, 6, 80, high_watermark=watermark) == 80
        assert state.phase is Phase.IDLE


def test_a_truncation_below_the_own_watermark_stops_the_replica() -> None:
    with pytest.raises(BelowWatermark, match="truncate at 70, 75 is committed"):
        cut(following(), 5, 75, high_watermark=75)


def test_after_a_declared_loss_what_was_committed_goes_too() -> None:
    state = following(loss_declared=True)
    assert cut(state, 5, 75, high_watermark=75) == 70
    assert state.start_over(20, high_watermark=70) == 20


def test_starting_over_above_the_watermark_is_right_and_below_it_stops_the_replica() -> None:
    assert following().start_over(60, high_watermark=50) == 60
    with pytest.raises(BelowWatermark):
        following().start_over(49, high_watermark=50)
    with pytest.raises(BelowWatermark):
        start_over_point(log_start_offset=49, high_watermark=50)


def take(state: FollowerState, base: int | None = 90, **changes: int) -> object:
    values = {"first_batch_epoch": 7, "log_end": 90, "last_epoch": 6, **changes}
    handle, epoch = values.pop("handle", 3), values.pop("leader_epoch", 7)
    return state.push(handle, epoch, base, high_watermark=80, **values)


def test_a_push_that_continues_the_log_is_taken() -> None:
    assert take(following()) == TakePush(append=True, high_watermark=80, ack=False)


def test_a_push_says_the_leaders_watermark_as_it_is_beyond_the_own_log_too() -> None:
    """The batches that come with it are appended first."""
    taken = following().push(3, 7, 90, high_watermark=120, first_batch_epoch=7, log_end=90, last_epoch=6)
    assert taken == TakePush(append=True, high_watermark=120, ack=False)


def test_a_push_over_a_gap_that_compaction_left_is_taken() -> None:
    assert take(following(), 95) == TakePush(append=True, high_watermark=80, ack=False)


def test_a_push_of_marks_alone_is_taken() -> None:
    for strict in (True, False):
        state = following(strict=strict)
        taken = take(state, None, first_batch_epoch=-1)
        assert taken == TakePush(append=False, high_watermark=80, ack=False)


def test_a_follower_acks_what_is_written_at_once_only_where_that_counts() -> None:
    assert take(following(strict=False)) == TakePush(append=True, high_watermark=80, ack=True)
    assert take(following(strict=True)) == TakePush(append=True, high_watermark=80, ack=False)


@pytest.mark.parametrize("changes", [{"handle": 2}, {"leader_epoch": 6}, {"leader_epoch": 8}])
def test_a_push_of_another_handle_or_epoch_is_ignored(changes: dict[str, int]) -> None:
    assert isinstance(take(following(), **changes), IgnorePush)


def test_a_push_after_the_stream_was_lost_is_ignored() -> None:
    state = following()
    state.stream_lost()
    assert isinstance(take(state), IgnorePush)


def test_a_push_before_the_answer_is_ignored() -> None:
    state = following()
    state.open(4, Position(log_end_offset=90, durable_end_offset=90, last_epoch=6))
    assert isinstance(take(state, handle=4), IgnorePush)


@pytest.mark.parametrize(
    ("base", "changes"),
    [(89, {}), (90, {"first_batch_epoch": 5}), (90, {"first_batch_epoch": 8})],
    ids=["below the log end", "older than the last batch", "newer than the leader"],
)
def test_a_push_that_does_not_fit_is_broken(base: int, changes: dict[str, int]) -> None:
    assert isinstance(take(following(), base, **changes), BrokenPush)


def test_an_answer_counts_only_for_the_open_that_waits() -> None:
    state = FollowerState(BrokerId(1), leader_epoch=7, replica_generation=2, strict=True)
    position = Position(log_end_offset=9, durable_end_offset=8, last_epoch=6)
    sent = state.open(5, position)
    assert (sent.handle, sent.leader_epoch, sent.replica_generation, sent.position) == (5, 7, 2, position)
    assert state.answers(5, 7)
    assert not state.answers(4, 7)
    assert not state.answers(5, 6)
    state.refused()
    assert not state.answers(5, 7)


def test_the_followers_watermark_is_the_leaders_within_its_own_log_and_never_goes_back() -> None:
    assert follower_watermark(own=10, leaders=50, log_end=40) == 40
    assert follower_watermark(own=10, leaders=30, log_end=40) == 30
    assert follower_watermark(own=30, leaders=20, log_end=40) == 30
