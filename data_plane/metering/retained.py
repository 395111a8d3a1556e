"""What one leadership of a partition keeps over time: byte-minutes, of the leader's log and of all replicas.

The odometer runs on the clock of whole minutes since 1970 UTC. At the first look in a new minute each minute since the
look before counts the smaller of both sizes, so neither a batch that has just come nor one that is gone is counted
before or after its time. Between two looks in a row lies a minute or little more.

Only time that both clocks agree on is counted. When the wall clock was set forward the odometer begins again at its new
minute; when it was set back it waits until that minute comes again.
"""

from penstock.records.usage import MINUTE_MS, minute_of

TOTAL_MAX = 1 << 62
"""A total that would exceed it begins again: readings hold 64 bits. 1 TB in three copies takes three years."""
_TOLERANCE_MS = 2 * MINUTE_MS
"""What the wall clock may gain on the other between two looks: the rounding to minutes, and being set by NTP."""


class RetainedOdometer:
    """Running totals of the minutes [`since`, `until`). They never decrease while `since` stays."""

    __slots__ = (
        "_looked_ms",
        "_replicas",
        "_size",
        "byte_minutes",
        "replicated_byte_minutes",
        "since",
        "until",
    )

    def __init__(self, now_ms: int, monotonic_ms: float, size_bytes: int, replicas: int) -> None:
        self._begin(minute_of(now_ms), monotonic_ms, size_bytes, replicas)

    def _begin(self, minute: int, monotonic_ms: float, size_bytes: int, replicas: int) -> None:
        self.since = self.until = minute
        self.byte_minutes = self.replicated_byte_minutes = 0
        self._looked_ms = monotonic_ms
        self._size = size_bytes
        self._replicas = replicas

    def look(self, now_ms: int, monotonic_ms: float, size_bytes: int, replicas: int) -> None:
        """The partition's size and number of replicas now. Within the same minute nothing is noted."""
        minute = minute_of(now_ms)
        passed = minute - self.until
        if passed <= 0:
            return
        size, copies = min(size_bytes, self._size), min(replicas, self._replicas)
        replicated = self.replicated_byte_minutes + passed * size * copies
        if passed * MINUTE_MS > monotonic_ms - self._looked_ms + _TOLERANCE_MS or replicated > TOTAL_MAX:
            self._begin(minute, monotonic_ms, size_bytes, replicas)
            return
        self.until = minute
        self.byte_minutes += passed * size
        self.replicated_byte_minutes = replicated
        self._looked_ms = monotonic_ms
        self._size = size_bytes
        self._replicas = replicas
