"""One producer's stream to one broker: what waits to go out on it, its credit, and what is unanswered.

    CLOSED --OpenStream--> OPENING --first answer, which grants credit--> OPEN --lost or stalled--> CLOSED

A closed stream with work is opened again after a backoff.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.client.producing.batch import Identity, ProducerBatch
from penstock.client.producing.partition_queue import PartitionQueue
from penstock.client.timing import NEVER
from penstock.contract import limits
from penstock.contract.errors import PenstockError
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.ids import NO_PRODUCER_ID
from penstock.contract.invariant import invariant
from penstock.contract.v1 import log_pb2
from penstock.records.build import NO_EPOCH, BatchBuilder, with_producer

FRAME_PAYLOAD_BYTES = 4 * limits.MIB
"""A frame takes no further batch beyond this; its largest single batch may be bigger."""
FRAME_BATCHES_MAX = 4_096
"""Keeps a frame's head far below its limit, and its work in one piece of a few ms."""
HOLD_OFF_MS = 25
"""While a small frame is on its way, what comes meanwhile waits for its answer, for so long at most: each frame costs
its broker and its followers a turn of their loops, so the busier they are the more goes into one. Brokers that share
two cores answer in 10 to 20 when they are busy; calm ones long before."""
SMALL_FRAME_BYTES = 64 * limits.KIB
"""After a frame this large nothing waits: there is no more to be won."""


class ProduceStreamState(Enum):
    CLOSED = "closed"
    OPENING = "opening"
    OPEN = "open"


@dataclass(slots=True)
class BatchEncoding:
    """What one batch needs to become bytes, read under the core's lock and used outside it."""

    queue: PartitionQueue
    batch: ProducerBatch
    id: int
    leader_epoch: int
    identity: Identity | None
    base_sequence: int
    builder: BatchBuilder | None
    encoded: bytes | None
    stale: bool
    """`encoded` carries other numbers than these."""
    reserved: int


class Unanswered(NamedTuple):
    """A batch that was sent, with its partition."""

    queue: PartitionQueue
    batch: ProducerBatch


class FrameOwner(Protocol):
    """The producer whose batches leave."""

    def encoded(self, token: int, outgoing: ProduceFrame) -> None: ...


@dataclass(slots=True)
class ProduceFrame:
    """Batches that leave together. `encode` is pure and slow: call it outside the lock, then `encoded`."""

    owner: FrameOwner
    acks: int
    encodings: Sequence[BatchEncoding]
    frame: bytes = b""
    payload_bytes: int = 0

    def encode(self) -> bytes:
        """The PRODUCE frame; compresses and checksums what was not yet."""
        head = log_pb2.ProduceHead(acks=self.acks)
        add = head.batches.add
        payload: list[bytes] = []
        for entry in self.encodings:
            data = entry.encoded
            if data is None or entry.stale:
                data = _encode(entry, data)
                entry.encoded = data
            payload.append(data)
            add(
                id=entry.id,
                topic_id=entry.queue.topic_id,
                partition=entry.queue.partition,
                size=len(data),
                leader_epoch=entry.leader_epoch,
            )
        self.payload_bytes = sum(map(len, payload))
        self.frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), payload)
        return self.frame

    def encoded(self, token: int) -> None:
        """It has become a frame of this stream. Under the lock, before the frame is sent."""
        self.owner.encoded(token, self)


def _encode(entry: BatchEncoding, encoded: bytes | None) -> bytes:
    producer_id, producer_epoch = entry.identity if entry.identity is not None else (NO_PRODUCER_ID, NO_EPOCH)
    if encoded is not None:
        return with_producer(encoded, entry.base_sequence, producer_id, producer_epoch)
    invariant(entry.builder is not None, "a batch keeps its builder until its bytes exist")
    assert entry.builder is not None
    return entry.builder.build(entry.base_sequence, producer_id, producer_epoch)


