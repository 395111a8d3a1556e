"""The in-memory tail of recent appends, bounded over all partitions of a broker by one budget."""

from bisect import bisect_right
from collections import deque

from data_plane.disk.port import Buffer
from data_plane.log.outcomes import Slice

_ENTRY_OVERHEAD_BYTES = 400
"""What one batch costs beside its bytes: its tuple, stamp and numbers."""
_TRIM_AT = 1024

Entry = tuple[int, int, bytes, tuple[Buffer, ...]]
"""end offset, size in bytes, packed stamp, buffers of the batch."""
_DROPPED: Entry = (0, 0, b"", ())


class TailBudget:
    """How many bytes of recent batches all logs of a broker keep for readers; the oldest of all go first."""

    __slots__ = ("_order", "bytes_max", "bytes_used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._order: deque[tuple[Tail, int, int]] = deque()

    def spend(self, tail: "Tail", cost: int) -> None:
        """`tail` took a batch; drop others, of any tail, until all fit."""
        order = self._order
        order.append((tail, tail.generation, cost))
        used = self.bytes_used + cost
        while used > self.bytes_max and order:
            oldest, generation, freed = order.popleft()
            if oldest.generation == generation:
                oldest.drop_oldest()
                used -= freed
        self.bytes_used = used

    def give_back(self, cost: int) -> None:
        self.bytes_used -= cost


class Tail:
    """The newest batches of one log, without a gap between them."""

    __slots__ = ("_bases", "_budget", "_cost", "_entries", "_head", "generation")

    def __init__(self, budget: TailBudget) -> None:
        self._budget = budget
        self._bases: list[int] = []
        self._entries: list[Entry] = []
        self._head = 0
        self._cost = 0
        self.generation = 0
        """Grows when the tail is emptied: what the budget noted before is void."""

    def __len__(self) -> int:
        return len(self._bases) - self._head

    def add(
        self, base_offset: int, end_offset: int, size: int, stamp: bytes, buffers: tuple[Buffer, ...]
    ) -> None:
        self._bases.append(base_offset)
        self._entries.append((end_offset, size, stamp, buffers))
        cost = size + _ENTRY_OVERHEAD_BYTES
        self._cost += cost
        self._budget.spend(self, cost)

    def drop_oldest(self) -> None:
        """The budget needs the space."""
        entry = self._entries[self._head]
        self._cost -= entry[1] + _ENTRY_OVERHEAD_BYTES
        self._entries[self._head] = _DROPPED
        self._head += 1
        if self._head >= _TRIM_AT and self._head * 2 >= len(self._bases):
            del self._bases[: self._head]
            del self._entries[: self._head]
            self._head = 0

    def clear(self) -> None:
        """Forget everything: the log was truncated."""
        self._budget.give_back(self._cost)
        self._bases = []
        self._entries = []
        self._head = self._cost = 0
        self.generation += 1

    def read(self, offset: int, end_offset: int, bytes_max: int) -> Slice | None:
        """Batches from the one that holds `offset` on; None when the tail begins behind it."""
        bases, entries = self._bases, self._entries
        at = bisect_right(bases, offset, self._head) - 1
        if at < self._head:
            return None
        first = next_offset = bases[at]
        size = 0
        stamps: list[bytes] = []
        batches: list[Buffer] = []
        for position in range(at, len(bases)):
            end, batch_size, stamp, buffers = entries[position]
            if end > end_offset or (size and size + batch_size > bytes_max):
                break
            size += batch_size
            stamps.append(stamp)
            batches.extend(buffers)
            next_offset = end
        return Slice(first, next_offset, b"".join(stamps), batches, size)
