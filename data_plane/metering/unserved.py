"""Time in which no broker could have served a tenant: partitions without a leader, as the controller sees them.

Clients send nothing while a partition has no leader, so no broker counts a request that failed. Instead each full
second of such a partition is one produce and one fetch request that no broker could take.
"""

from collections.abc import Iterable

from penstock.contract.ids import TopicPartition

_REQUEST_MS = 1_000


class Unserved:
    """Seconds that are over and were not counted yet."""

    def __init__(self) -> None:
        self._since: dict[TopicPartition, tuple[float, int]] = {}
        """Since when it has had no leader, in monotonic ms, and how many seconds were counted."""

    def look(self, leaderless: Iterable[TopicPartition], now_ms: float) -> dict[TopicPartition, int]:
        """What came about since the last look, by partition."""
        gained: dict[TopicPartition, int] = {}
        since: dict[TopicPartition, tuple[float, int]] = {}
        for where in leaderless:
            began, counted = self._since.get(where, (now_ms, 0))
            seconds = int((now_ms - began) // _REQUEST_MS)
            if seconds > counted:
                gained[where] = seconds - counted
            since[where] = (began, seconds)
        self._since = since
        return gained
