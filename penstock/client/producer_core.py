"""What one producer decides: where a message goes, when its batch leaves, and what an answer or a silence
means.

Promises kept here: order within a partition (RL58), one identity per attempt (RL58), three outcomes (RL17),
a newer epoch after an unknown outcome before anything more is sent to that partition (RL59), and every
error class acted upon (RL60).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.client.backoff import Backoff
from penstock.client.cluster_view import NO_LEADER, TopicView
from penstock.client.lane import Lane, LaneState, Outgoing
from penstock.client.partition_queue import NEVER, Failure, PartitionQueue
from penstock.client.pending_batch import Identity, PendingBatch, PendingDelivery
from penstock.client.refusals import LEADERSHIP_CODES, final, refusal
from penstock.client.settings import ProducerSettings
from penstock.contract import errors, limits, methods
from penstock.contract.errors import ErrorCode, ErrorKind, PenstockError
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.topic_settings import TimestampType
from penstock.contract.v1 import log_pb2
from penstock.records.batch import Compression
from penstock.records.build import BatchBuilder
from penstock.rules.partitioner import partition_of

if TYPE_CHECKING:
    from penstock.client.core import ClientCore

OPEN_TIMEOUT_MS = 3_000
"""A stream that grants no credit in this time is given up; the next attempt may go elsewhere."""
STALL_MS = 15_000
"""A stream that owes answers and says nothing for this long is given up, whatever the metadata says."""
_MANY = 1_024
"""Messages that `append_many` takes under one hold of the lock."""
RECORD_OVERHEAD_BYTES = 21
"""What a record takes beside key, value and headers at most, for all that is usual."""
_KEYS_REMEMBERED_MAX = 16_384

_Delivery = TypeVar("_Delivery", bound=PendingDelivery)
_Made = TypeVar("_Made", bound=PendingDelivery, covariant=True)
Headers = Sequence[tuple[str, bytes]]


class _DeliveryType(Protocol[_Made]):
    def __call__(self, batch: PendingBatch, index: int, timestamp_ms: int, /) -> _Made: ...


class Route:
    """How messages of one topic reach their partitions."""

    __slots__ = ("_keys", "max_batch_bytes", "max_message_bytes", "name", "queues", "sticky", "topic_id")

    def __init__(self, name: str, topic_id: bytes, sticky: int) -> None:
        self.name, self.topic_id = name, topic_id
        self.queues: list[PartitionQueue] = []
        self.sticky = sticky
        """Partition that messages without a key go to until its batch is full."""
        self.max_message_bytes = limits.MESSAGE_BYTES_MAX_DEFAULT
        self.max_batch_bytes = limits.BATCH_BYTES_MAX_DEFAULT
        self._keys: dict[bytes, PartitionQueue] = {}

    def queue_of_key(self, key: bytes) -> PartitionQueue:
        """By murmur2 modulo the partition count, as other clients do."""
        queue = self._keys.get(key)
        if queue is None:
            if len(self._keys) >= _KEYS_REMEMBERED_MAX:
                self._keys.clear()
            queue = self.queues[partition_of(key, len(self.queues))]
            self._keys[key] = queue
        return queue

    def keys_moved(self) -> None:
        """The partition count changed."""
        self._keys.clear()

    def turn_sticky(self) -> PartitionQueue:
        """Go on to the next partition that has a leader, if any has."""
        count = len(self.queues)
        for step in range(1, count + 1):
            place = (self.sticky + step) % count
            if self.queues[place].leader != NO_LEADER:
                break
        else:
            place = (self.sticky + 1) % count
        self.sticky = place
        return self.queues[place]


class ProducerCore:
    """State machine of one producer. All methods are called under the client's lock, except
    `Outgoing.encode`.

    Batches whose outcome is known are gathered in the core's `completed`.
    """

    def __init__(self, core: ClientCore, settings: ProducerSettings, random: Random) -> None:
        self.settings = settings
        self._core, self._random = core, random
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, random)
        self._reopen = Backoff(50, 1_000, random)
        self._in_flight_max = settings.in_flight_max
        self._buffer_bytes, self._batch_messages = settings.buffer_bytes, settings.batch_messages
        self._hook = settings.partitioner
        self._compression = Compression[settings.compression.upper()]
        self.routes: dict[str, Route] = {}
        self.lanes: dict[int, Lane] = {}
        self.identity: Identity | None = None
        self._identity_asked = False
        self._epoch_wanted = False
        self._identity_failures = 0
        self._identity_retry_at = 0.0
        self.buffered_bytes = 0
        self._expiry: deque[PendingBatch] = deque()
        self.failed_messages = 0
        self.dropped_messages = 0
        self.closed = False

    # ---- filling ----------------------------------------------------------------------------------------------

    def route(self, topic: str) -> Route | None:
        """The topic's route, or None while it is not known yet (the core then asks). Raises what the
        brokers said of it.
        """
        route = self.routes.get(topic)
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

    def append(
        self,
        route: Route,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        partition: int | None,
        now: Callable[[], float],
        delivery: _DeliveryType[_Delivery],
    ) -> _Delivery | None:
        """Put one message into a batch; None = the buffer is full. `now` is only asked when a batch begins.

        Raises `MessageTooLarge`, `NotFound` (no such partition), `InvalidRequest`.
        """
        size = 0
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += sum([len(name) + len(data or b"") for name, data in headers])
        if size > route.max_message_bytes:
            raise errors.MessageTooLarge(
                f"{route.name}: message of {size} bytes, at most {route.max_message_bytes} allowed (max_message_bytes)"
            )
        if self.buffered_bytes + size > self._buffer_bytes and (
            self.buffered_bytes or size > self._buffer_bytes
        ):
            self._make_room(size, route)
            return None
        free = partition is None and key is None and self._hook is None
        if free:
            queue = route.queues[route.sticky]
        else:
            queue = self._choose(route, key, value, partition)
        batch = queue.open
        if batch is None:
            batch = self._begin(route, queue, size, now())
        taken = batch.builder.append(timestamp_ms, key, value, headers)  # type: ignore[union-attr]
        if not taken:
            self._seal(queue)
            if free:
                queue = route.turn_sticky()
            batch = queue.open or self._begin(route, queue, size, now())
            taken = batch.builder.append(timestamp_ms, key, value, headers)  # type: ignore[union-attr]
            if not taken:
                self._seal(queue)
                batch = self._begin(route, queue, size, now())
                taken = batch.builder.append(timestamp_ms, key, value, headers)  # type: ignore[union-attr]
        index = batch.count
        batch.count = index + 1
        batch.raw_bytes += taken
        self.buffered_bytes += taken
        if index + 1 >= self._batch_messages:
            self._seal(queue)
            if free:
                route.turn_sticky()
        return delivery(batch, index, timestamp_ms)

    def append_many(
        self,
        route: Route,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        start: int,
        headers: Headers | None,
        timestamp_ms: int,
        partition: int | None,
        now: Callable[[], float],
        delivery: _DeliveryType[_Delivery],
    ) -> list[_Delivery]:
        """Put some messages of `values[start:]` into batches, as many as one turn may take; none = the
        buffer is full.

        Raises as `append` does.
        """
        if keys is None and not headers and self._hook is None:
            chunk = values[start : start + _MANY]
            lengths = [len(value) for value in chunk if value is not None]
            longest = max(lengths, default=0)
            total = sum(lengths) + RECORD_OVERHEAD_BYTES * len(chunk)
            if longest <= route.max_message_bytes and self.buffered_bytes + total <= self._buffer_bytes:
                queue = (
                    route.queues[route.sticky]
                    if partition is None
                    else self._choose(route, None, None, partition)
                )
                return self._append_run(route, queue, chunk, longest, timestamp_ms, now, delivery)
        taken: list[_Delivery] = []
        for place in range(start, min(start + _MANY, len(values))):
            key = None if keys is None else keys[place]
            one = self.append(route, values[place], key, headers, timestamp_ms, partition, now, delivery)
            if one is None:
                break
            taken.append(one)
        return taken

    def _append_run(
        self,
        route: Route,
        queue: PartitionQueue,
        values: Sequence[bytes | None],
        longest: int,
        timestamp_ms: int,
        now: Callable[[], float],
        delivery: _DeliveryType[_Delivery],
    ) -> list[_Delivery]:
        """As many as fit into the batch that is open, or else into a new one."""
        free = queue is route.queues[route.sticky]
        while True:
            batch = queue.open
            began = batch is None
            if batch is None:
                batch = self._begin(route, queue, longest, now())
            builder = batch.builder
            assert builder is not None
            first, size = batch.count, builder.size
            room = self._batch_messages - first
            try:
                builder.append_many(timestamp_ms, values if room >= len(values) else values[:room])
            finally:
                added = builder.size - size
                batch.count = builder.count
                batch.raw_bytes += added
                self.buffered_bytes += added
            full = batch.count - first < len(values)
            if full or batch.count >= self._batch_messages:
                self._seal(queue)
                if free:
                    queue = route.turn_sticky()
            if batch.count > first or began:
                return [delivery(batch, index, timestamp_ms) for index in range(first, batch.count)]

    def turned_away(self, route: Route, timestamp_ms: int, delivery: _DeliveryType[_Delivery]) -> _Delivery:
        """A message for which there is no room and that may not wait: refused, or dropped and counted."""
        if self.settings.on_full == "fail":
            raise self.buffer_full()
        self.dropped_messages += 1
        batch = PendingBatch(route.queues[route.sticky], BatchBuilder(), 0, 0.0, 0.0)
        batch.finish(self.buffer_full())
        return delivery(batch, 0, timestamp_ms)

    def _make_room(self, size: int, route: Route) -> None:
        """Whatever lingers leaves now. Raises `BufferFull` for a message that can never fit."""
        if size > self.settings.buffer_bytes:
            raise errors.BufferFull(
                f"{route.name}: message of {size} bytes, buffer_bytes is {self.settings.buffer_bytes}; raise it"
            )
        for topic in self.routes.values():
            for queue in topic.queues:
                if queue.open is not None:
                    self._seal(queue)

    def buffer_full(self) -> errors.BufferFull:
        """What a send that may not wait (longer) raises."""
        return errors.BufferFull(
            f"producer: {self.buffered_bytes} of buffer_bytes={self.settings.buffer_bytes} wait for their outcome"
        )

    def _choose(
        self, route: Route, key: bytes | None, value: bytes | None, partition: int | None
    ) -> PartitionQueue:
        if partition is None:
            if self._hook is None:
                assert key is not None
                return route.queue_of_key(key)
            partition = self._hook(route.name, key, value, len(route.queues))
        if not 0 <= partition < len(route.queues):
            raise errors.NotFound(
                f"{route.name}: no partition {partition}; it has {len(route.queues)}, 0 to {len(route.queues) - 1}"
            )
        return route.queues[partition]

    def _begin(self, route: Route, queue: PartitionQueue, size: int, now: float) -> PendingBatch:
        settings = self.settings
        bytes_max = min(
            max(settings.batch_bytes, size + limits.KIB), max(route.max_batch_bytes, size + limits.KIB)
        )
        batch = PendingBatch(
            queue,
            BatchBuilder(self._compression, bytes_max),
            queue.take_order(),
            now + settings.linger_ms,
            now + settings.delivery_timeout_ms,
        )
        queue.open = batch
        self._expiry.append(batch)
        self._core.attend_at(batch.deadline)
        lane = queue.lane
        if lane is not None:
            lane.look_at(queue, batch.linger_until)
            if lane.state is LaneState.OPEN:
                self._core.wake_writer(lane.token, batch.linger_until)
            elif lane.state is LaneState.CLOSED:
                self._core.attend()
        return batch

    def _seal(self, queue: PartitionQueue) -> None:
        queue.close_open()
        self._offer(queue)

    def seal_all(self) -> list[PendingBatch]:
        """Close every open batch (flush); returns all batches without an outcome."""
        for route in self.routes.values():
            for queue in route.queues:
                if queue.open is not None:
                    self._seal(queue)
        return self.pending()

    def pending(self) -> list[PendingBatch]:
        """All batches without an outcome, in the order they were begun."""
        return [batch for batch in self._expiry if not batch.done]

    # ---- routes and leaders -------------------------------------------------------------------------------------

    def topic_changed(self, view: TopicView, now: float) -> None:
        """The view of a topic that this producer uses moved."""
        route = self.routes.get(view.name)
        if route is None:
            return
        if view.error is not None or view.topic_id != route.topic_id:
            del self.routes[view.name]
            error = view.error or errors.NotFound(
                f"{view.name}: was deleted and created anew; this message was for the old topic"
            )
            for queue in route.queues:
                queue.lane = None
                self._fail(queue.abandon(error))
            if view.error is not None:
                self._core.forget_topic(view.name, self)
            return
        self._update_route(route, view, now)

    def _make_route(self, view: TopicView) -> Route | None:
        if not view.partitions:
            return None
        route = Route(view.name, view.topic_id, self._random.randrange(len(view.partitions)))
        self.routes[view.name] = route
        self._update_route(route, view, 0.0)
        if self.settings.numbered and self.identity is None:
            self._want_epoch()
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
        former = queue.lane
        queue.leader, queue.leader_epoch = leader, leader_epoch
        lane = self._lane(leader) if leader != NO_LEADER else None
        if former is lane:
            if lane is not None:
                self._offer(queue)
            return
        queue.lane = lane
        if former is not None:
            cause = errors.NotLeader(
                f"{queue.label}: leadership moved to epoch {leader_epoch} before an answer came"
            )
            for batch in list(queue.in_flight):
                former.unanswered.pop(batch.id, None)
                self._fail(queue.lost(batch, cause, self.settings.max_attempts))
        queue.retry_at = now
        queue.listed = False
        if lane is not None:
            self._offer(queue)

    def _lane(self, broker: int) -> Lane:
        lane = self.lanes.get(broker)
        if lane is None:
            lane = self.lanes[broker] = Lane(broker)
        return lane

    def _offer(self, queue: PartitionQueue) -> None:
        """The queue may have something to send: let its lane look."""
        lane = queue.lane
        if lane is None or queue.idle:
            return
        lane.enlist(queue)
        if lane.state is LaneState.OPEN:
            self._core.wake_writer(lane.token)
        elif lane.state is LaneState.CLOSED:
            self._core.attend()

    # ---- driving ----------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        """Do what the clock demands: expire batches, open and give up streams, ask for an identity."""
        self._expire(now)
        for lane in self.lanes.values():
            if lane.state is LaneState.CLOSED:
                if lane.has_work() and lane.retry_at <= now:
                    self._open(lane, now)
            elif lane.state is LaneState.OPENING and now - lane.since >= OPEN_TIMEOUT_MS:
                self._give_up(lane, f"no opening credit within {OPEN_TIMEOUT_MS} ms", now)
            elif lane.unanswered and now - max(lane.last_heard, lane.sent_at) >= STALL_MS:
                self._give_up(lane, f"answers owed and silent for {STALL_MS} ms", now)
            elif lane.broker not in self._core.view.brokers and not lane.has_work():
                self._core.close_stream(lane.token)
                lane.state, lane.failures = LaneState.CLOSED, 0
        self._ask_identity(now)

    def next_step_at(self) -> float:
        at = NEVER
        while self._expiry and self._expiry[0].done:
            self._expiry.popleft()
        if self._expiry:
            at = self._expiry[0].deadline
        for lane in self.lanes.values():
            if lane.state is LaneState.CLOSED:
                if lane.has_work():
                    at = min(at, lane.retry_at)
            elif lane.state is LaneState.OPENING:
                at = min(at, lane.since + OPEN_TIMEOUT_MS)
            elif lane.unanswered:
                at = min(at, max(lane.last_heard, lane.sent_at) + STALL_MS)
        if self._epoch_wanted and not self._identity_asked:
            at = min(at, self._identity_retry_at)
        return at

    def _expire(self, now: float) -> None:
        expiry = self._expiry
        while expiry and (expiry[0].done or expiry[0].deadline <= now):
            batch = expiry.popleft()
            if batch.done:
                continue
            queue = batch.queue
            if batch in queue.in_flight and queue.lane is not None:
                queue.lane.unanswered.pop(batch.id, None)
            self._fail(queue.expired(batch, self.settings.delivery_timeout_ms))
            self._settle(queue)

    def _open(self, lane: Lane, now: float) -> None:
        address = self._core.view.address_of(lane.broker)
        if address is None:
            lane.retry_at = now + self._reopen.delay_ms(3)
            self._core.refresh(now)
            return
        lane.opening(self._core.open_stream(self, address, methods.PRODUCE), now)

    def _give_up(self, lane: Lane, reason: str, now: float) -> None:
        self._core.close_stream(lane.token)
        self.stream_lost(lane.token, None, reason, now)

    def _lane_of(self, token: int) -> Lane | None:
        for lane in self.lanes.values():
            if lane.token == token and lane.state is not LaneState.CLOSED:
                return lane
        return None

    def next_outgoing(self, token: int, now: float) -> tuple[Outgoing | None, float]:
        """The next frame's batches for a stream, or None and when the clock alone may bring one.

        The runtime encodes it outside the lock, calls `encoded`, and sends `frame`.
        """
        lane = self._lane_of(token)
        if lane is None:
            return None, NEVER
        if self.settings.numbered and self.identity is None:
            self._want_epoch()
        return lane.select(self, now, self.identity, self.settings.acks)

    def encoded(self, token: int, outgoing: Outgoing) -> None:
        """Give back the credit that was reserved too much, and keep the bytes for further attempts."""
        lane = self._lane_of(token)
        reserved = sum(ticket.reserved for ticket in outgoing.tickets)
        if lane is not None:
            lane.credit += reserved - outgoing.payload_bytes
        silent = self.settings.acks == 0
        for ticket in outgoing.tickets:
            batch = ticket.batch
            batch.encoding = False
            if batch.done:
                continue
            batch.encoded, batch.encoded_as = ticket.encoded, (ticket.identity, ticket.base_sequence)
            batch.builder = None
            queue = batch.queue
            if silent and batch in queue.in_flight:
                if lane is not None:
                    lane.unanswered.pop(batch.id, None)
                queue.applied(batch)
                self._complete(batch, None)
            if batch not in queue.in_flight:
                self._offer(queue)

    # ---- what brokers say ---------------------------------------------------------------------------------------

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """Credit and results. Raises `FrameError` for what is no answer."""
        lane = self._lane_of(token)
        if lane is None:
            return
        kind, head, _ = unpack_frame(frame)
        if kind is not FrameKind.PRODUCE_ANSWER:
            self._give_up(lane, f"frame kind {kind.name} came on a produce stream", now)
            return
        answer = log_pb2.ProduceAnswerHead.FromString(bytes(head))
        lane.last_heard = now
        if lane.state is LaneState.OPENING:
            lane.state, lane.failures = LaneState.OPEN, 0
        lane.credit += answer.credit_bytes
        for result in answer.results:
            batch = lane.unanswered.pop(result.id, None)
            if batch is not None:
                self._answered(batch, result, now)
        self._core.wake_writer(token)

    def _answered(self, batch: PendingBatch, result: log_pb2.ProduceResult, now: float) -> None:
        queue = batch.queue
        if result.error == ErrorCode.OK:
            queue.applied(batch)
            self._complete(batch, None, result.base_offset, result.accepted_ms, result.duplicate)
            self._settle(queue)
            return
        error = refusal(result.error, result.message)
        attempts_max = self.settings.max_attempts
        if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE:
            self._fail(queue.out_of_order(batch, error, now + self._backoff.delay_ms(1)))
        elif error.code is ErrorCode.UNKNOWN_PRODUCER:
            self._fail(queue.producer_unknown(batch, error))
        elif error.kind in (ErrorKind.RETRIABLE, ErrorKind.UNKNOWN_OUTCOME):
            if error.kind is ErrorKind.UNKNOWN_OUTCOME:
                batch.tainted = True
            if error.code in LEADERSHIP_CODES:
                self._core.refresh(now)
            retry_at = now + self._backoff.delay_ms(queue.failures + 1)
            self._fail(queue.postponed(batch, error, retry_at, attempts_max))
        else:
            self._fail(queue.refused(batch, error))
            if error.kind is ErrorKind.FENCED:
                queue.needs_epoch = True
                self.identity = None
        self._settle(queue)

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """A stream ended, could not be opened, or was given up. With a `code` that no retry cures, its
        batches fail.
        """
        lane = self._lane_of(token)
        if lane is None:
            return
        error = refusal(code, message)
        lane.state = LaneState.CLOSED
        lane.failures += 1
        lane.retry_at = now + self._reopen.delay_ms(lane.failures)
        unanswered, lane.unanswered = list(lane.unanswered.values()), {}
        queues = {id(batch.queue): batch.queue for batch in unanswered}
        for batch in unanswered:
            self._fail(batch.queue.lost(batch, error, self.settings.max_attempts))
        if code is not None and final(error):
            for route in self.routes.values():
                for queue in route.queues:
                    if queue.lane is lane and not queue.idle:
                        self._fail(queue.abandon(error))
        for queue in queues.values():
            self._settle(queue)
        self._core.refresh(now)
        self._core.attend()

    def _settle(self, queue: PartitionQueue) -> None:
        """After any outcome: the partition may send again, or wait for a newer epoch."""
        if queue.wants_epoch and queue.identity == self.identity:
            self._want_epoch()
        self._offer(queue)

    # ---- identity -----------------------------------------------------------------------------------------------

    def _want_epoch(self) -> None:
        if not self._epoch_wanted:
            self._epoch_wanted = True
            self._core.attend()

    def _ask_identity(self, now: float) -> None:
        if not self._epoch_wanted or self._identity_asked or now < self._identity_retry_at:
            return
        self._identity_asked = True
        known = self.identity or Identity(-1, -1)
        request = log_pb2.InitProducerRequest(
            producer_id=known.producer_id, producer_epoch=known.producer_epoch
        )
        self._core.enquire(
            methods.INIT_PRODUCER,
            request.SerializeToString(),
            deadline=now + self.settings.delivery_timeout_ms,
            on_answer=self._identity_given,
            on_failure=self._identity_refused,
        )

    def _identity_given(self, response: bytes, now: float) -> None:
        answer = log_pb2.InitProducerResponse.FromString(response)
        if answer.error:
            self._identity_refused(refusal(answer.error, answer.message), now)
            return
        self._identity_asked = self._epoch_wanted = False
        self._identity_failures = 0
        self.identity = Identity(answer.producer_id, answer.producer_epoch)
        for route in self.routes.values():
            for queue in route.queues:
                self._offer(queue)

    def _identity_refused(self, error: PenstockError, now: float) -> None:
        self._identity_asked = False
        if error.kind is ErrorKind.FENCED or error.code in (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.NOT_FOUND):
            self.identity = None
        elif final(error):
            self._epoch_wanted = False
            for route in self.routes.values():
                for queue in route.queues:
                    if queue.needs_epoch or queue.identity is None:
                        self._fail_unsent(queue, error)
            return
        self._identity_failures += 1
        self._identity_retry_at = now + self._reopen.delay_ms(self._identity_failures)
        self._core.attend()

    def _fail_unsent(self, queue: PartitionQueue, error: PenstockError) -> None:
        if not queue.in_flight and not queue.resend:
            self._fail(queue.abandon(error))

    # ---- outcomes -----------------------------------------------------------------------------------------------

    def _fail(self, failures: Iterable[Failure]) -> None:
        for batch, error in failures:
            self._complete(batch, error)

    def _complete(
        self,
        batch: PendingBatch,
        error: PenstockError | None,
        base_offset: int = -1,
        accepted_ms: int = -1,
        duplicate: bool = False,
    ) -> None:
        batch.finish(error, base_offset, accepted_ms, duplicate)
        self.buffered_bytes -= batch.raw_bytes
        if error is not None:
            self.failed_messages += batch.count
        self._core.outcome_known(batch)

    # ---- closing ------------------------------------------------------------------------------------------------

    def close(self, now: float) -> None:
        """Fail what has no outcome and end every stream."""
        self.closed = True
        error = errors.Closed("producer: closed before this message was sent")
        for route in self.routes.values():
            for queue in route.queues:
                self._fail(queue.abandon(error))
            self._core.forget_topic(route.name, self)
        self.routes.clear()
        for lane in self.lanes.values():
            if lane.state is not LaneState.CLOSED:
                self._core.close_stream(lane.token, gently=True)
                lane.state = LaneState.CLOSED
            lane.unanswered.clear()
