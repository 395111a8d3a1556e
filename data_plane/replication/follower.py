"""The follower's view of one partition: where to truncate its log, which pushes to take, what is committed.

A follower is `opening` (it has sent its position) or `following` (pushes arrive). A *diverging* or *start
over* answer truncates the log and it opens again with a new handle, until the answer is *accepted* (RL26). A
`FollowerState` lives for one leader epoch; a new leader or epoch makes a new one.
"""

from dataclasses import dataclass
from enum import Enum

from data_plane.replication.opening import NO_EPOCH, EpochLookup, Position
from penstock.contract.ids import BrokerId
from penstock.contract.invariant import invariant


class BelowWatermark(Exception):
    """The leader's log contradicts what this replica knows to be committed: the replica stops (RL31)."""


class Phase(Enum):
    """Where the exchange with the leader stands."""

    IDLE = "idle"
    OPENING = "opening"
    FOLLOWING = "following"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakePush:
    """The push is for this follower as it is now. To be carried out in the order of the fields, without an await in
    between; when the append fails, nothing behind it is done."""

    append: bool
    """Append its batches: it brings some."""
    high_watermark: int
    """The leader's; note it as far as the own log reaches then (`follower_watermark`)."""
    ack: bool
    """Tell the leader at once what is held: written counts (RL14). Otherwise the ack waits until it is durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnorePush:
    """The push belongs to an earlier handle, epoch or role; nothing is wrong (RL29)."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPush:
    """The push does not fit the log: close this handle and open again with the true position (RL33)."""

    reason: str


PushVerdict = TakePush | IgnorePush | BrokenPush


# -- decisions ------------------------------------------------------------------------------------------


def truncation_point(
    *, epoch_lookup: EpochLookup, log_end: int, divergence_epoch: int, divergence_end: int
) -> int:
    """Where to truncate after a *diverging* answer (RL26): own end of that epoch, or of the next lower own one,
    or the leader's end, whichever is lowest. Never the watermark (RL24). Several rounds may be needed.
    """
    if divergence_epoch == NO_EPOCH:
        return min(log_end, divergence_end)
    _, own_end = epoch_lookup(divergence_epoch)
    return min(own_end, divergence_end, log_end)


def checked_truncation(*, offset: int, high_watermark: int) -> int:
    """`offset`, unless truncating there would remove what is committed: then `BelowWatermark` (RL31)."""
    if offset < high_watermark:
        raise BelowWatermark(f"the leader asks to truncate at {offset}, {high_watermark} is committed here")
    return offset


def start_over_point(*, log_start_offset: int, high_watermark: int) -> int:
    """Where an emptied log begins (RL32). What is committed here must lie before the leader's start
    (RL31).
    """
    return checked_truncation(offset=log_start_offset, high_watermark=high_watermark)


def push_objection(
    *,
    following: bool,
    handle: int,
    own_handle: int,
    leader_epoch: int,
    own_leader_epoch: int,
    base_offset: int | None,
    first_batch_epoch: int,
    log_end: int,
    last_epoch: int,
) -> IgnorePush | BrokenPush | None:
    """Why this push may not be taken (RL29, RL33); None when it may. `base_offset` None = it only moves the marks.

    A base offset above the log end is a gap that compaction left at the leader; one below it is never
    right. Checksums and the batches after the first one are the log's to check.
    """
    if not following or handle != own_handle or leader_epoch != own_leader_epoch:
        return IgnorePush(
            reason=f"handle {handle} epoch {leader_epoch}; {own_handle} epoch {own_leader_epoch} is open"
        )
    if base_offset is None:
        return None
    if base_offset < log_end:
        return BrokenPush(reason=f"push at {base_offset}, the log ends at {log_end}")
    if first_batch_epoch < last_epoch:
        return BrokenPush(reason=f"batch of epoch {first_batch_epoch} after one of epoch {last_epoch}")
    if first_batch_epoch > leader_epoch:
        return BrokenPush(reason=f"batch of epoch {first_batch_epoch} from a leader of epoch {leader_epoch}")
    return None


