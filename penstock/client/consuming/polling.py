"""Around `poll`: messages that iteration has polled and not returned yet, where positions stood before it, and when an
empty poll must say why.
"""

from collections import deque
from collections.abc import Container, Iterable

from penstock.client.consuming.fetch_position import FetchPosition
from penstock.client.messages import Message
from penstock.contract.ids import NamedPartition

POLL_MESSAGES = 500
"""A poll returns so many messages at most, if it is not said otherwise."""
TOPIC_WAIT_MS = 990
"""So long polls wait before they say so: a poll of a second does."""


class PolledMessages:
    """A loop takes them out one by one. One that ends early leaves the rest here: these messages are neither lost nor
    processed.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left: deque[Message] = deque()
        """In their order. It stays one object, so a loop meets what became of it meanwhile."""

    def begin(self, messages: Iterable[Message]) -> None:
        """Hand these out from now on."""
        self.left.clear()
        self.left.extend(messages)

    def __bool__(self) -> bool:
        return bool(self.left)

    def take(self, count_max: int) -> list[Message]:
        """Take several at once."""
        return [self.left.popleft() for _ in range(min(count_max, len(self.left)))]

    def drop(self, partitions: Container[NamedPartition]) -> None:
        """Forget those of these partitions: the position was moved."""
        self.begin([message for message in self.left if (message.topic, message.partition) not in partitions])

    def first_offsets(self) -> dict[NamedPartition, int]:
        """The next unread offset of each partition that has messages left."""
        found: dict[NamedPartition, int] = {}
        for message in self.left:
            found.setdefault((message.topic, message.partition), message.offset)
        return found


class BeforePoll:
    """Where the positions stood that the poll under way takes batches of."""

    def __init__(self) -> None:
        self._before: dict[FetchPosition, tuple[int, int, int, int | None]] = {}

    def clear(self) -> None:
        self._before.clear()

    @property
    def begun(self) -> bool:
        """A batch was taken since."""
        return bool(self._before)

    def forget(self, position: FetchPosition) -> None:
        """Where it stands now it stays, whatever becomes of the poll."""
        self._before.pop(position, None)

    def note(self, position: FetchPosition) -> None:
        """Before a batch of it is taken."""
        if position not in self._before:
            self._before[position] = (
                position.seek_epoch,
                position.offset,
                position.epoch,
                position.skip_before_ms,
            )

    def still(self, position: FetchPosition) -> None:
        """What it halts before is met again by who begins where it stood: that was no seek."""
        stood = self._before.get(position)
        if stood is not None:
            self._before[position] = (position.seek_epoch, *stood[1:])

    def unmoved(self) -> list[FetchPosition]:
        """Those noted, without those that were sought meanwhile."""
        return [position for position, stood in self._before.items() if position.seek_epoch == stood[0]]

    def restore(self, position: FetchPosition) -> None:
        """Begin again where it stood."""
        _, offset, epoch, skip_before_ms = self._before[position]
        position.move_to(offset, epoch)
        position.skip_before_ms = skip_before_ms


class TopicWait:
    """Short polls in a row count together: the first ones of a program that polls every few milliseconds are empty."""

    def __init__(self) -> None:
        self._since_ms: float | None = None

    def in_vain(self, unknown: str | None, timeout: float | None, now_ms: float) -> bool:
        """Whether a poll of `timeout` seconds that ends empty now must say that `unknown` is not known."""
        if unknown is None:
            self._since_ms = None
            return False
        if not timeout:
            return False
        if self._since_ms is None:
            self._since_ms = now_ms - timeout * 1000
        return now_ms - self._since_ms >= TOPIC_WAIT_MS
