"""Reading of one partition: its fetch position, the batches fetched and not read yet, and what it waits for.

    AWAITING_OFFSET --lookup--> READY --opened on the leader's stream--> OPEN
    OPEN --stream lost, leader moved, follower refused--> READY
    any --error that a retry does not cure--> HALTED --seek--> AWAITING_OFFSET or READY

Two numbers part old from new: `generation` rises with every opening, so that pushes for an earlier one are
dropped; `seek_epoch` rises with every jump of the position, so that batches fetched before it are dropped.
"""

from __future__ import annotations

import struct

# As an annotation of a class, mypyc looks for it among the names of the module.
from builtins import memoryview
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from penstock.client.call_arguments import log_offset
from penstock.client.cluster_view import NO_LEADER, UNKNOWN_EPOCH, PartitionView
from penstock.client.consuming.undecodable import Undecodable
from penstock.client.messages import Message
from penstock.client.timing import NEVER
from penstock.contract.errors import InvalidRequest, PenstockError
from penstock.contract.methods import BEGINNING, END
from penstock.records.batch import CONTROL, split_batches

LEADER_MS, LEADER_MS_MAX = 10_000, 300_000
"""So long the leader is read when a follower did not serve, twice as long each time, unless the metadata moves."""
SeekTo = Literal["beginning", "end"]
_BATCH_START = struct.Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta: the front of a batch's
header.
"""


class PositionState(Enum):
    AWAITING_OFFSET = "awaiting_offset"
    READY = "ready"
    OPEN = "open"
    HALTED = "halted"


@dataclass(slots=True, eq=False)
class FetchedBatch:
    """One pushed batch, whole."""

    position: FetchPosition
    seek_epoch: int
    generation: int
    batch: memoryview
    next_offset: int
    """The offset behind its last record."""
    epoch: int
    control: bool
    malformed: str = ""
    """What is wrong with its records, once that was found; it then waits to be skipped."""
    undecodable: Undecodable | None = None
    """The next message of it, once its deserializer did not take it; it then waits to be skipped."""


class FetchPosition:
    """State only; `ConsumerCore` moves it. `offset` and `epoch` are the position: the next message to hand
    out, and the leader epoch of the one before (RL56). `fetch_offset` and `fetch_epoch` run ahead of them
    by what waits here.
    """

    __slots__ = (
        "broker",
        "buffer",
        "buffered_bytes",
        "credit_due_at",
        "credit_owed",
        "epoch",
        "error",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "handle",
        "high_watermark",
        "label",
        "leader",
        "leader_epoch",
        "leader_until",
        "log_start_offset",
        "lookup_sent",
        "nearest",
        "offset",
        "part",
        "partition",
        "partly_read",
        "paused",
        "queued",
        "retry_at",
        "seek_epoch",
        "skip_before_ms",
        "sought",
        "state",
        "target",
        "topic",
        "topic_id",
        "turned_away",
        "window",
        "withheld",
    )

    def __init__(self, topic: str, topic_id: bytes, partition: int, handle: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.handle = handle
        self.label = f"{topic}-{partition}"
        self.state = PositionState.AWAITING_OFFSET
        self.target: int | None = None
        """With AWAITING_OFFSET: what to look up, a time in ms, `BEGINNING` or `END`; None = a seek must say it.
        """
        self.lookup_sent = False
        self.skip_before_ms: int | None = None
        """After a seek to a time: brokers place it by whole batches, so earlier messages at the front are left out."""
        self.sought = False
        """The application named this offset, and nothing was fetched from it so far."""
        self.seek_epoch = self.generation = 0
        self.offset = self.fetch_offset = -1
        self.epoch = self.fetch_epoch = UNKNOWN_EPOCH
        self.leader = NO_LEADER
        self.leader_epoch = UNKNOWN_EPOCH
        self.nearest = NO_LEADER
        """The broker to read from while it serves: the leader, or a follower that is nearer."""
        self.leader_until = 0.0
        """Not 0: the nearest one did not serve, and until then the leader is read, ms."""
        self.turned_away = 0
        """How often followers did not serve it since one did, or since the metadata moved."""
        self.broker = NO_LEADER
        """The broker on whose stream it is open."""
        self.retry_at = 0.0
        self.failures = 0
        self.buffer: deque[FetchedBatch] = deque()
        self.buffered_bytes = 0
        self.part: Iterator[Message] | None = None
        self.partly_read: FetchedBatch | None = None
        self.queued = False
        self.window = 0
        self.credit_owed = 0
        self.credit_due_at = NEVER
        self.paused = False
        self.withheld = False
        """In a group: not read, because the application has not heard of it yet, or must give it up (RL91)."""
        self.error: PenstockError | None = None
        self.high_watermark = self.log_start_offset = -1

    @property
    def has_offset(self) -> bool:
        """`offset` means something."""
        return self.offset >= 0

    def follow(self, partition: PartitionView, nearest: int) -> bool:
        """Take over who leads it now, and who is nearest; whether it is open elsewhere and must be closed there."""
        now = (self.leader, self.leader_epoch, self.nearest)
        if now == (partition.leader, partition.leader_epoch, nearest):
            return False
        self.leader = partition.leader
        self.leader_epoch = partition.leader_epoch
        self.nearest = nearest
        self.retry_at = 0.0
        self.failures = 0
        self.leader_until = 0.0
        self.turned_away = 0
        return self.state is PositionState.OPEN

    @property
    def source(self) -> int:
        """The broker to open it at."""
        return self.leader if self.leader_until else self.nearest

    @property
    def from_follower(self) -> bool:
        """It is open at a broker that does not lead it."""
        return self.broker not in (NO_LEADER, self.leader)

    def back_to_leader(self, now: float) -> None:
        """The follower that it is read from does not serve it: the leader does, at once, and for longer each time."""
        wait_ms = min(LEADER_MS * 2**self.turned_away, LEADER_MS_MAX)
        self.turned_away = min(self.turned_away + 1, 10)
        self.leader_until = now + wait_ms
        self.retry_at = 0.0

    def look_up(self, target: int | None) -> None:
        """Begin again where a lookup of `target` will say."""
        self._drop()
        self.sought = False
        self.skip_before_ms = target if target is not None and target >= 0 else None
        self.state = PositionState.AWAITING_OFFSET
        self.target = target
        self.lookup_sent = False
        self.offset = self.fetch_offset = -1

    def move_to(self, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Begin again at `offset`."""
        self._drop()
        self.sought = False
        self.state = PositionState.READY
        self.target = None
        self.lookup_sent = False
        self.offset = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch

    def halt(self, error: PenstockError) -> None:
        """Nothing more is fetched until a seek; what waits here is still read, then `error` is
        raised.
        """
        self.state = PositionState.HALTED
        self.error = error
        self.lookup_sent = False

    @property
    def stopped_by(self) -> PenstockError | None:
        """The error that it stands still for, which says where. Partitions of a topic that ended share one: it names
        that for which it is raised.
        """
        error = self.error
        if error is not None:
            error.topic = self.topic
            error.partition = self.partition
            error.offset = self.offset if self.has_offset else None
        return error

    def _drop(self) -> None:
        self.seek_epoch += 1
        self.generation += 1
        self.error = None
        self.buffer.clear()
        self.buffered_bytes = 0
        self.part = self.partly_read = None
        self.failures = 0
        self.retry_at = 0.0
        self.epoch = self.fetch_epoch = UNKNOWN_EPOCH

    def add_fetched(self, part: memoryview) -> None:
        """Pushed batches, which wait here and move the fetch position on. Raises `CorruptBatch`."""
        for batch in split_batches(part):
            base_offset, _, epoch, _, _, attributes, last_delta = _BATCH_START.unpack_from(batch)
            next_offset = base_offset + last_delta + 1
            control = bool(attributes & CONTROL)
            self.buffer.append(
                FetchedBatch(self, self.seek_epoch, self.generation, batch, next_offset, epoch, control)
            )
            self.buffered_bytes += len(batch)
            self.fetch_offset = next_offset
            self.fetch_epoch = epoch
            self.sought = False

    def take_first(self) -> FetchedBatch:
        """The batch that waits longest. Something must wait."""
        fetched = self.buffer.popleft()
        self.buffered_bytes -= len(fetched.batch)
        return fetched

    def put_back(self, fetched: FetchedBatch) -> None:
        """What `take_first` gave waits again, in front."""
        self.buffer.appendleft(fetched)
        self.buffered_bytes += len(fetched.batch)

    def comes_next(self, fetched: FetchedBatch) -> bool:
        """It is the batch that would be read next."""
        return self.readable and self.part is None and fetched is self.buffer[0]

    @property
    def waits_for_skip(self) -> bool:
        """The application is to hear of what comes next here, which is then skipped."""
        if self.partly_read is not None:
            return self.partly_read.undecodable is not None
        return bool(self.buffer) and bool(self.buffer[0].malformed)

    @property
    def readable(self) -> bool:
        """Something waits here that may be read."""
        return not self.paused and not self.withheld and (bool(self.buffer) or self.part is not None)


def seek_target(offset: int | None, timestamp_ms: int | None, to: str | None) -> int | None:
    """The time to look up (or `BEGINNING`, `END`); None = go to `offset`. Raises `InvalidRequest` unless
    exactly one is given, and as `log_offset` does.
    """
    if sum(given is not None for given in (offset, timestamp_ms, to)) != 1:
        raise InvalidRequest("seek: exactly one of offset, timestamp_ms and to is required")
    if offset is not None:
        log_offset("seek: offset", offset)
        return None
    if timestamp_ms is not None:
        return log_offset("seek: timestamp_ms", timestamp_ms)
    if to == "beginning":
        return BEGINNING
    if to == "end":
        return END
    raise InvalidRequest(f"seek: to={to!r} is neither 'beginning' nor 'end'")
