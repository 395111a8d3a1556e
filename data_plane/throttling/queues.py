"""How long producers are asked to send nothing to a partition whose leader's queue is long.

A partition's queue is what its leader has appended and not yet answered: it waits for the journal's sync, or for the
replicas in sync. By Little's law it passes in about the time that the batch answered last has waited. A producer that
sends nothing for the part of that time that is beyond the bound finds the queue at its bound, and not empty. So nothing
of the partition's throughput is lost, and the broker has more left for its other partitions. A partition that answers
quickly is never slowed, however much passes through it.

Sizes are bytes, times milliseconds. Batches that are answered as soon as they are written (acks=0, and acks=1 of topics
with durability `replicated`) are in no queue here.
"""

from penstock.contract import limits

SAFE_BYTES = 64 * limits.MIB
"""What a broker may have unanswered over all of its partitions, unless its configuration says otherwise."""
OF_SAFE = 16
"""A partition's bound while the broker is calm, as a part of what is safe. One producer with five batches of 256 KiB
under way stays far below."""
OF_SAFE_LEAST = 256
"""Its bound at least, however many partitions have a queue: batches of some 256 KiB, so that the disk is never idle."""
WAITED_MS_MIN = 20
"""A queue that passes sooner hurts no one."""
SLOW_DOWN_MS_MIN = 5
"""Less is not worth a wait."""
SLOW_DOWN_MS_MAX = 1_000
"""Far below what a delivery may take. A queue that is still long then is answered so again."""


class BrokerQueues:
    """The queues of all partitions that one broker leads, together."""

    __slots__ = ("partitions", "safe_bytes", "waiting_bytes")

    def __init__(self, safe_bytes: int = SAFE_BYTES) -> None:
        self.safe_bytes = safe_bytes
        self.waiting_bytes = 0
        self.partitions = 0
        """With something in their queue."""

    @property
    def bound_bytes(self) -> int:
        """What one partition may have in its queue and not be slowed: a fixed part, or when half of what is safe is
        used, an even share of that half."""
        bound = self.safe_bytes // OF_SAFE
        if self.waiting_bytes * 2 > self.safe_bytes:
            share = self.safe_bytes // (2 * max(1, self.partitions))
            bound = min(bound, max(share, self.safe_bytes // OF_SAFE_LEAST))
        return max(1, bound)


class PartitionQueue:
    """The queue of one partition in one leadership."""

    __slots__ = ("_broker", "waiting_bytes")

    def __init__(self, broker: BrokerQueues) -> None:
        self._broker = broker
        self.waiting_bytes = 0

    def took(self, size: int) -> None:
        """A batch of so many bytes waits for its answer."""
        if not self.waiting_bytes:
            self._broker.partitions += 1
        self.waiting_bytes += size
        self._broker.waiting_bytes += size

    def answered(self, size: int) -> None:
        """Batches of so many bytes have their answer."""
        self.waiting_bytes -= size
        self._broker.waiting_bytes -= size
        if not self.waiting_bytes:
            self._broker.partitions -= 1

    def slow_down_ms(self, waited_ms: float) -> int:
        """For how long the producer of a batch that was answered after `waited_ms` is to send nothing more here; 0 = it
        may. Ask when everything that is answered with it has been counted."""
        left = self.waiting_bytes
        if waited_ms < WAITED_MS_MIN or not left:
            return 0
        bound = self._broker.bound_bytes
        if left <= bound:
            return 0
        slow_down_ms = int(waited_ms * (left - bound) / left)
        return 0 if slow_down_ms < SLOW_DOWN_MS_MIN else min(slow_down_ms, SLOW_DOWN_MS_MAX)

    def clear(self) -> None:
        """The leadership is over; nothing of it is answered by the partition any more."""
        if self.waiting_bytes:
            self._broker.partitions -= 1
            self._broker.waiting_bytes -= self.waiting_bytes
            self.waiting_bytes = 0
