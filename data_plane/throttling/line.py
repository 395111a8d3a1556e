"""Those who wait until a pace is clear, in the order in which they came.

Only the first one goes, and lets in what it takes before the next one looks. So many who wait take turns, and no one
takes what another is waiting for. Times are monotonic milliseconds.
"""

from collections.abc import Callable

Wake = Callable[[], None]


class Line:
    """Each one is known by what wakes them, which is called when they become the first."""

    def __init__(self) -> None:
        self._waiting: dict[Wake, None] = {}
        self._waited_ms = 0.0
        self._since_ms = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def is_first(self, wake: Wake) -> bool:
        return next(iter(self._waiting), None) == wake

    def join(self, wake: Wake, now_ms: float) -> None:
        """To the end. Who joins must leave."""
        if not self._waiting:
            self._since_ms = now_ms
        self._waiting[wake] = None

    def leave(self, wake: Wake, now_ms: float) -> None:
        """Also when what was waited for is not wanted any more."""
        was_first = self.is_first(wake)
        self._waiting.pop(wake, None)
        if not self._waiting:
            self._waited_ms += now_ms - self._since_ms
        elif was_first:
            self.wake_first()

    def wake_first(self) -> None:
        """The pace may be clear earlier than the first one knows."""
        for wake in self._waiting:
            wake()
            return

    def waited_ms(self, now_ms: float) -> float:
        """In all, for how long some one has waited."""
        return self._waited_ms + (now_ms - self._since_ms if self._waiting else 0.0)
