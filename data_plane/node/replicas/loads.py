"""What each partition takes and gives here, as moving rates: a batch costs two additions, a partition at rest nothing.

    at rest --a batch comes or goes--> counted --folded every FOLD_MS--> ... --its rates have faded--> at rest

A rate forgets exponentially: what was RATE_MS ago counts 1/e of what is now.
"""

import math
from dataclasses import dataclass

from penstock.contract.ids import TopicPartition

FOLD_MS = 5_000
RATE_MS = 20_000.0
_FADED_PER_S = 0.05
"""Below one batch and one byte in twenty seconds a partition is at rest."""


@dataclass(slots=True)
class PartitionLoad:
    """One partition's rates a second, and what was counted since they were folded last."""

    bytes_in_per_s: float = 0.0
    """Of batches as sent, taken as leader."""
    bytes_out_per_s: float = 0.0
    """Of batches pushed to consumers, in whatever role."""
    batches_per_s: float = 0.0
    """Taken as leader."""
    bytes_in: int = 0
    bytes_out: int = 0
    batches: int = 0
    slow_downs_per_s: float = 0.0
    """Results that asked a producer to slow down."""
    slow_downs: int = 0

    def fold(self, passed_ms: float) -> bool:
        """Take what was counted in `passed_ms` into the rates; whether anything is left of them."""
        share, per_s = -math.expm1(-passed_ms / RATE_MS), 1_000.0 / passed_ms
        self.bytes_in_per_s += (self.bytes_in * per_s - self.bytes_in_per_s) * share
        self.bytes_out_per_s += (self.bytes_out * per_s - self.bytes_out_per_s) * share
        self.batches_per_s += (self.batches * per_s - self.batches_per_s) * share
        self.slow_downs_per_s += (self.slow_downs * per_s - self.slow_downs_per_s) * share
        self.bytes_in = self.bytes_out = self.batches = self.slow_downs = 0
        return max(self.bytes_in_per_s, self.bytes_out_per_s, self.batches_per_s) > _FADED_PER_S


class PartitionLoads:
    """The partitions of one broker that are not at rest. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._loads: dict[TopicPartition, PartitionLoad] = {}
        self._folded_ms: float | None = None

    def took(self, where: TopicPartition, size: int) -> None:
        """A batch of this size was appended as leader."""
        load = self._loads.get(where)
        if load is None:
            load = self._loads[where] = PartitionLoad()
        load.bytes_in += size
        load.batches += 1

    def slowed(self, where: TopicPartition) -> None:
        """A producer is asked to slow down. Its batch was counted, long ago perhaps."""
        load = self._loads.get(where)
        if load is None:
            load = self._loads[where] = PartitionLoad()
        load.slow_downs += 1

    def pushed(self, where: TopicPartition, size: int) -> None:
        """So many bytes of it go to a consumer."""
        load = self._loads.get(where)
        if load is None:
            load = self._loads[where] = PartitionLoad()
        load.bytes_out += size

    def fold(self, now_ms: float) -> None:
        """Call it about every FOLD_MS. The first call begins: what was counted before it has no known length."""
        before, self._folded_ms = self._folded_ms, now_ms
        passed_ms = FOLD_MS if before is None else now_ms - before
        if passed_ms <= 0:
            return
        self._loads = {where: load for where, load in self._loads.items() if load.fold(passed_ms)}

    def busy(self) -> dict[TopicPartition, PartitionLoad]:
        """Those that are not at rest; their rates as they were folded last."""
        return dict(self._loads)
