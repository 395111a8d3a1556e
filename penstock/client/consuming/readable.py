"""The turns in which partitions are read that have something."""

from collections import deque

from penstock.client.consuming.fetch_position import FetchPosition


class ReadablePositions:
    """Positions that may have something to read, each once."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: deque[FetchPosition] = deque()

    def add(self, position: FetchPosition) -> None:
        """Its turn comes behind the others, if it has something."""
        if not position.queued and position.readable:
            position.queued = True
            self._turns.append(position)

    def put_first(self, position: FetchPosition) -> None:
        """The next turn is its own, whatever waits elsewhere."""
        if position.queued:
            self._turns.remove(position)
        position.queued = position.readable
        if position.queued:
            self._turns.appendleft(position)

    def next(self, *, stays: bool) -> FetchPosition | None:
        """The position whose turn it is. With `stays` one that waits for a skip keeps its turn: something was taken
        before it, so that the application hears of it with the next gathering, and each second one is for others.
        """
        while self._turns:
            position = self._turns[0]
            if position.readable:
                if not (stays and position.waits_for_skip):
                    self._turns.rotate(-1)
                return position
            self._turns.popleft()
            position.queued = False
        return None

    def has_some(self) -> bool:
        """True if `next` would give a position."""
        return any(position.readable for position in self._turns)

    def clear(self) -> None:
        for position in self._turns:
            position.queued = False
        self._turns.clear()
