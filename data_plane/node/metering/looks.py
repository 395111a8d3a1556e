"""Which replicas a round of metering looks at: those of which a reading may be due.

    changed --> looked at in each round --nothing is due any more--> at rest, until it changes
                 ^                    |
                 |                    +--only time makes its next reading due--> put aside
                 +--its time has come, a minute has begun or ended in its log, it has another role--+

Partitions that are written to all the time are put aside between their readings, so a round costs what is due.
"""

import math
from collections.abc import Iterable

from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaChanges
from data_plane.replication.leader import LeaderState

ASIDE_MS_MAX = 10_000
"""The seal of a segment is found this late."""
_SLOT_MS = 250


class Looks:
    """Of one broker. Times are of a monotonic clock, minutes of the wall clock."""

    def __init__(self, changes: ReplicaChanges) -> None:
        self._changes = changes
        self._now: dict[Replica, None] = {}
        self._aside: dict[Replica, LeaderState | None] = {}
        """With the leadership that changes of the log mean nothing in; None: any change is looked at."""
        self._slots: dict[int, list[Replica]] = {}
        """When what was put aside is due. One may have been looked at since."""
        self._minute = 0

    def __len__(self) -> int:
        """How many are looked at, or put aside."""
        return len(self._now) + len(self._aside)

    def begin(self, now_ms: float, minute: int) -> list[Replica]:
        """Those to be looked at in this round."""
        aside = self._aside
        for replica in self._changes.take():
            if replica not in aside:
                self._now[replica] = None
                continue
            expected = aside[replica]
            if expected is None or expected is not replica.leading:
                self.look(replica)
        if minute != self._minute:
            self._minute = minute
            self.look_at(list(aside))
        for slot in [slot for slot in self._slots if slot * _SLOT_MS <= now_ms]:
            for replica in self._slots.pop(slot):
                if replica in aside:
                    self.look(replica)
        return list(self._now)

    def look(self, replica: Replica) -> None:
        """In the next round."""
        self._aside.pop(replica, None)
        self._now[replica] = None

    def look_at(self, replicas: Iterable[Replica]) -> None:
        for replica in replicas:
            self.look(replica)

    def put_aside(
        self, replica: Replica, leading: LeaderState | None, now_ms: float, until_ms: float
    ) -> None:
        """Nothing is due before `until_ms`, as long as it leads in `leading`; None: nor before it changes."""
        del self._now[replica]
        self._aside[replica] = leading
        slot = math.ceil(min(until_ms, now_ms + ASIDE_MS_MAX) / _SLOT_MS)
        self._slots.setdefault(slot, []).append(replica)

    def let_rest(self, replica: Replica) -> None:
        """Nothing is due before it changes."""
        del self._now[replica]
