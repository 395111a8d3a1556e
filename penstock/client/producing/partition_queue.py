"""One partition of one producer: the order of its batches, their numbers, and what a lost or failed one
means.

A batch is *open* (still taking messages), *closed*, *in flight*, or in *resend* (sent before, to be sent
again with the same producer id, epoch and sequence, RL58). Batches leave in send order; those in `resend`
go before closed ones.

A numbered batch that fails leaves a *gap*: the broker will refuse what was numbered behind it.

    NONE    --fails, certainly not applied--> ABSENT   later batches are not applied either: they lose their numbers
    NONE    --fails, outcome unknown--------> UNKNOWN  later ones keep theirs while an attempt of them is unanswered
    ABSENT  --another fails, unknown--------> UNKNOWN
    ABSENT, UNKNOWN --nothing in flight, nothing to resend--> NONE

Then numbering goes on where the gap began; or, if any attempt may still be under way, from 0 under a newer
epoch, which fences that attempt (RL59, RL63).
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from penstock.client.cluster_view import NO_LEADER
from penstock.client.producing.batch import Identity, ProducerBatch
from penstock.client.refusals import LEADERSHIP_CODES, blocked_text, unknown_because
from penstock.client.timing import NEVER
from penstock.contract.errors import (
    Belief,
    DeliveryTimeout,
    ErrorCode,
    OutcomeUnknown,
    PenstockError,
    TimedOut,
)
from penstock.contract.invariant import invariant

_SEQUENCES = 2**31
"""Sequences wrap after 2^31 - 1 (RL61)."""

SLOW_DOWN_MS_MAX = 5_000
"""A partition is slowed for so long at most by one answer, whatever its broker says."""
SLOW_DOWN_SHARE = 4
"""And for this part of the delivery timeout at most, so that nothing fails unsent by mere advice."""
SLOW_DOWN_JITTER = 0.25

Failure = tuple[ProducerBatch, PenstockError]


class Gap(Enum):
    """What is known of the batch that failed."""

    NONE = "none"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class PartitionQueue:
    """Methods that can fail batches return them with their errors; they have left the queue then."""

    __slots__ = (
        "_gap_order",
        "_next_order",
        "_next_sequence",
        "_numbered",
        "_rewind_to",
        "_tolerant",
        "_window",
        "append_time",
        "blocked_by",
        "buffered_bytes",
        "closed",
        "failures",
        "gap",
        "identity",
        "in_flight",
        "label",
        "leader",
        "leader_epoch",
        "listed",
        "needs_epoch",
        "open",
        "partition",
        "resend",
        "retry_at",
        "slow_down_ms",
        "slowed_ms",
        "slowed_until",
        "throttled_at",
        "throttled_ms",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: bytes, partition: int, *, window: int, numbered: bool, tolerant: bool
    ) -> None:
        """`window`: batches in flight at most. `tolerant`: acknowledged batches may vanish (acks=1), so a
        sequence that the broker does not expect is no proof of a fault.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.label = f"{topic}-{partition}"
        self.append_time = False
        self._window = window
        self._numbered = numbered
        self._tolerant = tolerant
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.resend: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.identity: Identity | None = None
        self._next_sequence = 0
        self._next_order = 0
        self.gap = Gap.NONE
        self.needs_epoch = False
        self._gap_order = -1
        self._rewind_to = 0
        self.retry_at = 0.0
        self.blocked_by: PenstockError | None = None
        """What the last attempt met, of whichever batch: why what waits here waits. None = nothing known."""
        self.throttled_ms = 0
        self.throttled_at = 0.0
        self.failures = 0
        self.leader = NO_LEADER
        self.leader_epoch = -1
        """The broker whose stream it is sent on."""
        self.listed = False
        self.buffered_bytes = 0
        """Of batches that are closed and without an outcome."""
        self.slow_down_ms = 0.0
        """What its leader asked for last; 0 = its queue is not long."""
        self.slowed_until = 0.0
        self.slowed_ms = 0.0
        """In all, with what is still to be waited."""

    # ---- adding -----------------------------------------------------------------------------------------------

    def next_order(self) -> int:
        """The place of a new batch in the send order."""
        if self.idle:
            self.blocked_by = None
        self._next_order += 1
        return self._next_order

    def close_open(self) -> None:
        """No further message joins the open batch."""
        if self.open is not None:
            self.open.close()
            self.buffered_bytes += self.open.raw_bytes
            self.closed.append(self.open)
            self.open = None

    # ---- sending ----------------------------------------------------------------------------------------------

    def sendable(self, now: float, identity: Identity | None) -> ProducerBatch | None:
        """The batch to send next, or None when there is none now; `wake_at` says when to look again by the
        clock.
        """
        if len(self.in_flight) >= self._window or now < self.retry_at or now < self.slowed_until:
            return None
        if self.resend:
            batch = self.resend[0]
            return None if batch.encoding else batch
        if not self._may_number(identity):
            return None
        if not self.closed and self.open is not None and self.open.linger_until <= now:
            self.close_open()
        if not self.closed or self.closed[0].encoding:
            return None
        return self.closed[0]

    def wake_at(self, now: float) -> float:
        """When the clock alone may make a batch sendable; `NEVER` while it waits for an answer or an identity."""
        if len(self.in_flight) >= self._window:
            return NEVER
        waits_until = max(self.retry_at, self.slowed_until)
        if now < waits_until:
            return waits_until if self.resend or self.closed or self.open is not None else NEVER
        if not self.resend and not self.closed and self.open is not None and now < self.open.linger_until:
            return self.open.linger_until
        return NEVER

    def slow_down(self, now: float, wait_ms: float) -> float:
        """Its leader's queue is long: nothing leaves for so long, and what comes meanwhile fills its batches. 0 = the
        queue is not long any more. Returns by how much it is slowed for longer in all."""
        if not wait_ms and not self.slow_down_ms:
            return 0.0
        longer = wait_ms - self.slowed_for_ms(now)
        self.slowed_ms += longer
        self.slowed_until = now + wait_ms
        self.slow_down_ms = wait_ms
        return longer

    def believed_ms(self, wait_ms: float, now: float, chance: float, timeout_ms: float) -> float:
        """For how long it is slowed when its broker asks for `wait_ms`. All waits of the batch that leaves next take
        half of its time at most; from then on it leaves at once.
        """
        left_ms = max(1.0, self.first_deadline - now - timeout_ms / 2)
        wait_ms *= 1 + chance * SLOW_DOWN_JITTER
        return min(wait_ms, SLOW_DOWN_MS_MAX, timeout_ms / SLOW_DOWN_SHARE, left_ms)

    @property
    def first_deadline(self) -> float:
        """Of the batch that leaves next; `NEVER` where none waits."""
        if self.resend:
            return self.resend[0].deadline
        if self.closed:
            return self.closed[0].deadline
        return NEVER if self.open is None else self.open.deadline

    def slowed_for_ms(self, now: float) -> float:
        """So long nothing leaves from now on."""
        return max(0.0, self.slowed_until - now)

    def sent(self, batch: ProducerBatch) -> None:
        """`sendable` gave this batch and it goes out now; a batch without a number gets one."""
        if self.resend and self.resend[0] is batch:
            self.resend.popleft()
        else:
            invariant(self.closed[0] is batch, "a batch is sent in the order of its partition")
            self.closed.popleft()
            if self._numbered:
                batch.identity, batch.base_sequence = self.identity, self._next_sequence
                self._next_sequence = (self._next_sequence + batch.count) % _SEQUENCES
        batch.attempts += 1
        self.in_flight.append(batch)

    def _may_number(self, identity: Identity | None) -> bool:
        """Whether a batch may get its number now; adopts a newer identity where nothing depends on the old
        one.
        """
        if not self._numbered:
            return True
        if identity is None:
            return False
        idle = not self.in_flight and not self.resend
        if self.gap is not Gap.NONE:
            if not idle or (self.needs_epoch and identity == self.identity):
                return False
            if not self.needs_epoch:
                self._next_sequence = self._rewind_to
            self.gap = Gap.NONE
            self.needs_epoch = False
        if self.identity != identity and idle:
            self.identity = identity
            self._next_sequence = 0
        return True

    # ---- outcomes ---------------------------------------------------------------------------------------------

    def applied(self, batch: ProducerBatch) -> None:
        """The broker holds it."""
        self.in_flight.remove(batch)
        self.failures = 0
        self.blocked_by = None

    def postponed(
        self, batch: ProducerBatch, error: PenstockError, retry_at: float, attempts_max: int | None
    ) -> list[Failure]:
        """Refused, or appended with unknown outcome, in a way that sending it again may cure."""
        self.in_flight.remove(batch)
        batch.failure = self.blocked_by = error
        self.failures += 1
        self.retry_at = max(self.retry_at, retry_at)
        if attempts_max is not None and batch.attempts >= attempts_max:
            return self._fail(batch, unknown_because(self.label, error) if batch.tainted else error)
        self._resend_or_unnumber(batch)
        return []

    def lost(self, batch: ProducerBatch, cause: PenstockError, attempts_max: int | None) -> list[Failure]:
        """The attempt will not be answered: its stream is gone or its broker leads no more."""
        self.in_flight.remove(batch)
        batch.tainted = True
        batch.failure = self.blocked_by = cause
        if attempts_max is not None and batch.attempts >= attempts_max:
            return self._fail(
                batch,
                OutcomeUnknown(
                    f"{self.label}: no answer to attempt {batch.attempts}, the last allowed; {cause.message}"
                ),
            )
        self._resend_or_unnumber(batch)
        return []

    def refused(self, batch: ProducerBatch, error: PenstockError) -> list[Failure]:
        """Refused for good."""
        self.in_flight.remove(batch)
        return self._fail(batch, unknown_because(self.label, error) if batch.tainted else error)

    def out_of_order(self, batch: ProducerBatch, error: PenstockError, retry_at: float) -> list[Failure]:
        """The broker expects another sequence: because of a batch before this one, or because its state is
        not ours.
        """
        self.in_flight.remove(batch)
        batch.failure = error
        if any(other.order < batch.order for other in self.in_flight) or any(
            other.order < batch.order for other in self.resend
        ):
            batch.attempts -= 1
            self.retry_at = max(self.retry_at, retry_at)
            self._resend_or_unnumber(batch)
            return []
        if self.gap is Gap.NONE:
            if self._tolerant and not batch.tainted:
                self._open_gap(batch, unknown=False)
                self.needs_epoch = True
                self._unnumber(batch)
                return []
            failures = self._fail(batch, unknown_because(self.label, error) if batch.tainted else error)
            self.needs_epoch = True
            return failures
        if self.gap is Gap.UNKNOWN and batch.tainted:
            return self._fail(batch, unknown_because(self.label, error))
        self._unnumber(batch)
        return []

    def producer_unknown(self, batch: ProducerBatch, error: PenstockError) -> list[Failure]:
        """The broker forgot this producer (RL63): a batch with every attempt refused goes on under a newer
        epoch.
        """
        self.in_flight.remove(batch)
        batch.failure = error
        if batch.tainted:
            failures = self._fail(batch, unknown_because(self.label, error))
            self.needs_epoch = True
            return failures
        if self.gap is Gap.NONE or batch.order < self._gap_order:
            self._open_gap(batch, unknown=False)
        self.needs_epoch = True
        self._unnumber(batch)
        return []

    def expired(self, batch: ProducerBatch, timeout_ms: float) -> list[Failure]:
        """The delivery timeout of a batch that is not done has passed, wherever it stands."""
        in_flight = batch in self.in_flight
        last = f"; last refusal: {batch.failure.message}" if batch.failure is not None else ""
        if in_flight or batch.tainted:
            self._take_out(batch)
            return self._fail(
                batch,
                DeliveryTimeout(
                    f"{self.label}: no final answer within delivery_timeout_ms={timeout_ms:g},"
                    f" {batch.attempts} attempts{last}; the batch may or may not be in the topic"
                ),
                unanswered=True,
            )
        self._take_out(batch)
        return self._fail(batch, self._never_sent(batch, timeout_ms))

    def _never_sent(self, batch: ProducerBatch, timeout_ms: float) -> PenstockError:
        """A batch fails with what kept it back, also where a batch before it met that."""
        gave_up = f"gave up after delivery_timeout_ms={timeout_ms:g}"
        if self.slow_down_ms:
            gave_up += "; its broker asks to slow down"
        if batch.failure is not None:
            return type(batch.failure)(f"{batch.failure.message} ({gave_up})")
        cause = self.blocked_by
        if cause is not None and cause.belief is Belief.NOT_APPLIED and cause.code not in LEADERSHIP_CODES:
            return type(cause)(f"{self.label}: waited behind a refused batch; {cause.message} ({gave_up})")
        where = "has no leader" if self.leader == NO_LEADER else "could not be sent to its leader"
        if self.slow_down_ms:
            where = "waited because its broker asks to slow down, and was not sent"
        why = "" if cause is None else f" ({cause.message})"
        return TimedOut(
            f"{self.label}: {where} within delivery_timeout_ms={timeout_ms:g}{why}; nothing was applied"
        )

    def abandon(self, error: PenstockError) -> list[Failure]:
        """Fail everything: the topic is gone, the key is refused, or the producer closes without waiting."""
        if self.blocked_by is not None and error.code is ErrorCode.CLOSED:
            error = type(error)(f"{error.message}; {blocked_text(self.blocked_by)}")
        failures: list[Failure] = []
        sent = sorted([*self.in_flight, *self.resend], key=lambda batch: batch.order)
        flying = list(self.in_flight)
        self.close_open()
        for batch in [*sent, *self.closed]:
            unanswered = batch in flying
            self._take_out(batch)
            failures += self._fail(
                batch,
                OutcomeUnknown(f"{self.label}: sent and not answered; {error.message}")
                if unanswered or batch.tainted
                else error,
                unanswered=unanswered,
            )
        return failures

    # ---- order and numbers ------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing waits here and nothing is under way."""
        return self.open is None and not self.closed and not self.resend and not self.in_flight

    @property
    def wants_epoch(self) -> bool:
        """It cannot go on without an epoch newer than `identity`."""
        return self.needs_epoch and self.gap is not Gap.NONE

    def _take_out(self, batch: ProducerBatch) -> None:
        if self.open is batch:
            self.close_open()
            self.closed.pop()
        elif batch in self.in_flight:
            self.in_flight.remove(batch)
        elif batch in self.resend:
            self.resend.remove(batch)
        else:
            self.closed.remove(batch)

    def _fail(self, batch: ProducerBatch, error: PenstockError, *, unanswered: bool = False) -> list[Failure]:
        if batch.numbered:
            self._open_gap(batch, unknown=unanswered or batch.tainted)
        return [(batch, error)]

    def _open_gap(self, batch: ProducerBatch, *, unknown: bool) -> None:
        if self.gap is Gap.NONE or batch.order < self._gap_order:
            self._gap_order = batch.order
            self._rewind_to = batch.base_sequence
        if unknown:
            self.gap = Gap.UNKNOWN
            self.needs_epoch = True
        elif self.gap is Gap.NONE:
            self.gap = Gap.ABSENT
        behind, self.resend = self.resend, deque()
        for other in behind:
            self._resend_or_unnumber(other)

    def _resend_or_unnumber(self, batch: ProducerBatch) -> None:
        """Where a batch goes that was sent and has no outcome yet."""
        behind_gap = self.gap is not Gap.NONE and batch.order > self._gap_order
        if batch.numbered and behind_gap and not (self.gap is Gap.UNKNOWN and batch.tainted):
            self._unnumber(batch)
        else:
            _insert(self.resend, batch)

    def _unnumber(self, batch: ProducerBatch) -> None:
        """Every attempt was refused, or stood behind one that was: it is not in the log and begins again."""
        if batch.tainted:
            self.needs_epoch = True
        batch.tainted = False
        batch.identity, batch.base_sequence = None, -1
        _insert(self.closed, batch)


def _insert(batches: deque[ProducerBatch], batch: ProducerBatch) -> None:
    """Keep send order; only the few batches that came back stand before it."""
    index = 0
    for other in batches:
        if other.order > batch.order:
            break
        index += 1
    batches.insert(index, batch)