class ProduceStream:
    """State only; `ProducerCore` moves it."""

    __slots__ = (
        "_frame_at",
        "_frame_bytes",
        "_frame_end",
        "_heap",
        "_heap_entries",
        "broker",
        "credit",
        "failures",
        "last_heard",
        "next_id",
        "ready",
        "retry_at",
        "sent_at",
        "since",
        "state",
        "throttled",
        "token",
        "unanswered",
    )

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.state = ProduceStreamState.CLOSED
        self.token = -1
        self.since = 0.0
        self.retry_at = 0.0
        self.failures = 0
        self.credit = 0
        self.next_id = 0
        self.throttled: PenstockError | None = None
        """The last refusal of a batch for a rate, which keeps its credit for a while too."""
        self.unanswered: dict[int, Unanswered] = {}
        self.last_heard = 0.0
        self.sent_at = 0.0
        """When the oldest silence began: the first send after nothing was unanswered."""
        self.ready: deque[PartitionQueue] = deque()
        self._heap: list[tuple[float, int, PartitionQueue]] = []
        self._heap_entries = 0
        self._frame_at = 0.0
        self._frame_bytes = 0
        self._frame_end = 0
        """`next_id` after the last frame."""

    def opening(self, token: int, now: float) -> None:
        self.state = ProduceStreamState.OPENING
        self.token = token
        self.since = now
        self.credit = self.next_id = self._frame_end = 0
        self.throttled = None

    def make_ready(self, queue: PartitionQueue) -> None:
        """Look at this partition when the next frame is made."""
        if not queue.listed:
            queue.listed = True
            self.ready.append(queue)

    def make_ready_at(self, queue: PartitionQueue, at: float) -> None:
        """Look at this partition again when the clock says `at`."""
        if at != NEVER:
            self._heap_entries += 1
            heapq.heappush(self._heap, (at, self._heap_entries, queue))

    def make_due_ready(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            queue = heapq.heappop(self._heap)[2]
            if queue.leader == self.broker:
                self.make_ready(queue)

    @property
    def next_ready_at(self) -> float:
        return self._heap[0][0] if self._heap else NEVER

    def has_work(self) -> bool:
        """Something waits to go out here or is unanswered; queues that moved to another stream do not count."""
        return (
            bool(self.unanswered)
            or any(queue.leader == self.broker for queue in self.ready)
            or any(entry[2].leader == self.broker and not entry[2].idle for entry in self._heap)
        )

    def next_frame(
        self, owner: FrameOwner, now: float, identity: Identity | None, acks: int
    ) -> tuple[ProduceFrame | None, float]:
        """The next frame's batches, or None with the time to look again (events may come earlier)."""
        if self.state is not ProduceStreamState.OPEN:
            return None, NEVER
        self.make_due_ready(now)
        if self.ready and self._holds_off(now):
            return None, self._frame_at + HOLD_OFF_MS
        encodings: list[BatchEncoding] = []
        total = 0
        ready = self.ready
        while ready and total < FRAME_PAYLOAD_BYTES and len(encodings) < FRAME_BATCHES_MAX:
            queue = ready[0]
            batch = queue.sendable(now, identity) if queue.leader == self.broker else None
            if batch is None:
                ready.popleft()
                if queue.leader == self.broker:
                    queue.listed = False
                    self.make_ready_at(queue, queue.wake_at(now))
                continue
            reserved = batch.wire_bytes_max
            if reserved > self.credit or (encodings and total + reserved > FRAME_PAYLOAD_BYTES):
                break
            ready.rotate(-1)
            total += reserved
            self.credit -= reserved
            encodings.append(self._take(queue, batch, reserved, now))
        if not encodings:
            return None, self.next_ready_at
        self._frame_at = now
        self._frame_bytes = total
        self._frame_end = self.next_id
        return ProduceFrame(owner, acks, encodings), now

    def _holds_off(self, now: float) -> bool:
        """Whether what is ready waits for the answer to the frame before it."""
        on_its_way = next(reversed(self.unanswered), 0) >= self._frame_end > 0
        return on_its_way and self._frame_bytes < SMALL_FRAME_BYTES and now < self._frame_at + HOLD_OFF_MS

    def _take(self, queue: PartitionQueue, batch: ProducerBatch, reserved: int, now: float) -> BatchEncoding:
        queue.sent(batch)
        self.next_id += 1
        batch.id = self.next_id
        batch.encoding = True
        if not self.unanswered:
            self.sent_at = now
        self.unanswered[batch.id] = Unanswered(queue, batch)
        return BatchEncoding(
            queue,
            batch,
            batch.id,
            queue.leader_epoch,
            batch.identity,
            batch.base_sequence,
            batch.builder,
            batch.encoded,
            batch.encoded is not None and batch.stale_numbers,
            reserved,
        )
