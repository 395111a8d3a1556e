"""When a produced batch is answered, and the answers that wait for it.

waiting --written | durable here | committed, as `answered_when` says--> due
waiting --the leader epoch ends--> unknown (RL18)
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Generic, TypeVar

T = TypeVar("T")

_EVERYTHING = 1 << 63
"""Beyond every offset."""


class AnswerWhen(Enum):
    """What has to hold of a batch before its producer is answered."""

    WRITTEN = "written"
    DURABLE = "durable"
    """On the leader's disk."""
    COMMITTED = "committed"


def answered_when(acks: int, strict: bool) -> AnswerWhen:
    """`acks` of the producer: -1 all, 1 the leader, 0 none. `strict`: the topic counts what is durable (RL14)."""
    if acks == -1:
        return AnswerWhen.COMMITTED
    return AnswerWhen.DURABLE if acks == 1 and strict else AnswerWhen.WRITTEN


class PendingAnswers(Generic[T]):
    """Answers of one leader epoch. `T` is the caller's: how to answer."""

    __slots__ = ("_committed", "_durable", "_late", "_written")

    def __init__(self) -> None:
        self._written: deque[tuple[int, T]] = deque()
        self._durable: deque[tuple[int, T]] = deque()
        self._committed: deque[tuple[int, T]] = deque()
        self._late: list[tuple[AnswerWhen, int, T]] = []
        """Of duplicates: out of order, and few."""

    def __len__(self) -> int:
        return len(self._written) + len(self._durable) + len(self._committed) + len(self._late)

    def wait(self, when: AnswerWhen, end_offset: int, answer: T) -> None:
        """A batch was appended; it ends at `end_offset`, behind all that wait."""
        if when is AnswerWhen.COMMITTED:
            self._committed.append((end_offset, answer))
        elif when is AnswerWhen.DURABLE:
            self._durable.append((end_offset, answer))
        else:
            self._written.append((end_offset, answer))

    def wait_again(self, when: AnswerWhen, end_offset: int, answer: T) -> None:
        """A batch came that was appended before, and ends at `end_offset` (RL61)."""
        self._late.append((when, end_offset, answer))

    def due(self, durable_end: int, high_watermark: int, limit: int) -> Sequence[T]:
        """Take what is to be answered now, at most `limit`: what is written, then durable, then committed, each in the
        order of its batches, then what came again."""
        durable, committed = self._durable, self._committed
        if not (
            self._written
            or (durable and durable[0][0] <= durable_end)
            or (committed and committed[0][0] <= high_watermark)
            or self._late
        ):
            return ()  # the ordinary case, after each batch
        found: list[T] = []
        for waiting, end in (
            (self._written, _EVERYTHING),
            (durable, durable_end),
            (committed, high_watermark),
        ):
            while waiting and waiting[0][0] <= end:
                if len(found) == limit:
                    return found
                found.append(waiting.popleft()[1])
        if self._late:
            self._take_late(found, durable_end, high_watermark, limit)
        return found

    def _take_late(self, found: list[T], durable_end: int, high_watermark: int, limit: int) -> None:
        ends = {
            AnswerWhen.WRITTEN: _EVERYTHING,
            AnswerWhen.DURABLE: durable_end,
            AnswerWhen.COMMITTED: high_watermark,
        }
        left: list[tuple[AnswerWhen, int, T]] = []
        for when, end_offset, answer in self._late:
            if end_offset <= ends[when] and len(found) < limit:
                found.append(answer)
            else:
                left.append((when, end_offset, answer))
        self._late = left

    def take_all(self) -> Sequence[T]:
        """Take those that wait, whatever they wait for: nothing of this leader epoch becomes due any more."""
        rest = [
            answer for waiting in (self._committed, self._durable, self._written) for _, answer in waiting
        ]
        rest += [answer for _, _, answer in self._late]
        for waiting in (self._committed, self._durable, self._written):
            waiting.clear()
        self._late = []
        return rest
