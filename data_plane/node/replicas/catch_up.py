"""The rate of catching up: what followers far behind may take from a leading broker, all of them together.

Replication to replicas that are in sync never waits for it; neither does a follower that is within one frame of the
log's end, so that whatever the rate it can join.
"""

from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.leader import LeaderState
from penstock.contract.ids import BrokerId

_BURST_MS = 100
"""So much of the rate may go out at once."""
WINDOW_SHARE = 4
"""Of a follower's window one partition that catches up fills at most one part in so many."""


class CatchUp:
    """Shared by all streams of one broker. Counts bytes after the fact, so one frame may overdraw."""

    def __init__(self, bytes_per_s: int, clock: Clock, stats: NodeStats) -> None:
        """`bytes_per_s` 0 = no limit."""
        self.bytes_per_s = bytes_per_s
        self._clock = clock
        self._stats = stats
        self._left = 0.0
        self._at_ms = clock.monotonic_ms()

    def concerns(self, replica: Replica, leading: LeaderState, follower: BrokerId, left_bytes: int) -> bool:
        """Is this follower far behind and not in sync? `left_bytes`: what one frame takes."""
        if follower in leading.record.in_sync or self.bytes_per_s == 0:
            return False
        log, end = replica.log, leading.counted_end_of(follower)
        offsets = log.log_end_offset - max(end, log.log_start_offset)
        whole = max(1, log.log_end_offset - log.log_start_offset)
        return log.size_bytes * offsets // whole > left_bytes

    def wait_ms(self) -> float:
        """How long until more may go out; 0 = now."""
        now = self._clock.monotonic_ms()
        burst = self.bytes_per_s * _BURST_MS / 1000
        self._left = min(burst, self._left + (now - self._at_ms) * self.bytes_per_s / 1000)
        self._at_ms = now
        return 0.0 if self._left > 0 else (1 - self._left) * 1000 / self.bytes_per_s

    def sent(self, size: int) -> None:
        """So much went out."""
        self._left -= size
        self._stats.catch_up_bytes += size
