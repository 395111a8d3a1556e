"""Decisions about one partition's in-sync set: what counts, what is committed, which replicas may join or must leave.

The leader's state asks these by name and nothing else decides; ends are exclusive offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.contract.ids import BrokerId


@dataclass(frozen=True, slots=True)
class BrokerView:
    """What the image says of a broker. `epoch` 0 = fenced; `active` = unfenced and not shutting down."""

    epoch: int
    active: bool


def counted_end(*, strict: bool, written_end: int, durable_end: int) -> int:
    """The end that counts for the watermark: what is durable; for relaxed topics what is written (RL14)."""
    return durable_end if strict else written_end


def maximal_in_sync(committed: tuple[BrokerId, ...], proposed: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """The committed in-sync set and all replicas in an unresolved proposal (RL15)."""
    return committed + tuple(broker for broker in proposed if broker not in committed)


def committed_offset(*, high_watermark: int, in_sync_count: int, min_insync: int, ends: Sequence[int]) -> int:
    """The next high watermark: the smallest counted end of the maximal set, if enough are in sync (RL13).

    `in_sync_count` counts the committed set, `ends` belong to the maximal one. It never goes back.
    """
    if in_sync_count < min_insync:
        return high_watermark
    return max(high_watermark, min(ends))


def leader_ready(*, high_watermark: int, leader_epoch_start_offset: int) -> bool:
    """May the leader report where the log ends? Only once its watermark has reached its own epoch (RL21)."""
    return high_watermark >= leader_epoch_start_offset


def same_registration(*, seen_epoch: int, registered_epoch: int) -> bool:
    """Is the broker epoch a follower spoke with the one it is registered with now (RL34)?"""
    return seen_epoch == registered_epoch


def reached_epoch_start(*, end: int, leader_epoch_start_offset: int) -> bool:
    """Does the follower have all that the leader had when it became leader (RL34)?"""
    return end >= leader_epoch_start_offset


def may_join(
    *,
    end: int,
    high_watermark: int,
    leader_epoch_start_offset: int,
    following: bool,
    seen_epoch: int,
    registered_epoch: int,
    active: bool,
) -> bool:
    """May a follower enter the in-sync set (RL34)? `following` = it opened in this epoch and is connected."""
    return (
        following
        and active
        and same_registration(seen_epoch=seen_epoch, registered_epoch=registered_epoch)
        and end >= high_watermark
        and reached_epoch_start(end=end, leader_epoch_start_offset=leader_epoch_start_offset)
    )


def lags_too_long(
    *, end: int, leader_end: int, last_caught_up_ms: float, now_ms: float, lag_ms_max: int
) -> bool:
    """Must an in-sync follower leave? By time since it last had all of the leader's log, not by count (RL37)."""
    return end < leader_end and now_ms - last_caught_up_ms > lag_ms_max
