"""What one producer decides: where a message goes, when its batch leaves, and what an answer or a silence
means.

Promises kept here: order within a partition (RL58), one identity per attempt (RL58), three outcomes (RL17),
a newer epoch after an unknown outcome before anything more is sent to that partition (RL59), and every
error class acted upon (RL60).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Protocol

from penstock.client.cluster_view import NO_LEADER, TopicView
from penstock.client.ports import Network
from penstock.client.producing.accumulator import RecordAccumulator, Route
from penstock.client.producing.batch import Identity, ProducerBatch, ReceiptsLedger
from penstock.client.producing.identity import ProducerIdentity
from penstock.client.producing.key_reports import KeyReporter
from penstock.client.producing.partition_queue import Failure, PartitionQueue
from penstock.client.producing.produce_stream import (
    ProduceFrame,
    ProduceStream,
    ProduceStreamState,
    Unanswered,
)
from penstock.client.producing.statistics import ProducerStats, producer_stats
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.client.settings import ProducerSettings
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors, limits, methods
from penstock.contract.errors import ErrorCode, ErrorKind, PenstockError
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.topic_settings import TimestampType
from penstock.contract.v1 import log_pb2

OPEN_TIMEOUT_MS = 3_000
"""A stream that grants no credit in this time is given up; the next attempt may go elsewhere."""
STALL_MS = 15_000
"""A stream that owes answers and says nothing for this long is given up, whatever the metadata says."""


class ProducerNetwork(Network, Protocol):
    """What a producer uses of the core."""

    def outcome_known(self, batch: ProducerBatch) -> None: ...


class ProducerCore:
    """State machine of one producer. All methods are called under the client's lock, except
    `ProduceFrame.encode`.

    Batches whose outcome is known are gathered in the core's `completed`.
    """

    def __init__(
        self,
        core: ProducerNetwork,
        settings: ProducerSettings,
        random: Random,
        ledger: ReceiptsLedger | None,
    ) -> None:
        self.settings = settings
        self._ledger = ledger
        self._core = core
        self._random = random
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._reopen = Backoff(50, 1_000, random)
        self._in_flight_max = settings.in_flight_max
        self.accumulator = RecordAccumulator(settings, self)
        self._routes = self.accumulator.routes
        self.streams: dict[int, ProduceStream] = {}
        self._identity = ProducerIdentity(
            core, self, timeout_ms=settings.delivery_timeout_ms, pauses=self._reopen
        )
        self._key_reporter = KeyReporter(core, self.accumulator, random, wanted=settings.report_hot_keys)
        self._expiry: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        self.failed_messages = 0
        self.throttled_ms = self.refused_for_limits = 0
        """How long brokers delayed batches for the tenant's rate, summed over them; batches refused for a limit."""
        self.slowed_ms = 0.0
        """How long partitions were slowed, summed over all there were, with what is still to be waited."""
        self.closed = False

    # ---- adding -------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> Route | None:
        """The topic's route, or None while it is not known yet (the core then asks). Raises what the
        brokers said of it.
        """
        route = self._routes.get(topic)
        if route is not None:
            return route
        view = self._core.watch_topic(topic, self)
        if view is None:
            return None
        if view.error is not None:
            error = view.error
            self._core.forget_topic(topic, self)
            raise error
        return self._make_route(view)

    def batch_opened(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A message opened a batch: its linger and its deadline begin."""
        self._expiry.append((queue, batch))
        self._core.attend_at(batch.deadline)
        stream = self.streams.get(queue.leader)
        if stream is not None:
            stream.make_ready_at(queue, batch.linger_until)
            if stream.state is ProduceStreamState.OPEN:
                self._core.wake_writer(stream.token, batch.linger_until)
            elif stream.state is ProduceStreamState.CLOSED:
                self._core.attend()

    def close_batches(self) -> list[ProducerBatch]:
        """Close every open batch (flush); returns all batches without an outcome."""
        self.accumulator.close_batches()
        return self.pending()

    def pending(self) -> list[ProducerBatch]:
        """All batches without an outcome, in the order they were begun."""
        return [batch for _, batch in self._expiry if not batch.done]

    @property
    def identity(self) -> Identity | None:
        """Id and epoch that the brokers gave; None while they gave none."""
        return self._identity.current

    @property
    def keeps_receipts(self) -> bool:
        return self._ledger is not None

    def stats(self, now: float) -> ProducerStats:
        """What is known of it now."""
        return producer_stats(
            self.accumulator,
            now,
            failed_messages=self.failed_messages,
            throttled_ms=self.throttled_ms,
            refused_for_limits=self.refused_for_limits,
            slowed_ms=self.slowed_ms,
            key_reports_failed=self._key_reporter.failed,
        )

    def oldest(self) -> ProducerBatch | None:
        return next((batch for _, batch in self._expiry if not batch.done), None)

    # ---- routes and leaders -------------------------------------------------------------------------------------

    def topic_changed(self, view: TopicView, now: float) -> None:
        """The view of a topic that this producer uses moved."""
        route = self._routes.get(view.name)
        if route is None:
            return
        if view.error is not None or view.topic_id != route.topic_id:
            self.accumulator.forget(view.name)
            error = view.error or errors.NotFound(
                f"{view.name}: was deleted and created again; this message was for the old topic"
            )
            for queue in route.queues:
                former = self.streams.get(queue.leader)
                if former is not None:
                    for batch in queue.in_flight:
                        former.unanswered.pop(batch.id, None)
                queue.leader = NO_LEADER
                self._fail(queue.abandon(error))
                self.slowed_ms += queue.slow_down(now, 0)
            if view.error is not None:
                self._core.forget_topic(view.name, self)
            return
        self._update_route(route, view, now)

    def _make_route(self, view: TopicView) -> Route | None:
        if not view.partitions:
            return None
        route = Route(view.name, view.topic_id, self._random.randrange(len(view.partitions)))
        self._routes[view.name] = route
        self._update_route(route, view, 0.0)
        if self.settings.numbered and self.identity is None:
            self._identity.want()
        return route

    def _update_route(self, route: Route, view: TopicView, now: float) -> None:
        settings = view.settings
        route.max_message_bytes = int(settings.get("max_message_bytes", limits.MESSAGE_BYTES_MAX_DEFAULT))
        route.max_batch_bytes = int(settings.get("max_batch_bytes", limits.BATCH_BYTES_MAX_DEFAULT))
        append_time = settings.get("timestamp_type") == TimestampType.APPEND.name.lower()
        if len(route.queues) < len(view.partitions):
            route.keys_moved()
        for number, partition in enumerate(view.partitions):
            if number == len(route.queues):
                route.queues.append(
                    PartitionQueue(
                        route.name,
                        route.topic_id,
                        number,
                        window=self._in_flight_max,
                        numbered=self.settings.numbered,
                        tolerant=self.settings.acks == 1,
                    )
                )
            queue = route.queues[number]
            queue.append_time = append_time
            if (queue.leader, queue.leader_epoch) != (partition.leader, partition.leader_epoch):
                self._move(queue, partition.leader, partition.leader_epoch, now)

    def _move(self, queue: PartitionQueue, leader: int, leader_epoch: int, now: float) -> None:
        """Follow a new leader at once: what the old one has not answered is sent again, under the same
        numbers.
        """
        former = self.streams.get(queue.leader)
        queue.blocked_by = None
        queue.leader, queue.leader_epoch = leader, leader_epoch
        stream = self._stream_to(leader) if leader != NO_LEADER else None
        queue.retry_at, queue.failures = now, 0
        self.slowed_ms += queue.slow_down(now, 0)
        if former is stream:
            if stream is not None:
                self.offer(queue)
            return
        if former is not None:
            cause = errors.NotLeader(
                f"{queue.label}: leadership moved to epoch {leader_epoch} before an answer came"
            )
            for batch in list(queue.in_flight):
                former.unanswered.pop(batch.id, None)
                self._fail(queue.lost(batch, cause, self.settings.max_attempts))
        queue.listed = False
        if stream is not None:
            self.offer(queue)

    def _stream_to(self, broker: int) -> ProduceStream:
        stream = self.streams.get(broker)
        if stream is None:
            stream = self.streams[broker] = ProduceStream(broker)
        return stream

    def offer(self, queue: PartitionQueue) -> None:
        """The queue may have something to send: its stream looks for a frame."""
        stream = self.streams.get(queue.leader)
        if stream is None or queue.idle:
            return
        stream.make_ready(queue)
        if stream.state is ProduceStreamState.OPEN:
            self._core.wake_writer(stream.token)
        elif stream.state is ProduceStreamState.CLOSED:
            self._core.attend()

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        """Do what the clock demands: expire batches, open and give up streams, ask for an identity."""
        self._expire(now)
        for stream in self.streams.values():
            if stream.state is ProduceStreamState.CLOSED:
                if stream.has_work() and stream.retry_at <= now:
                    self._open(stream, now)
            elif stream.state is ProduceStreamState.OPENING and now - stream.since >= OPEN_TIMEOUT_MS:
                self._give_up(stream, f"no opening credit within {OPEN_TIMEOUT_MS} ms", now)
            elif stream.unanswered and now - max(stream.last_heard, stream.sent_at) >= STALL_MS:
                self._give_up(stream, f"answers owed and silent for {STALL_MS} ms", now)
            elif stream.broker not in self._core.view.brokers and not stream.has_work():
                self._core.close_stream(stream.token)
                stream.state, stream.failures = ProduceStreamState.CLOSED, 0
        self._identity.ask(now)
        self._key_reporter.step(now)

    def next_step_at(self) -> float:
        at = NEVER
        if self._expiry:
            at = self._expiry[0][1].deadline
        for stream in self.streams.values():
            if stream.state is ProduceStreamState.CLOSED:
                if stream.has_work():
                    at = min(at, stream.retry_at)
            elif stream.state is ProduceStreamState.OPENING:
                at = min(at, stream.since + OPEN_TIMEOUT_MS)
            elif stream.unanswered:
                at = min(at, max(stream.last_heard, stream.sent_at) + STALL_MS)
        return min(at, self._identity.next_ask_at(), self._key_reporter.next_step_at())

    def _expire(self, now: float) -> None:
        expiry = self._expiry
        while expiry and (expiry[0][1].done or expiry[0][1].deadline <= now):
            queue, batch = expiry.popleft()
            if batch.done:
                continue
            stream = self.streams.get(queue.leader)
            if batch in queue.in_flight and stream is not None:
                stream.unanswered.pop(batch.id, None)
            if queue.blocked_by is None and stream is not None and stream.credit < batch.wire_bytes_max:
                queue.blocked_by = stream.throttled
            self._fail(queue.expired(batch, self.settings.delivery_timeout_ms))
            self._after_outcome(queue)

    def _open(self, stream: ProduceStream, now: float) -> None:
        address = self._core.view.address_of(stream.broker)
        if address is None:
            stream.retry_at = now + self._reopen.delay_ms(3)
            self._core.refresh(now)
            return
        stream.opening(self._core.open_stream(self, address, methods.PRODUCE), now)

    def _give_up(self, stream: ProduceStream, reason: str, now: float) -> None:
        self._core.close_stream(stream.token)
        self.stream_lost(stream.token, None, reason, now)

    def _stream_of(self, token: int) -> ProduceStream | None:
        for stream in self.streams.values():
            if stream.token == token and stream.state is not ProduceStreamState.CLOSED:
                return stream
        return None

    def next_outgoing(self, token: int, now: float) -> tuple[ProduceFrame | None, float]:
        """The next frame's batches for a stream, or None and when the clock alone may bring one.

        The runtime encodes it outside the lock, calls `encoded`, and sends `frame`.
        """
        stream = self._stream_of(token)
        if stream is None:
            return None, NEVER
        if self.settings.numbered and self.identity is None:
            self._identity.want()
        outgoing, at = stream.next_frame(self, now, self.identity, self.settings.acks)
        if outgoing is not None:
            self._core.attend_at(now + STALL_MS)
        return outgoing, at

    def encoded(self, token: int, outgoing: ProduceFrame) -> None:
        """Give back the credit that was reserved too much, and keep the bytes for further attempts."""
        stream = self._stream_of(token)
        reserved = sum(entry.reserved for entry in outgoing.encodings)
        if stream is not None:
            stream.credit += reserved - outgoing.payload_bytes
        silent = self.settings.acks == 0
        for entry in outgoing.encodings:
            batch = entry.batch
            batch.encoding = False
            if batch.done:
                continue
            batch.encoded, batch.encoded_as = entry.encoded, (entry.identity, entry.base_sequence)
            batch.builder = None
            queue = entry.queue
            if silent and batch in queue.in_flight:
                if stream is not None:
                    stream.unanswered.pop(batch.id, None)
                queue.applied(batch)
                self._complete(batch, None)
            if batch not in queue.in_flight:
                self.offer(queue)

    # ---- what brokers say ---------------------------------------------------------------------------------------

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """Credit and results. Raises `FrameError` for what is no answer."""
        stream = self._stream_of(token)
        if stream is None:
            return
        kind, head, _ = unpack_frame(frame)
        if kind is not FrameKind.PRODUCE_ANSWER:
            self._give_up(stream, f"frame kind {kind.name} came on a produce stream", now)
            return
        answer = log_pb2.ProduceAnswerHead.FromString(bytes(head))
        stream.last_heard = now
        if stream.state is ProduceStreamState.OPENING:
            stream.state, stream.failures = ProduceStreamState.OPEN, 0
        stream.credit += answer.credit_bytes
        for result in answer.results:
            unanswered = stream.unanswered.pop(result.id, None)
            if unanswered is not None:
                self._result_received(stream, unanswered, result, now)
        self._core.wake_writer(token)

    def _result_received(
        self, stream: ProduceStream, unanswered: Unanswered, result: log_pb2.ProduceResult, now: float
    ) -> None:
        queue, batch = unanswered
        slow_down_ms = result.slow_down_ms
        # Only a leader that took the batch now has looked at its queue: a refusal or a duplicate says nothing of it.
        looked = result.error == ErrorCode.OK and not result.duplicate
        if slow_down_ms or (looked and queue.slow_down_ms):
            self._slow_down(queue, slow_down_ms, now)
        queue.throttled_ms = result.throttled_ms
        queue.throttled_at = now
        if result.throttled_ms:
            batch.throttled_ms = result.throttled_ms
            self.throttled_ms += result.throttled_ms
        if result.error == ErrorCode.OK:
            queue.applied(batch)
            if self._ledger is not None and batch.encoded is not None:
                self._keep_receipt(self._ledger, unanswered, batch.encoded, result)
            self._complete(batch, None, result.base_offset, result.accepted_ms, result.duplicate)
            self._after_outcome(queue)
            return
        error = refusal(result.error, result.message)
        attempts_max = self.settings.max_attempts
        if error.code is ErrorCode.THROTTLED:
            stream.throttled = error
            self.refused_for_limits += 1
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE:
            self._fail(queue.out_of_order(batch, error, now + self._backoff.delay_ms(1)))
        elif error.code is ErrorCode.UNKNOWN_PRODUCER:
            self._fail(queue.producer_unknown(batch, error))
        elif error.kind in (ErrorKind.RETRIABLE, ErrorKind.UNKNOWN_OUTCOME) or metadata_may_be_newer(error):
            if error.kind is ErrorKind.UNKNOWN_OUTCOME:
                batch.tainted = True
            if metadata_may_be_newer(error):
                self._core.refresh(now)
            # A broker that throttles says when to come again.
            wait_ms = result.retry_after_ms or self._backoff.delay_ms(queue.failures + 1)
            retry_at = now + wait_ms
            self._fail(queue.postponed(batch, error, retry_at, attempts_max))
        else:
            self._fail(queue.refused(batch, error))
            if error.kind is ErrorKind.FENCED:
                queue.needs_epoch = True
                self._identity.forget()
        self._after_outcome(queue)

    def _slow_down(self, queue: PartitionQueue, wait_ms: float, now: float) -> None:
        """Its producers do not come back at the same moment."""
        if wait_ms:
            wait_ms = queue.believed_ms(
                wait_ms, now, self._random.random(), self.settings.delivery_timeout_ms
            )
        self.slowed_ms += self.accumulator.slow_down(queue, wait_ms, now)

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """A stream ended, could not be opened, or was given up. With a `code` that no retry cures, its
        batches fail.
        """
        stream = self._stream_of(token)
        if stream is None:
            return
        error = refusal(code, message)
        stream.state = ProduceStreamState.CLOSED
        stream.failures += 1
        stream.retry_at = now + self._reopen.delay_ms(stream.failures)
        unanswered, stream.unanswered = list(stream.unanswered.values()), {}
        queues = {id(queue): queue for queue, _ in unanswered}
        for queue, batch in unanswered:
            self._fail(queue.lost(batch, error, self.settings.max_attempts))
        for route in self._routes.values():
            for queue in route.queues:
                if queue.leader == stream.broker and not queue.idle:
                    queue.blocked_by = error
                    if code is not None and final(error):
                        self._fail(queue.abandon(error))
        for queue in queues.values():
            self._after_outcome(queue)
        self._core.refresh(now)
        self._core.attend()

    def _after_outcome(self, queue: PartitionQueue) -> None:
        """After any outcome: the partition may send again, or wait for a newer epoch."""
        if queue.wants_epoch and queue.identity == self.identity:
            self._identity.want()
        self.offer(queue)

    def outage_ended(self) -> None:
        """Brokers answer again: no stream and no new epoch waits out a pause that grew meanwhile."""
        self._identity.outage_ended()
        for stream in self.streams.values():
            stream.failures, stream.retry_at = 0, 0.0

    # ---- identity -----------------------------------------------------------------------------------------------

    def identity_given(self) -> None:
        """A first identity, or a newer epoch: every partition may go on."""
        for route in self._routes.values():
            for queue in route.queues:
                self.offer(queue)

    def identity_refused(self, error: PenstockError, *, for_good: bool) -> None:
        """Partitions that cannot go on without it say why they wait, or fail what was not sent yet."""
        for route in self._routes.values():
            for queue in route.queues:
                if not queue.needs_epoch and queue.identity is not None:
                    continue
                if for_good:
                    self._fail_unsent(queue, error)
                else:
                    queue.blocked_by = error

    def _fail_unsent(self, queue: PartitionQueue, error: PenstockError) -> None:
        if not queue.in_flight and not queue.resend:
            self._fail(queue.abandon(error))

    # ---- outcomes -----------------------------------------------------------------------------------------------

    def _keep_receipt(
        self, ledger: ReceiptsLedger, unanswered: Unanswered, sent: bytes, result: log_pb2.ProduceResult
    ) -> None:
        """A batch has one outcome, so one that the broker answers as a duplicate is entered once like any other.

        It is stored as it was sent: place and time that a broker writes into it change no length.
        """
        queue, batch = unanswered
        ledger.acknowledged(
            queue.topic,
            queue.topic_id,
            queue.partition,
            first_offset=result.base_offset,
            messages=batch.count,
            size=len(sent),
            accepted_ms=result.accepted_ms,
            leader_epoch=result.leader_epoch,
        )

    def _fail(self, failures: Iterable[Failure]) -> None:
        for batch, error in failures:
            self._complete(batch, error)

    def _complete(
        self,
        batch: ProducerBatch,
        error: PenstockError | None,
        base_offset: int = -1,
        accepted_ms: int = -1,
        duplicate: bool = False,
    ) -> None:
        batch.finish(error, base_offset, accepted_ms, duplicate)
        self.accumulator.free_bytes += batch.raw_bytes
        batch.queue.buffered_bytes -= batch.raw_bytes
        if error is not None:
            self.failed_messages += batch.count
        self._core.outcome_known(batch)
        while self._expiry and self._expiry[0][1].done:
            self._expiry.popleft()

    # ---- closing ------------------------------------------------------------------------------------------------

    def close(self, now: float) -> None:
        """Fail what has no outcome and end every stream."""
        self.closed = True
        error = errors.Closed("producer: closed before this message was sent")
        for route in self._routes.values():
            for queue in route.queues:
                self._fail(queue.abandon(error))
                self.slowed_ms += queue.slow_down(now, 0)
            self._core.forget_topic(route.name, self)
        self._routes.clear()
        self._key_reporter.close()
        for stream in self.streams.values():
            if stream.state is not ProduceStreamState.CLOSED:
                self._core.close_stream(stream.token, gently=True)
                stream.state = ProduceStreamState.CLOSED
            stream.unanswered.clear()
