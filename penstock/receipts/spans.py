"""Acknowledged offsets by partition, day, leader epoch and acks: neighbours become one span, sums are kept."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class SpanKey(NamedTuple):
    """What the batches of one span have in common. Day is days since 1970 UTC."""

    topic_id: bytes
    partition: int
    day: int
    leader_epoch: int
    acks: int


class Span(NamedTuple):
    """[first, end) and the bytes of its batches."""

    first: int
    end: int
    size: int


class Spans:
    """Grows with keys and gaps, not with batches.

    Spans that overlap are kept beside each other: no honest broker gives an offset twice in one epoch, so both are
    evidence. The sums of messages and bytes are those of what was added, in whatever order it came.
    """

    __slots__ = ("_by_key", "count")

    def __init__(self) -> None:
        self._by_key: dict[SpanKey, list[Span]] = {}
        self.count = 0
        """Spans in all."""

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, key: SpanKey, first: int, end: int, size: int) -> None:
        """One batch, or a span of several. Constant time where it follows the last one."""
        spans = self._by_key.get(key)
        if spans is None:
            self._by_key[key] = [Span(first, end, size)]
            self.count += 1
            return
        last = spans[-1]
        if last.end == first:
            spans[-1] = Span(last.first, end, last.size + size)
        elif first > last.end:
            spans.append(Span(first, end, size))
            self.count += 1
        else:
            self._insert(spans, Span(first, end, size))

    def merge(self, other: "Spans") -> None:
        """Add all that `other` holds."""
        for key, spans in other._by_key.items():
            for span in spans:
                self.add(key, *span)

    def __iter__(self) -> Iterator[tuple[SpanKey, list[Span]]]:
        """By key in order; the spans of each by their first offset."""
        for key in sorted(self._by_key):
            yield key, self._by_key[key]

    def _insert(self, spans: list[Span], span: Span) -> None:
        at = bisect_left(spans, span)
        if at < len(spans) and spans[at].first == span.end:
            span = Span(span.first, spans[at].end, span.size + spans[at].size)
            del spans[at]
            self.count -= 1
        if at > 0 and spans[at - 1].end == span.first:
            before = spans[at - 1]
            spans[at - 1] = Span(before.first, span.end, before.size + span.size)
        else:
            spans.insert(at, span)
            self.count += 1
