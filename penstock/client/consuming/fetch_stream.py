"""One consumer's stream to one broker: which partitions are open on it, and what is to be said on it next."""

from __future__ import annotations

from enum import Enum

from penstock.client.consuming.fetch_position import Cursor
from penstock.client.timing import NEVER
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.v1 import log_pb2

ENTRIES_PER_FRAME_MAX = 10_000
"""Keeps a frame's head far below its limit."""


class FetchLaneState(Enum):
    CLOSED = "closed"
    OPEN = "open"


class FetchLane:
    """State only; `FetchLanes` moves it. A consume stream is open as soon as it is asked for: the broker
    grants nothing first.
    """

    __slots__ = (
        "_announced",
        "_closes",
        "_credits",
        "_opens",
        "_owed",
        "broker",
        "cursors",
        "failures",
        "group",
        "last_heard",
        "probed",
        "retry_at",
        "state",
        "token",
    )

    def __init__(self, broker: int, group: str = "") -> None:
        self.broker, self.group = broker, group
        self.state = FetchLaneState.CLOSED
        self.token = -1
        self.failures = 0
        self.retry_at = 0.0
        self.last_heard = 0.0
        self.probed = False
        self.cursors: dict[int, Cursor] = {}
        """Open on this stream, by handle."""
        self._announced: dict[int, None] = {}
        """Handles that the broker was told of on this stream."""
        self._opens: dict[int, Cursor] = {}
        self._credits: dict[int, Cursor] = {}
        self._closes: dict[int, None] = {}
        self._owed: list[tuple[int, int, int]] = []
        """(handle, generation, bytes) consumed of openings that end: told before the end, because what was
        delivered is counted by it.
        """

    def opened(self, token: int, now: float) -> None:
        self.state, self.token, self.last_heard, self.probed = FetchLaneState.OPEN, token, now, False
        self.cursors.clear()
        self._announced.clear()
        self._opens.clear()
        self._credits.clear()
        self._closes.clear()
        self._owed.clear()

    def _note_owed(self, cursor: Cursor) -> None:
        """What is open ends: what was consumed of it is not forgotten."""
        handle = cursor.handle
        if cursor.credit_owed and handle in self.cursors and handle in self._announced:
            self._owed.append((handle, cursor.generation, cursor.credit_owed))
        cursor.credit_owed, cursor.credit_due_at = 0, NEVER

    def want_open(self, cursor: Cursor) -> None:
        """Open it, or move what is open, at its `fetch_offset`; pushes of before are stale from now on."""
        self._note_owed(cursor)
        cursor.generation += 1
        self.cursors[cursor.handle] = cursor
        self._opens[cursor.handle] = cursor
        self._credits.pop(cursor.handle, None)
        self._closes.pop(cursor.handle, None)

    def want_credit(self, cursor: Cursor) -> None:
        if cursor.handle in self.cursors and cursor.handle not in self._opens:
            self._credits[cursor.handle] = cursor

    def want_close(self, cursor: Cursor) -> None:
        self._note_owed(cursor)
        if self.cursors.pop(cursor.handle, None) is not None:
            self._credits.pop(cursor.handle, None)
            self._opens.pop(cursor.handle, None)
            if cursor.handle in self._announced:
                del self._announced[cursor.handle]
                self._closes[cursor.handle] = None

    def forget(self, cursor: Cursor) -> None:
        """The broker has closed the handle itself."""
        for entries in (self.cursors, self._opens, self._credits):
            entries.pop(cursor.handle, None)
        self._announced.pop(cursor.handle, None)

    def next_frame(self) -> bytes | None:
        """Credit of what ends first, then closes, then openings, then credit."""
        if self.state is not FetchLaneState.OPEN:
            return None
        if self._owed:
            return _packed(FrameKind.CONSUME_CREDIT, self._owed_head())
        if self._closes:
            closing = _some(self._closes)
            return _packed(FrameKind.CONSUME_CLOSE, log_pb2.ConsumeCloseHead(handles=closing))
        if self._opens:
            return _packed(FrameKind.CONSUME_OPEN, self._open_head())
        if self._credits:
            return _packed(FrameKind.CONSUME_CREDIT, self._credit_head())
        return None

    def last_frames(self) -> tuple[bytes, ...]:
        """What a stream that ends in order still says: the bytes consumed and not told yet."""
        self._opens.clear()
        for cursor in self.cursors.values():
            if cursor.credit_owed:
                self.want_credit(cursor)
        frames: list[bytes] = []
        while self._owed:
            frames.append(_packed(FrameKind.CONSUME_CREDIT, self._owed_head()))
        while self._credits:
            frames.append(_packed(FrameKind.CONSUME_CREDIT, self._credit_head()))
        return tuple(frames)

    def _open_head(self) -> log_pb2.ConsumeOpenHead:
        head = log_pb2.ConsumeOpenHead(group=self.group)
        for handle in list(self._opens)[:ENTRIES_PER_FRAME_MAX]:
            cursor = self._opens.pop(handle)
            self._announced[handle] = None
            head.partitions.add(
                handle=handle,
                topic_id=cursor.topic_id,
                partition=cursor.partition,
                generation=cursor.generation,
                offset=cursor.fetch_offset,
                last_epoch=cursor.fetch_epoch,
                leader_epoch=cursor.leader_epoch,
                credit_bytes=cursor.window,
            )
        return head

    def _owed_head(self) -> log_pb2.ConsumeCreditHead:
        head = log_pb2.ConsumeCreditHead()
        for handle, generation, owed in self._owed[:ENTRIES_PER_FRAME_MAX]:
            head.credits.add(handle=handle, generation=generation, credit_bytes=owed)
        del self._owed[:ENTRIES_PER_FRAME_MAX]
        return head

    def _credit_head(self) -> log_pb2.ConsumeCreditHead:
        head = log_pb2.ConsumeCreditHead()
        for handle in list(self._credits)[:ENTRIES_PER_FRAME_MAX]:
            cursor = self._credits.pop(handle)
            head.credits.add(handle=handle, generation=cursor.generation, credit_bytes=cursor.credit_owed)
            cursor.credit_owed, cursor.credit_due_at = 0, NEVER
        return head


def _some(entries: dict[int, None]) -> list[int]:
    taken = list(entries)[:ENTRIES_PER_FRAME_MAX]
    for handle in taken:
        del entries[handle]
    return taken


def _packed(
    kind: FrameKind, head: log_pb2.ConsumeOpenHead | log_pb2.ConsumeCreditHead | log_pb2.ConsumeCloseHead
) -> bytes:
    return pack_frame(kind, head.SerializeToString())
