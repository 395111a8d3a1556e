"""Reads a topic for people: from an offset or a time, the newest messages, by key, or new messages since an offset."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock import Client, Message, SkippedBatch
from penstock.blocking.consumer import Consumer
from penstock.rules.partitioner import partition_of

LIMITS = (20, 50, 100)
FETCH_BYTES = 4 * 1024 * 1024
READ_S = 6.0
"""After this time a page shows what it has read."""
POLL_S = 0.4
SEARCH_STEP = 2_000
SEARCH_MAX = 20_000
"""Offsets that a search by key reads, from the newest back."""
PARTITIONS_MAX = 200
TAIL_MAX = 200
"""Messages that one poll of the tail returns. The page says how many more it left out."""
SKIPPED_MAX = 20
"""Malformed batches that one page names."""
CALL_S = 5.0

Marks = dict[int, tuple[int, int]]
"""Partition -> offsets [begin, end)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Messages of one or all partitions. `late` = the time ended before everything was read."""

    messages: tuple[Message, ...]
    marks: Marks
    first: int
    """Of one partition: the offset at which this page begins."""
    end: int
    late: bool = False
    searched: int = 0
    """Offsets that a search by key has read."""
    skipped: tuple[SkippedBatch, ...] = ()
    """The first malformed batches: their offsets have no messages."""


class _Skipped:
    """Malformed batches that a consumer met. The consumer refers to this part alone: if it referred to its reader, both
    would keep what was fetched until the collector of cycles comes.
    """

    def __init__(self) -> None:
        self._batches: dict[tuple[int, int], SkippedBatch] = {}

    def note(self, skipped: SkippedBatch) -> None:
        if len(self._batches) < SKIPPED_MAX:
            self._batches[skipped.partition, skipped.first_offset] = skipped

    @property
    def batches(self) -> tuple[SkippedBatch, ...]:
        """Those that were found so far, at most `SKIPPED_MAX` of them, in order."""
        return tuple(self._batches[position] for position in sorted(self._batches))


class Reader:
    """One reading of one topic. A context manager."""

    def __init__(self, client: Client, topic: str, partitions: Sequence[int]) -> None:
        self._topic = topic
        self._partitions = list(partitions)
        self._skipped = _Skipped()
        self._consumer: Consumer = client.consumer(
            fetch_bytes=FETCH_BYTES, partition_fetch_bytes=FETCH_BYTES // 4, on_malformed=self._skipped.note
        )
        self._consumer.assign([(topic, partition) for partition in partitions])
        self._deadline = time.monotonic() + READ_S

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def skipped(self) -> tuple[SkippedBatch, ...]:
        """Malformed batches that were found so far, at most `SKIPPED_MAX` of them, in order."""
        return self._skipped.batches

    def marks(self) -> Marks:
        """The begin and end offset of each partition now."""
        begins = self._consumer.beginning_offsets(CALL_S)
        ends = self._consumer.end_offsets(CALL_S)
        return {part: (begins[self._topic, part], ends[self._topic, part]) for part in self._partitions}

    def offsets_at(self, timestamp_ms: int) -> dict[int, int]:
        """The first offset of each partition with that time or a later one."""
        self._consumer.seek(self._topic, timestamp_ms=timestamp_ms, timeout=CALL_S)
        return {part: self._consumer.position(self._topic, part, CALL_S) for part in self._partitions}

    def read(
        self, starts: Mapping[int, int], ends: Mapping[int, int], limit: int, *, from_ms: int | None = None
    ) -> tuple[list[Message], bool]:
        """Up to `limit` messages of each partition in [start, end), and whether the time ended before all were read.

        With `from_ms` the start is in the batch with that time, and earlier messages are left out.
        """
        waiting = {part for part in self._partitions if starts[part] < ends[part]}
        counts = dict.fromkeys(self._partitions, 0)
        for part in self._partitions:
            if from_ms is None:
                self._consumer.seek(self._topic, part, offset=starts[part], timeout=CALL_S)
            if part not in waiting:
                self._consumer.pause(self._topic, part, CALL_S)
        if from_ms is not None:
            self._consumer.seek(self._topic, timestamp_ms=from_ms, timeout=CALL_S)
        found: list[Message] = []
        while waiting and time.monotonic() < self._deadline:
            for message in self._consumer.poll(max_messages=1_000, timeout=POLL_S):
                part = message.partition
                if part in waiting and message.offset < ends[part] and counts[part] < limit:
                    found.append(message)
                    counts[part] += 1
            for part in sorted(waiting):
                at_end = self._consumer.position(self._topic, part, CALL_S) >= ends[part]
                if at_end or counts[part] >= limit:
                    waiting.discard(part)
                    self._consumer.pause(self._topic, part, CALL_S)
        for part in self._partitions:
            self._consumer.resume(self._topic, part, CALL_S)
        return found, bool(waiting)

    @property
    def time_is_up(self) -> bool:
        return time.monotonic() >= self._deadline


def newest(reader: Reader, limit: int) -> Page:
    """The newest messages, newest first."""
    marks = reader.marks()
    starts = {part: max(begin, end - limit) for part, (begin, end) in marks.items()}
    found, late = reader.read(starts, _ends(marks), limit)
    found.sort(key=lambda message: (-message.timestamp_ms, message.partition, -message.offset))
    kept = found[:limit]
    return _page(kept, marks, late, starts, reader.skipped)


def since(reader: Reader, starts: Mapping[int, int] | None, timestamp_ms: int | None, limit: int) -> Page:
    """Messages from offsets or from a time on, oldest first."""
    marks = reader.marks()
    if timestamp_ms is not None:
        starts = reader.offsets_at(timestamp_ms)
    assert starts is not None
    within = {part: min(max(starts.get(part, begin), begin), end) for part, (begin, end) in marks.items()}
    found, late = reader.read(within, _ends(marks), limit, from_ms=timestamp_ms)
    found.sort(key=lambda message: (message.timestamp_ms, message.partition, message.offset))
    if len(marks) == 1:
        found.sort(key=lambda message: message.offset)
    return _page(found[:limit], marks, late, within, reader.skipped)


def with_key(reader: Reader, partition: int, key: bytes, limit: int) -> Page:
    """The newest messages with this key in one partition, newest first. It reads a bounded number of offsets."""
    marks = reader.marks()
    begin, end = marks[partition]
    found: list[Message] = []
    stretch_end, searched, late = end, 0, False
    while stretch_end > begin and searched < SEARCH_MAX and len(found) < limit and not reader.time_is_up:
        stretch = max(begin, stretch_end - SEARCH_STEP)
        messages, late = reader.read({partition: stretch}, {partition: stretch_end}, SEARCH_STEP)
        matching = [message for message in messages if message.key == key]
        found.extend(sorted(matching, key=lambda message: -message.offset))
        searched += stretch_end - stretch
        stretch_end = stretch
    return Page(
        messages=tuple(found[:limit]),
        marks=marks,
        first=stretch_end,
        end=end,
        late=late,
        searched=searched,
        skipped=reader.skipped,
    )


def partition_for(key: bytes, count: int) -> int:
    """The partition that the default partitioner chooses for this key."""
    return partition_of(key, count)


def _ends(marks: Marks) -> dict[int, int]:
    return {part: end for part, (_, end) in marks.items()}


def _page(
    messages: Sequence[Message],
    marks: Marks,
    late: bool,
    starts: Mapping[int, int],
    skipped: tuple[SkippedBatch, ...],
) -> Page:
    if len(marks) != 1:
        return Page(messages=tuple(messages), marks=marks, first=0, end=0, late=late, skipped=skipped)
    (part,) = marks
    offsets = [message.offset for message in messages]
    first = min(offsets, default=starts[part])
    ends = [offset + 1 for offset in offsets] + [batch.end_offset for batch in skipped]
    return Page(
        messages=tuple(messages),
        marks=marks,
        first=first,
        end=max(ends, default=first),
        late=late,
        skipped=skipped,
    )
