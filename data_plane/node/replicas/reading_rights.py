"""By which right consumers read from a replica: it leads, or it follows and is in sync (RL20)."""

from data_plane.node.replicas.replica import Following, Replica
from data_plane.replication.leader import LeaderState
from penstock.contract import errors

Right = LeaderState | Following
"""This leadership, or following this leader in this epoch."""


def right_to_read(replica: Replica, claimed_epoch: int, *, from_follower: bool) -> Right:
    """The right that there is now, or a refusal (RL7). What a follower cannot serve it refuses with `NotLeader`: the
    leader then decides.
    """
    if replica.leading is not None or not from_follower:
        return replica.leadership(claimed_epoch)
    serving = replica.serving
    if serving is None:
        raise errors.NotLeader(f"{replica.name}: this broker is not in sync; read from the leader")
    if claimed_epoch >= 0 and claimed_epoch != serving.leader_epoch:
        raise errors.NotLeader(
            f"{replica.name}: epoch {claimed_epoch}, here {serving.leader_epoch}; read from the leader"
        )
    return serving


def still_holds(replica: Replica, right: Right) -> bool:
    """Whether it may go on by this right."""
    return replica.serving == right if isinstance(right, Following) else replica.leading is right


def may_report_watermark(right: Right) -> bool:
    """A follower's is one that its leader has reported; a new leader's may be behind that of the one before (RL21)."""
    return isinstance(right, Following) or right.ready


def require_position(replica: Replica, right: Right, offset: int, last_epoch: int) -> None:
    """As `Replica.check_position`. A follower does not judge a position that it has not, and raises `NotLeader`."""
    if not isinstance(right, Following):
        replica.check_position(offset, last_epoch)
        return
    log = replica.log
    try:
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise errors.OffsetOutOfRange(f"offset {offset}")
        replica.check_position(offset, last_epoch)
    except (errors.OffsetOutOfRange, errors.LogTruncated, errors.LeaderNotReady):
        raise errors.NotLeader(
            f"{replica.name}: offset {offset} of epoch {last_epoch} is for the leader to judge"
        ) from None
