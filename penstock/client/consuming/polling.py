"""What iteration has taken from a poll and not handed out yet."""

from collections.abc import Container, Iterator
from operator import length_hint

from penstock.client.messages import Message
from penstock.client.place import Place


class Rest:
    """Iterating it hands out and moves on, at the speed of a list. Whoever leaves a loop early leaves the rest here:
    it is neither lost nor done.
    """

    __slots__ = ("_messages", "_next")

    def __init__(self) -> None:
        self.begin([])

    def begin(self, messages: list[Message]) -> None:
        """Hand these out from now on."""
        self._messages, self._next = messages, iter(messages)

    def __iter__(self) -> Iterator[Message]:
        return self._next

    def __bool__(self) -> bool:
        return length_hint(self._next) > 0

    def _left(self) -> list[Message]:
        return self._messages[len(self._messages) - length_hint(self._next) :]

    def take(self, count_max: int) -> list[Message]:
        """Hand out several at once."""
        left = self._left()
        self.begin(left[count_max:])
        return left[:count_max]

    def drop(self, places: Container[Place]) -> None:
        """Forget those of these partitions: the position was moved."""
        if self:
            self.begin(
                [message for message in self._left() if (message.topic, message.partition) not in places]
            )

    def first_offsets(self) -> dict[Place, int]:
        """The next offset to be handed out, of each partition that something is left of."""
        found: dict[Place, int] = {}
        for message in self._left():
            found.setdefault((message.topic, message.partition), message.offset)
        return found
