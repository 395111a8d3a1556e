"""All streams that one consumer reads from, one a broker: opened when a partition needs one, probed when silent, given
up when lost."""

from __future__ import annotations

from penstock.client.cluster_view import NO_LEADER
from penstock.client.consuming.fetch_position import FetchPosition, PositionState
from penstock.client.consuming.fetch_stream import FetchStream, FetchStreamState
from penstock.client.ports import Network, StreamOwner
from penstock.client.refusals import final, refusal
from penstock.client.settings import ConsumerSettings
from penstock.client.timing import NEVER, Backoff
from penstock.contract import limits, methods

WINDOW_BYTES_MIN = 4 * limits.KIB
"""With very many partitions each still gets its turn, one batch at a time."""
PROBE_MS = 10_000
"""A stream that was silent for this long is probed: one partition is opened again, which the broker must answer."""
SILENT_MS = 15_000
"""A stream that stays silent after that is given up."""


class Fetcher:
    """The streams of one consumer, by broker. An open partition is on exactly one: its leader's, or that of a follower
    which is nearer. Times in ms."""

    def __init__(
        self, core: Network, consumer: StreamOwner, settings: ConsumerSettings, backoff: Backoff
    ) -> None:
        self._core = core
        self._consumer = consumer
        self._settings = settings
        self._backoff = backoff
        self._group = "" if settings.group is None else settings.group.group
        self._streams: dict[int, FetchStream] = {}

    def of(self, token: int) -> FetchStream | None:
        """The open stream of this token."""
        for stream in self._streams.values():
            if stream.token == token and stream.state is FetchStreamState.OPEN:
                return stream
        return None

    def step(self, now: float) -> None:
        for stream in self._streams.values():
            self._check_silence(stream, now)

    def next_step_at(self) -> float:
        at = NEVER
        for stream in self._streams.values():
            if stream.state is FetchStreamState.OPEN and stream.positions:
                at = min(at, stream.last_heard + (SILENT_MS if stream.probed else PROBE_MS))
        return at

    def _check_silence(self, stream: FetchStream, now: float) -> None:
        if stream.state is not FetchStreamState.OPEN:
            return
        silence = now - stream.last_heard
        if not stream.positions:
            if stream.broker not in self._core.view.brokers:
                self._core.close_stream(stream.token)
                stream.state = FetchStreamState.CLOSED
        elif silence >= SILENT_MS and stream.probed:
            self._core.close_stream(stream.token)
            self.stream_lost(stream.token, None, f"silent for {SILENT_MS} ms", now)
        elif silence >= PROBE_MS and not stream.probed:
            stream.probed = True
            stream.want_open(next(iter(stream.positions.values())))
            self._core.wake_writer(stream.token)

    def may_open_at(self, position: FetchPosition) -> float:
        """When `open_partition` is worth a call; the partition's leader is known."""
        stream = self._streams.get(position.source)
        return max(position.retry_at, stream.retry_at if stream is not None else 0.0)

    def open_partition(self, position: FetchPosition, sharers: int, now: float) -> None:
        """Open it at its leader, or at a follower that is nearer, if that can be reached; `sharers` partitions are read
        from there."""
        if position.leader == NO_LEADER:
            return
        if position.source != position.leader and self._core.view.address_of(position.source) is None:
            position.back_to_leader(now)
        source = position.source
        stream = self._streams.get(source)
        if stream is None:
            stream = self._streams[source] = FetchStream(source, self._group, self._settings.zone)
        if stream.state is FetchStreamState.CLOSED and not self._open_stream(stream, now):
            return
        share = self._settings.fetch_bytes // max(1, sharers)
        position.window = max(WINDOW_BYTES_MIN, min(self._settings.partition_fetch_bytes, share))
        position.state, position.broker = PositionState.OPEN, stream.broker
        stream.want_open(position)
        self._core.wake_writer(stream.token)

    def _open_stream(self, stream: FetchStream, now: float) -> bool:
        if now < stream.retry_at:
            return False
        address = self._core.view.address_of(stream.broker)
        if address is None:
            stream.retry_at = now + self._backoff.delay_ms(3)
            self._core.refresh(now)
            return False
        stream.opened(self._core.open_stream(self._consumer, address, methods.CONSUME), now)
        return True

    def give_credit(self, position: FetchPosition) -> None:
        """Report to the broker what was consumed, if the partition is open."""
        stream = self._streams.get(position.broker)
        if stream is not None:
            stream.want_credit(position)
            self._core.wake_writer(stream.token)

    def nearer_again(self, position: FetchPosition, now: float) -> None:
        """Try the nearest broker again, once it is time."""
        if position.leader_until <= now:
            position.leader_until = 0.0
            if position.state is PositionState.OPEN and position.broker != position.nearest:
                self.close_partition(position)

    def close_partition(self, position: FetchPosition) -> None:
        """It is open nowhere now; what was fetched stays."""
        stream = self._streams.get(position.broker)
        if stream is not None:
            stream.want_close(position)
            if stream.state is FetchStreamState.OPEN:
                self._core.wake_writer(stream.token)
            position.broker = NO_LEADER
        if position.state is PositionState.OPEN:
            position.state = PositionState.READY

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """Open every partition of it again, at its leader of then; what was fetched stays."""
        stream = self.of(token)
        if stream is None:
            return
        error = refusal(code, message)
        stream.state = FetchStreamState.CLOSED
        stream.failures += 1
        stream.retry_at = now + self._backoff.delay_ms(stream.failures)
        for position in list(stream.positions.values()):
            if position.from_follower:
                position.back_to_leader(now)
            position.broker = NO_LEADER
            position.generation += 1
            position.state = PositionState.READY
            position.credit_owed, position.credit_due_at = 0, NEVER
            if code is not None and final(error):
                position.halt(error)
        stream.positions.clear()
        self._core.changed = True
        self._core.refresh(now)
        self._core.attend()

    def close(self) -> None:
        """End every stream; the bytes consumed last are still reported where the stream allows it."""
        for stream in self._streams.values():
            if stream.state is FetchStreamState.OPEN:
                self._core.close_stream(stream.token, gently=True, last=stream.last_frames())
                stream.state = FetchStreamState.CLOSED
