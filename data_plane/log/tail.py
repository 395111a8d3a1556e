"""The in-memory tail of recent appends, bounded over all partitions of a broker by one budget."""

from collections import deque


class TailBudget:
    """How many bytes of recent batches all logs of a broker may keep for readers; the oldest go first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self._order: deque[object] = deque()
