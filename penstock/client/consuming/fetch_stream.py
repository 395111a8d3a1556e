"""One consumer's stream to one broker: which partitions are open on it, and what is to be said on it next."""

from __future__ import annotations

from enum import Enum

from penstock.client.consuming.fetch_position import FetchPosition
from penstock.client.timing import NEVER
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.v1 import log_pb2

ENTRIES_PER_FRAME_MAX = 10_000
"""Keeps a frame's head far below its limit."""


class FetchStreamState(Enum):
    CLOSED = "closed"
    OPEN = "open"


class FetchStream:
    """State only; `Fetcher` moves it. A consume stream is open as soon as it is asked for: the broker
    grants nothing first.
    """

    __slots__ = (
        "_closes",
        "_consumed",
        "_credits",
        "_known_to_broker",
        "_opens",
        "broker",
        "failures",
        "group",
        "last_heard",
        "positions",
        "probed",
        "retry_at",
        "state",
        "token",
        "zone",
    )

    def __init__(self, broker: int, group: str = "", zone: str = "") -> None:
        self.broker = broker
        self.group = group
        self.zone = zone
        self.state = FetchStreamState.CLOSED
        self.token = -1
        self.failures = 0
        self.retry_at = 0.0
        self.last_heard = 0.0
        self.probed = False
        self.positions: dict[int, FetchPosition] = {}
        """Open on this stream, by handle."""
        self._known_to_broker: dict[int, None] = {}
        """Handles that the broker knows of this stream."""
        self._opens: dict[int, FetchPosition] = {}
        self._credits: dict[int, FetchPosition] = {}
        self._closes: dict[int, None] = {}
        self._consumed: list[tuple[int, int, int]] = []
        """(handle, generation, bytes) consumed of openings that end. They are reported before the end, because
        they count what was delivered.
        """

    def opened(self, token: int, now: float) -> None:
        self.state = FetchStreamState.OPEN
        self.token = token
        self.last_heard = now
        self.probed = False
        self.positions.clear()
        self._known_to_broker.clear()
        self._opens.clear()
        self._credits.clear()
        self._closes.clear()
        self._consumed.clear()

    def _note_consumed(self, position: FetchPosition) -> None:
        """What is open ends: what was consumed of it is not forgotten."""
        handle = position.handle
        if position.credit_owed and handle in self.positions and handle in self._known_to_broker:
            self._consumed.append((handle, position.generation, position.credit_owed))
        position.credit_owed, position.credit_due_at = 0, NEVER

    def want_open(self, position: FetchPosition) -> None:
        """Open it, or move what is open, at its `fetch_offset`; pushes of before are stale from now on."""
        self._note_consumed(position)
        position.generation += 1
        self.positions[position.handle] = position
        self._opens[position.handle] = position
        self._credits.pop(position.handle, None)
        self._closes.pop(position.handle, None)

    def want_credit(self, position: FetchPosition) -> None:
        if position.handle in self.positions and position.handle not in self._opens:
            self._credits[position.handle] = position

    def want_close(self, position: FetchPosition) -> None:
        self._note_consumed(position)
        if self.positions.pop(position.handle, None) is not None:
            self._credits.pop(position.handle, None)
            self._opens.pop(position.handle, None)
            if position.handle in self._known_to_broker:
                del self._known_to_broker[position.handle]
                self._closes[position.handle] = None

    def forget(self, position: FetchPosition) -> None:
        """The broker has closed the handle itself."""
        for entries in (self.positions, self._opens, self._credits):
            entries.pop(position.handle, None)
        self._known_to_broker.pop(position.handle, None)

    def next_frame(self) -> bytes | None:
        """Credit of what ends first, then closes, then openings, then credit."""
        if self.state is not FetchStreamState.OPEN:
            return None
        if self._consumed:
            return _packed(FrameKind.CONSUME_CREDIT, self._consumed_head())
        if self._closes:
            closing = _first_entries(self._closes)
            return _packed(FrameKind.CONSUME_CLOSE, log_pb2.ConsumeCloseHead(handles=closing))
        if self._opens:
            return _packed(FrameKind.CONSUME_OPEN, self._open_head())
        if self._credits:
            return _packed(FrameKind.CONSUME_CREDIT, self._credit_head())
        return None

    def last_frames(self) -> tuple[bytes, ...]:
        """The last frames of a stream that ends in order: the bytes consumed and not reported yet."""
        self._opens.clear()
        for position in self.positions.values():
            if position.credit_owed:
                self.want_credit(position)
        frames: list[bytes] = []
        while self._consumed:
            frames.append(_packed(FrameKind.CONSUME_CREDIT, self._consumed_head()))
        while self._credits:
            frames.append(_packed(FrameKind.CONSUME_CREDIT, self._credit_head()))
        return tuple(frames)

    def _open_head(self) -> log_pb2.ConsumeOpenHead:
        head = log_pb2.ConsumeOpenHead(group=self.group, zone=self.zone)
        for handle in list(self._opens)[:ENTRIES_PER_FRAME_MAX]:
            position = self._opens.pop(handle)
            self._known_to_broker[handle] = None
            head.partitions.add(
                handle=handle,
                topic_id=position.topic_id,
                partition=position.partition,
                generation=position.generation,
                offset=position.fetch_offset,
                last_epoch=position.fetch_epoch,
                leader_epoch=position.leader_epoch,
                credit_bytes=position.window,
                from_follower=self.broker != position.leader,
            )
        return head

    def _consumed_head(self) -> log_pb2.ConsumeCreditHead:
        head = log_pb2.ConsumeCreditHead()
        for handle, generation, owed in self._consumed[:ENTRIES_PER_FRAME_MAX]:
            head.credits.add(handle=handle, generation=generation, credit_bytes=owed)
        del self._consumed[:ENTRIES_PER_FRAME_MAX]
        return head

    def _credit_head(self) -> log_pb2.ConsumeCreditHead:
        head = log_pb2.ConsumeCreditHead()
        for handle in list(self._credits)[:ENTRIES_PER_FRAME_MAX]:
            position = self._credits.pop(handle)
            head.credits.add(handle=handle, generation=position.generation, credit_bytes=position.credit_owed)
            position.credit_owed, position.credit_due_at = 0, NEVER
        return head


def _first_entries(entries: dict[int, None]) -> list[int]:
    taken = list(entries)[:ENTRIES_PER_FRAME_MAX]
    for handle in taken:
        del entries[handle]
    return taken


def _packed(
    kind: FrameKind, head: log_pb2.ConsumeOpenHead | log_pb2.ConsumeCreditHead | log_pb2.ConsumeCloseHead
) -> bytes:
    return pack_frame(kind, head.SerializeToString())
