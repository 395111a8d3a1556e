"""One batch of a producer, from its first message to its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.client.refusals import blocked_text
from penstock.contract.errors import PenstockError
from penstock.records.batch import BATCH_HEADER_BYTES
from penstock.records.build import BatchBuilder


class ReceiptsLedger(Protocol):
    """Where a producer's own totals go. Called under the client's lock, once a batch: it must not wait for a disk."""

    def acknowledged(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        *,
        first_offset: int,
        messages: int,
        size: int,
        accepted_ms: int,
        leader_epoch: int,
    ) -> None:
        """A broker says that it holds this batch of `size` bytes."""


class Identity(NamedTuple):
    """Numbers the batches: producer id and its epoch."""

    producer_id: int
    producer_epoch: int


class BatchPartition(Protocol):
    """What a batch and its deliveries know of their partition."""

    topic: str
    partition: int
    label: str
    append_time: bool
    """The broker gives messages their time."""
    blocked_by: PenstockError | None
    """What the last attempt met."""
    throttled_ms: int
    """How long a limit of the tenant delayed the batch that was answered last."""
    buffered_bytes: int
    """Of closed batches without an outcome."""


class ProducerBatch:
    """Shared by all deliveries of its messages.

    `tainted`: an attempt was sent and never answered, so the outcome is not known from answers to later
    attempts alone. `encoding`: a runtime is building its bytes outside the core's lock; until that is over
    no other runtime thread may take it.
    """

    __slots__ = (
        "accepted_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "callbacks",
        "count",
        "deadline",
        "done",
        "duplicate",
        "encoded",
        "encoded_as",
        "encoding",
        "error",
        "failure",
        "id",
        "identity",
        "linger_until",
        "order",
        "queue",
        "raw_bytes",
        "tainted",
        "throttled_ms",
    )

    def __init__(
        self, queue: BatchPartition, builder: BatchBuilder, order: int, linger_until: float, deadline: float
    ) -> None:
        self.queue = queue
        self.builder: BatchBuilder | None = builder
        self.order = order
        """Position in its partition's send order; never changes."""
        self.linger_until = linger_until
        self.deadline = deadline
        self.count = 0
        """Messages; counted when no further one can join."""
        self.raw_bytes = 0
        """What they take of the buffer; likewise."""
        self.encoded: bytes | None = None
        self.encoded_as: tuple[Identity | None, int] = (None, -1)
        """Identity and base sequence in the bytes of `encoded`."""
        self.encoding = False
        self.identity: Identity | None = None
        self.base_sequence = -1
        self.id = -1
        self.attempts = 0
        self.tainted = False
        self.failure: PenstockError | None = None
        """The last refusal that is being retried."""
        self.done = False
        self.error: PenstockError | None = None
        self.base_offset = -1
        self.accepted_ms = -1
        self.duplicate = False
        self.throttled_ms = 0
        """How long the tenant's produce rate delayed it at the broker."""
        self.callbacks: list[Callable[[], None]] = []

    @property
    def numbered(self) -> bool:
        return self.base_sequence >= 0

    @property
    def stale_numbers(self) -> bool:
        """Its bytes exist, under numbers that are no longer its own."""
        return self.encoded is not None and self.encoded_as != (self.identity, self.base_sequence)

    @property
    def wire_bytes_max(self) -> int:
        """What it may take of a stream's credit at most."""
        if self.encoded is not None:
            return len(self.encoded)
        return self.builder.size if self.builder is not None else 0

    @property
    def blocked_note(self) -> str:
        """The end of a sentence: what blocks the batch, if that is known."""
        cause = self.failure or self.queue.blocked_by
        if cause is not None:
            return f"; {blocked_text(cause)}"
        delayed_ms = self.queue.throttled_ms
        return f"; a limit of the tenant delayed the batch before it by {delayed_ms} ms" if delayed_ms else ""

    def close(self) -> None:
        """No further message joins."""
        if self.builder is not None:
            self.count = self.builder.count
            self.raw_bytes = self.builder.size - BATCH_HEADER_BYTES

    def finish(
        self,
        error: PenstockError | None,
        base_offset: int = -1,
        accepted_ms: int = -1,
        duplicate: bool = False,
    ) -> None:
        """Fix the outcome; everything that only sending needed is dropped."""
        self.close()
        self.error = error
        self.base_offset = base_offset
        self.accepted_ms = accepted_ms
        self.duplicate = duplicate
        self.builder = self.encoded = None
        self.done = True
