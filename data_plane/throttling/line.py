"""Calls and streams that wait until a pace is clear, each kind in the order in which they came.

Only the first one goes, and lets in what it takes before the next one looks. While calls and streams wait, the kind
goes first that has used less: however many streams a tenant has, its calls are answered, and no flood of calls stops
its streams. Times are monotonic milliseconds.
"""

from collections.abc import Callable

Wake = Callable[[], None]


class Line:
    """Each one is known by what wakes it, which is called when it becomes the first."""

    def __init__(self) -> None:
        self._calls: dict[Wake, None] = {}
        self._streams: dict[Wake, None] = {}
        self._calls_ahead = 0.0
        """Calls have used so much more than streams, see `used`."""
        self._waited_ms = 0.0
        self._since_ms = 0.0

    def __len__(self) -> int:
        return len(self._calls) + len(self._streams)

    @property
    def calls(self) -> int:
        return len(self._calls)

    @property
    def before_a_call(self) -> int:
        """How many go before a call that comes now, where each uses as much and no stream comes later."""
        streams = self.calls + (1 if self._calls_ahead > 0 else 0)
        return self.calls + min(len(self._streams), streams)

    def used(self, amount: float, ahead_max: float, *, is_call: bool) -> None:
        """A call or stream has used so much. No kind is ahead of the other by more than `ahead_max`: what it used while
        none of the other waited is forgotten."""
        first = self._first()
        ahead = self._calls_ahead + (amount if is_call else -amount)
        self._calls_ahead = max(-ahead_max, min(ahead_max, ahead))
        if self._first() != first:
            self.wake_first()

    def is_first(self, wake: Wake) -> bool:
        return self._first() == wake

    def join(self, wake: Wake, now_ms: float, *, is_call: bool = False) -> None:
        """To the end of its kind. What joins must leave."""
        if not self:
            self._since_ms = now_ms
        (self._calls if is_call else self._streams)[wake] = None

    def leave(self, wake: Wake, now_ms: float) -> None:
        """Also when what was waited for is not wanted any more."""
        was_first = self.is_first(wake)
        self._calls.pop(wake, None)
        self._streams.pop(wake, None)
        if not self:
            self._waited_ms += now_ms - self._since_ms
        elif was_first:
            self.wake_first()

    def wake_first(self) -> None:
        """The pace may be clear earlier than the first one knows."""
        first = self._first()
        if first is not None:
            first()

    def waited_ms(self, now_ms: float) -> float:
        """In all, for how long some one has waited."""
        return self._waited_ms + (now_ms - self._since_ms if self else 0.0)

    def _first(self) -> Wake | None:
        goes = self._calls if self._calls and (self._calls_ahead <= 0 or not self._streams) else self._streams
        return next(iter(goes), None)
