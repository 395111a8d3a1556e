"""What a leader knows of one follower, within one leader epoch."""

from collections.abc import Mapping
from dataclasses import dataclass

from data_plane.metadata.model import PartitionRecord
from data_plane.replication.log_start import UNKNOWN_START
from penstock.contract.ids import BrokerId

UNKNOWN_END = -1
"""End of a follower that has not yet opened in this leader epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLag:
    """One follower as metrics show it. `lag` is in offsets, -1 while its position is unknown."""

    broker: BrokerId
    in_sync: bool
    following: bool
    end_offset: int
    lag: int
    caught_up_ms_ago: int


class FollowerProgress:
    """Progress of one follower in this leader epoch."""

    __slots__ = (
        "broker_epoch", "durable_end", "following", "handle", "last_caught_up_ms", "log_start",
        "mark_end", "mark_ms", "partition_epoch", "wants_in", "written_end",
    )  # fmt: skip

    def __init__(self, now_ms: float) -> None:
        self.following = False
        self.wants_in = True
        self.broker_epoch = 0
        """With `handle` it says which open is its newest: what was sent earlier may arrive later, on another stream."""
        self.handle = 0
        self.partition_epoch = 0
        """The partition epoch of the record that it knew when it opened; 0 from a broker of an earlier version."""
        self.written_end = UNKNOWN_END
        self.durable_end = UNKNOWN_END
        self.log_start = UNKNOWN_START
        self.last_caught_up_ms = now_ms
        # The leader's end at some moment; reaching it proves that the follower was caught up at that moment.
        self.mark_end = UNKNOWN_END
        self.mark_ms = now_ms

    def opens(self, broker_epoch: int, handle: int) -> bool:
        """Note an open, which ends what was opened before; False for one that is not the newest."""
        if (broker_epoch, handle) <= (self.broker_epoch, self.handle):
            return False
        self.broker_epoch, self.handle, self.following = broker_epoch, handle, False
        return True

    def progressed(self, end: int, leader_end: int, now_ms: float) -> None:
        """Note when the follower last had all of the leader's log."""
        if end >= leader_end:
            self.last_caught_up_ms = now_ms
        elif end >= self.mark_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.mark_ms)
        else:
            return
        self.mark_end = leader_end
        self.mark_ms = now_ms

    def lag(self, broker: BrokerId, end: int, leader_end: int, now_ms: float, in_sync: bool) -> FollowerLag:
        """How far it is behind the leader by `end`, its end that counts."""
        return FollowerLag(
            broker=broker,
            in_sync=in_sync,
            following=self.following,
            end_offset=end,
            lag=-1 if end == UNKNOWN_END else max(0, leader_end - end),
            caught_up_ms_ago=0 if end >= leader_end else max(0, int(now_ms - self.last_caught_up_ms)),
        )


def adopted(
    followers: Mapping[BrokerId, FollowerProgress],
    before: PartitionRecord,
    after: PartitionRecord,
    *,
    me: BrokerId,
    now_ms: float,
) -> dict[BrokerId, FollowerProgress]:
    """The followers of the record `after`, other than `me`. A replica that was added, or has another generation than
    `before`, is new: nothing is known of it (RL39)."""
    known = dict(zip(before.replicas, before.replica_generations, strict=True))
    wanted = dict(zip(after.replicas, after.replica_generations, strict=True))
    return {
        broker: followers[broker] if known.get(broker) == generation else FollowerProgress(now_ms)
        for broker, generation in wanted.items()
        if broker != me
    }
