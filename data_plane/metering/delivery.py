"""Batches pushed to a consumer until it has taken them: credit that returns says how far it is."""

import struct
from collections import deque

_COUNT_AND_SIZE = struct.Struct(">12xii44x")
"""Record count and size of a packed stamp (penstock/records/stamp.py)."""


class PushedBatches:
    """Of one open partition, in the order they were pushed. Bounded by the credit that was granted."""

    __slots__ = ("_pushed", "_returned")

    def __init__(self) -> None:
        self._pushed: deque[tuple[int, int]] = deque()
        self._returned = 0

    def pushed(self, stamps: bytes, skipped: int) -> None:
        """Batches went out. `skipped` messages of the first one lie before the consumer's position: it did not ask
        for them."""
        pushed = self._pushed
        first = len(pushed)
        pushed.extend(_COUNT_AND_SIZE.iter_unpack(stamps))
        if skipped > 0 and len(pushed) > first:
            count, size = pushed[first]
            pushed[first] = (max(0, count - skipped), size)

    def returned(self, credit_bytes: int) -> tuple[int, int]:
        """(messages, bytes) of the whole batches that are taken now, when so much credit returned."""
        if not self._pushed:
            return 0, 0  # credit beyond what was pushed is new capacity
        pushed, left = self._pushed, self._returned + credit_bytes
        messages = taken = 0
        while pushed and pushed[0][1] <= left:
            count, size = pushed.popleft()
            left -= size
            messages += count
            taken += size
        self._returned = left if pushed else 0
        return messages, taken
