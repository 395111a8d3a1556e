"""What a leader knows of one follower, within one leader epoch."""

from data_plane.replication.log_start import UNKNOWN_START

UNKNOWN_END = -1
"""End of a follower that has not yet opened in this leader epoch."""


class FollowerProgress:
    """Progress of one follower in this leader epoch."""

    __slots__ = (
        "broker_epoch", "durable_end", "following", "last_caught_up_ms", "log_start", "mark_end",
        "mark_ms", "wants_in", "written_end",
    )  # fmt: skip

    def __init__(self, now_ms: float) -> None:
        self.following = False
        self.wants_in = True
        self.broker_epoch = 0
        self.written_end = UNKNOWN_END
        self.durable_end = UNKNOWN_END
        self.log_start = UNKNOWN_START
        self.last_caught_up_ms = now_ms
        # The leader's end at some moment; reaching it proves that the follower was caught up at that moment.
        self.mark_end = UNKNOWN_END
        self.mark_ms = now_ms

    def progressed(self, end: int, leader_end: int, now_ms: float) -> None:
        """Note when the follower last had all of the leader's log."""
        if end >= leader_end:
            self.last_caught_up_ms = now_ms
        elif end >= self.mark_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.mark_ms)
        else:
            return
        self.mark_end, self.mark_ms = leader_end, now_ms
