"""When one consume stream may read more of topics that budgets slow, each at a rate of its own.

    readable --the topic's paces are not clear--> parked --they are--> readable

A parked partition is not looked at, so it delays none of another topic. Streams take no turns here: who looks first
when the pace is clear reads, as much as passes in READ_MS. Bytes and milliseconds of the node's clock.
"""

from collections.abc import Callable

from data_plane.metadata.model import TopicRecord
from data_plane.node.ports import Clock
from data_plane.node.serving.allowance import Allowance
from data_plane.node.serving.read_turns import READ_MS
from data_plane.throttling.line import Line

_LOOK_MS = 250.0
"""After which a topic is looked at once more at the latest: it may be slowed no more."""


class _Parked:
    """What is parked of one topic."""

    def __init__(self, topic: TopicRecord, since_ms: float) -> None:
        self.topic = topic
        self.since_ms = since_ms
        self.handles: dict[int, None] = {}
        self.lines: list[Line] = []
        """Where it is counted as waiting: so its paces know what could be used."""


class TopicReads:
    """Of one stream. Whatever happens, `leave` in the end."""

    def __init__(
        self,
        allowance: Allowance,
        wake: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`wake` is called when `due` may have something earlier."""
        self._allowance = allowance
        self._wake = wake
        self._clock = clock
        self._parked: dict[str, _Parked] = {}
        self._throttled_ms = 0

    def readable(self, handle: int, topic: TopicRecord, bytes_max: int) -> int:
        """How much of the topic may be read now, at most `bytes_max`, or one batch; 0: the handle is parked until `due`
        names it."""
        paces, now_ms = self._allowance.topic_paces(topic.name), self._clock.monotonic_ms()
        if not any(pace.clears_in_ms(now_ms) for pace in paces):
            return max(1, min([bytes_max, *[int(pace.bytes_per_s * READ_MS / 1000) for pace in paces]]))
        parked = self._parked.get(topic.name)
        if parked is None:
            parked = self._parked[topic.name] = _Parked(topic, now_ms)
            for pace in paces:
                pace.line.join(self._wake, now_ms)
                parked.lines.append(pace.line)
        parked.handles[handle] = None
        return 0

    def read(self, topic: str, size: int) -> None:
        """So much was read of it."""
        for pace in self._allowance.topic_paces(topic):
            pace.enter(size, self._clock.monotonic_ms(), may_refuse=False)

    def due(self) -> list[int]:
        """Handles that may be looked at again."""
        found: list[int] = []
        for topic, parked in list(self._parked.items()):
            now_ms = self._clock.monotonic_ms()
            if not any(pace.clears_in_ms(now_ms) for pace in self._allowance.topic_paces(topic)):
                found += parked.handles
                delayed_ms = int(now_ms - parked.since_ms)
                self._throttled_ms += delayed_ms
                self._allowance.delayed(delayed_ms, parked.topic)
                self._unpark(topic)
        return found

    def wait_ms(self) -> float | None:
        """Until `due` is to be asked; None = nothing is parked."""
        now_ms = self._clock.monotonic_ms()
        waits = [
            max([pace.clears_in_ms(now_ms) for pace in self._allowance.topic_paces(topic)], default=0.0)
            for topic in self._parked
        ]
        return min([_LOOK_MS, *waits]) if waits else None

    def closed(self, handle: int) -> None:
        """The handle is not read any more."""
        for topic, parked in list(self._parked.items()):
            parked.handles.pop(handle, None)
            if not parked.handles:
                self._unpark(topic)

    def leave(self) -> None:
        """The stream ends."""
        for topic in list(self._parked):
            self._unpark(topic)

    def take_throttled_ms(self) -> int:
        """By how much topics were delayed since this was asked last."""
        throttled_ms, self._throttled_ms = self._throttled_ms, 0
        return throttled_ms

    def _unpark(self, topic: str) -> None:
        now_ms = self._clock.monotonic_ms()
        for line in self._parked.pop(topic).lines:
            line.leave(self._wake, now_ms)
