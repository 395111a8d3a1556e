"""Opening a partition for pushes: what a follower says, what a leader answers, where two logs part (RL25)."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract.errors import ErrorCode

NO_EPOCH = -1
"""Last epoch of an empty log."""

EpochLookup = Callable[[int], tuple[int, int]]
"""Epoch asked for -> (largest own epoch not above it, that epoch's end offset), as RL28 defines it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a replica's log stands. `last_epoch` is that of its last batch, NO_EPOCH for an empty log."""

    log_end_offset: int
    durable_end_offset: int
    last_epoch: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """Push from `offset` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Diverging:
    """The follower's log leaves the leader's: truncate by (epoch, end offset) and open again (RL25, RL26)."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class StartOver:
    """The follower ends before the leader's first stored segment: wipe and open again at `offset`, where that segment
    begins (RL32).
    """

    offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The open is not taken up. Nothing of it is remembered."""

    code: ErrorCode
    message: str


OpenAnswer = Accepted | Diverging | StartOver | Refused


def divergence(position: Position, *, epoch_lookup: EpochLookup, log_end: int) -> Diverging | None:
    """Where the follower's log leaves the leader's, by the leader-epoch file alone (RL25)."""
    if position.last_epoch == NO_EPOCH:
        return Diverging(NO_EPOCH, log_end) if position.log_end_offset > log_end else None
    epoch, end = epoch_lookup(position.last_epoch)
    if epoch < position.last_epoch or end < position.log_end_offset:
        return Diverging(epoch, end)
    return None


def checked_epoch(what: str, *, got: int, current: int) -> Refused | None:
    """Only an equal epoch is processed; a lower one is fenced, a higher one not known yet (RL7)."""
    if got < current:
        return Refused(ErrorCode.FENCED_LEADER_EPOCH, f"{what} {got} is fenced, {current} is current")
    if got > current:
        return Refused(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{what} {got} is not known yet, {current} is current")
    return None
