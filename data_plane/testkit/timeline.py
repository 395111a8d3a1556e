"""What happened when and where, for people: kept in memory, printed when a seed fails."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

EVENTS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    at_s: float
    node: str
    kind: str
    text: str


class Timeline:
    """The last EVENTS_MAX events in order."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.events: deque[TimelineEvent] = deque(maxlen=EVENTS_MAX)

    def note(self, node: str, kind: str, text: str) -> None:
        self.events.append(TimelineEvent(self._now(), node, kind, text))

    def lines(self, last: int | None = None) -> list[str]:
        """One line an event, columns aligned."""
        events: Iterable[TimelineEvent] = self.events if last is None else list(self.events)[-last:]
        return [
            f"{event.at_s:12.6f}  {event.node:<10} {event.kind:<12} {event.text}".rstrip() for event in events
        ]
