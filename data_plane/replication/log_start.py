"""Where a partition's log begins for its clients, so that no later leader's log begins earlier (RL108).

A leader reports a log start only when the log of every replica that may lead after it begins there or later. Each of
them said so, or the partition's record says so, which a new leader follows (`beginning`). Within one leader epoch a
start is

    wanted --all said that they begin there | it is in the record--> agreed

When nothing more was agreed for START_WAIT_MS, what is wanted goes into the record: a replica that may lead did not
answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from data_plane.metadata.model import PartitionRecord

START_WAIT_MS = 1_000
"""How long a leader waits for replicas that may lead after it before it writes the log start into the record."""
UNKNOWN_START = -1
"""Of a replica that has not said in this leader epoch where its log begins."""


def beginning(record: PartitionRecord, log_start: int) -> int:
    """Where the log of a new leader has to begin. Its own log begins at `log_start`."""
    return max(record.log_start, log_start)


def reached_by_all(wanted: int, *, recorded: int, starts: Sequence[int]) -> int:
    """The largest offset up to `wanted` that the log starts of all replicas that may lead next have reached. `starts`
    are those of the others.
    """
    return min(wanted, max(recorded, min(starts, default=wanted)))


def with_log_start(record: PartitionRecord, log_start: int) -> PartitionRecord:
    """`record` saying that no leader's log begins before `log_start`; part of the same write."""
    return replace(record, log_start=max(record.log_start, log_start))


def may_be_reported(begins: int, *, agreed: int, recorded: int) -> bool:
    """May a leader whose own log begins at `begins` report that to a client? Not before the logs of all replicas that
    may lead next begin there, nor before its own begins where the record said at its election: earlier leaders may
    have reported that."""
    return agreed >= begins >= recorded


class AgreedStart:
    """What one leader epoch knows of the log's start. `wanted` and `agreed` only grow."""

    __slots__ = ("_since_ms", "agreed", "recorded", "wanted")

    def __init__(self, record: PartitionRecord, log_start: int, now_ms: float) -> None:
        self.wanted = beginning(record, log_start)
        self.agreed = UNKNOWN_START
        self.recorded = record.log_start
        """What the record said when this epoch began."""
        self._since_ms = now_ms

    @property
    def settled(self) -> bool:
        """Is all that is wanted agreed?"""
        return self.agreed >= self.wanted

    def want(self, offset: int, now_ms: float) -> None:
        """Let the log begin at `offset`, as soon as it is agreed. It must be committed, and may be deleted below."""
        if offset > self.wanted:
            if self.settled:
                self._since_ms = now_ms
            self.wanted = offset

    def look(self, *, recorded: int, starts: Sequence[int], now_ms: float) -> None:
        """Take in what the record and the replicas that may lead next say now."""
        reached = reached_by_all(self.wanted, recorded=recorded, starts=starts)
        if reached > self.agreed:
            self.agreed = reached
            self._since_ms = now_ms

    def is_due(self, now_ms: float) -> bool:
        """Has this leader waited so long that the start goes into the record?"""
        return not self.settled and now_ms - self._since_ms >= START_WAIT_MS