def follower_watermark(*, own: int, leaders: int, log_end: int) -> int:
    """The next high watermark: the leader's, as far as the own log reaches. It never goes back (RL20)."""
    return max(own, min(leaders, log_end))


# -- state ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """What to send to the leader."""

    handle: int
    leader_epoch: int
    replica_generation: int
    position: Position


class FollowerState:
    """One partition that follows `leader` in `leader_epoch`. Its owner is the partition's only writer.

    Where the own log ends and what of it is committed is the log's to know, and an argument here.
    """

    def __init__(
        self,
        leader: BrokerId,
        *,
        leader_epoch: int,
        replica_generation: int,
        strict: bool,
        loss_declared: bool = False,
    ) -> None:
        """`strict`: the topic counts durable ends. `loss_declared`: a loss was declared after the last batch here;
        committed records may have to go (RL31)."""
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.replica_generation = replica_generation
        self.loss_declared = loss_declared
        self.phase = Phase.IDLE
        self.handle = 0
        self.strict = strict

    def open(self, handle: int, position: Position) -> Open:
        """Ask for pushes from `position`. `handle` must be new on the stream; others are ignored."""
        invariant(position.durable_end_offset <= position.log_end_offset, "what is durable has been written")
        self.phase = Phase.OPENING
        self.handle = handle
        return Open(
            handle=handle,
            leader_epoch=self.leader_epoch,
            replica_generation=self.replica_generation,
            position=position,
        )

    def answers(self, handle: int, leader_epoch: int) -> bool:
        """Does an answer with these belong to the open that is waiting (RL29)?"""
        return self.phase is Phase.OPENING and handle == self.handle and leader_epoch == self.leader_epoch

    def accepted(self) -> None:
        """The leader took the open up: pushes follow."""
        self.phase = Phase.FOLLOWING

    def diverging(
        self, *, epoch: int, end_offset: int, epoch_lookup: EpochLookup, log_end: int, high_watermark: int
    ) -> int:
        """The offset to truncate to before opening again. Raises `BelowWatermark` (RL31)."""
        self.phase = Phase.IDLE
        offset = truncation_point(
            epoch_lookup=epoch_lookup, log_end=log_end, divergence_epoch=epoch, divergence_end=end_offset
        )
        return checked_truncation(offset=offset, high_watermark=self._kept_at_least(high_watermark))

    def start_over(self, log_start_offset: int, *, high_watermark: int) -> int:
        """The offset at which to begin an empty log before opening again (RL32). Raises `BelowWatermark`
        (RL31).
        """
        self.phase = Phase.IDLE
        return start_over_point(
            log_start_offset=log_start_offset, high_watermark=self._kept_at_least(high_watermark)
        )

    def _kept_at_least(self, high_watermark: int) -> int:
        """After a declared loss even what is committed may have to go."""
        return 0 if self.loss_declared else high_watermark

    def refused(self) -> None:
        """The leader refused the open: wait for newer metadata or try again later."""
        self.phase = Phase.IDLE

    def stream_lost(self) -> None:
        """The stream to the leader ended. What was on it is void."""
        self.phase = Phase.IDLE

    def push(
        self,
        handle: int,
        leader_epoch: int,
        base_offset: int | None,
        *,
        high_watermark: int,
        first_batch_epoch: int = NO_EPOCH,
        log_end: int,
        last_epoch: int,
    ) -> PushVerdict:
        """Judge a push against the log as it is at this moment, after the last await."""
        objection = push_objection(
            following=self.phase is Phase.FOLLOWING,
            handle=handle,
            own_handle=self.handle,
            leader_epoch=leader_epoch,
            own_leader_epoch=self.leader_epoch,
            base_offset=base_offset,
            first_batch_epoch=first_batch_epoch,
            log_end=log_end,
            last_epoch=last_epoch,
        )
        if objection is not None:
            return objection
        append = base_offset is not None
        return TakePush(append=append, high_watermark=high_watermark, ack=append and not self.strict)
