"""All streams that one consumer reads from, one a broker: opened when a partition needs one, probed when silent, given
up when lost."""

from __future__ import annotations

from penstock.client.cluster_view import NO_LEADER
from penstock.client.consuming.fetch_position import Cursor, CursorState
from penstock.client.consuming.fetch_stream import FetchLane, FetchLaneState
from penstock.client.ports import Network, StreamOwner
from penstock.client.refusals import final, refusal
from penstock.client.settings import ConsumerSettings
from penstock.client.timing import NEVER, Backoff
from penstock.contract import limits, methods

WINDOW_BYTES_MIN = 4 * limits.KIB
"""With very many partitions each still gets its turn, one batch at a time."""
PROBE_MS = 10_000
"""A stream that was silent for this long is asked for a sign of life, by opening one partition anew."""
SILENT_MS = 15_000
"""A stream that stays silent after that is given up."""


class FetchLanes:
    """Times in ms. A cursor that is open is on exactly one of them, its leader's."""

    def __init__(
        self, core: Network, consumer: StreamOwner, settings: ConsumerSettings, backoff: Backoff
    ) -> None:
        self._core, self._consumer, self._settings, self._backoff = core, consumer, settings, backoff
        self._group = "" if settings.group is None else settings.group.group
        self._lanes: dict[int, FetchLane] = {}

    def of(self, token: int) -> FetchLane | None:
        """The open lane whose stream it is."""
        for lane in self._lanes.values():
            if lane.token == token and lane.state is FetchLaneState.OPEN:
                return lane
        return None

    def step(self, now: float) -> None:
        for lane in self._lanes.values():
            self._tend(lane, now)

    def next_step_at(self) -> float:
        at = NEVER
        for lane in self._lanes.values():
            if lane.state is FetchLaneState.OPEN and lane.cursors:
                at = min(at, lane.last_heard + (SILENT_MS if lane.probed else PROBE_MS))
        return at

    def _tend(self, lane: FetchLane, now: float) -> None:
        if lane.state is not FetchLaneState.OPEN:
            return
        silence = now - lane.last_heard
        if not lane.cursors:
            if lane.broker not in self._core.view.brokers:
                self._core.close_stream(lane.token)
                lane.state = FetchLaneState.CLOSED
        elif silence >= SILENT_MS and lane.probed:
            self._core.close_stream(lane.token)
            self.lost(lane.token, None, f"silent for {SILENT_MS} ms", now)
        elif silence >= PROBE_MS and not lane.probed:
            lane.probed = True
            lane.want_open(next(iter(lane.cursors.values())))
            self._core.wake_writer(lane.token)

    def may_open_at(self, cursor: Cursor) -> float:
        """When `open_cursor` is worth a call; the cursor's leader is known."""
        lane = self._lanes.get(cursor.leader)
        return max(cursor.retry_at, lane.retry_at if lane is not None else 0.0)

    def open_cursor(self, cursor: Cursor, sharers: int, now: float) -> None:
        """Open it at its leader, if there is one to be reached; `sharers` partitions are read from there."""
        if cursor.leader == NO_LEADER:
            return
        lane = self._lanes.get(cursor.leader)
        if lane is None:
            lane = self._lanes[cursor.leader] = FetchLane(cursor.leader, self._group)
        if lane.state is FetchLaneState.CLOSED and not self._open_lane(lane, now):
            return
        share = self._settings.fetch_bytes // max(1, sharers)
        cursor.window = max(WINDOW_BYTES_MIN, min(self._settings.partition_fetch_bytes, share))
        cursor.state, cursor.broker = CursorState.OPEN, lane.broker
        lane.want_open(cursor)
        self._core.wake_writer(lane.token)

    def _open_lane(self, lane: FetchLane, now: float) -> bool:
        if now < lane.retry_at:
            return False
        address = self._core.view.address_of(lane.broker)
        if address is None:
            lane.retry_at = now + self._backoff.delay_ms(3)
            self._core.refresh(now)
            return False
        lane.opened(self._core.open_stream(self._consumer, address, methods.CONSUME), now)
        return True

    def give_credit(self, cursor: Cursor) -> None:
        """Tell the broker what was consumed, if the partition is open."""
        lane = self._lanes.get(cursor.broker)
        if lane is not None:
            lane.want_credit(cursor)
            self._core.wake_writer(lane.token)

    def close_cursor(self, cursor: Cursor) -> None:
        """It is open nowhere now; what was fetched stays."""
        lane = self._lanes.get(cursor.broker)
        if lane is not None:
            lane.want_close(cursor)
            if lane.state is FetchLaneState.OPEN:
                self._core.wake_writer(lane.token)
            cursor.broker = NO_LEADER
        if cursor.state is CursorState.OPEN:
            cursor.state = CursorState.PLACED

    def lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """Every partition open on it is opened anew, where its leader is by then; what was fetched stays."""
        lane = self.of(token)
        if lane is None:
            return
        error = refusal(code, message)
        lane.state = FetchLaneState.CLOSED
        lane.failures += 1
        lane.retry_at = now + self._backoff.delay_ms(lane.failures)
        for cursor in list(lane.cursors.values()):
            cursor.broker = NO_LEADER
            cursor.generation += 1
            cursor.state = CursorState.PLACED
            cursor.credit_owed, cursor.credit_due_at = 0, NEVER
            if code is not None and final(error):
                cursor.halt(error)
        lane.cursors.clear()
        self._core.changed = True
        self._core.refresh(now)
        self._core.attend()

    def close(self) -> None:
        """End every stream; the bytes consumed last are still told where the stream allows it."""
        for lane in self._lanes.values():
            if lane.state is FetchLaneState.OPEN:
                self._core.close_stream(lane.token, gently=True, last=lane.last_frames())
                lane.state = FetchLaneState.CLOSED
