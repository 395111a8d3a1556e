"""Where a message goes: routes of topics, the partition of a key, batches that fill up, and the buffer's
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.client.cluster_view import NO_LEADER
from penstock.client.messages import HeaderList
from penstock.client.producing.batch import ProducerBatch
from penstock.client.producing.delivery import BatchDelivery
from penstock.client.producing.key_sampler import KeySampler
from penstock.client.producing.partition_queue import PartitionQueue
from penstock.client.settings import ProducerSettings
from penstock.contract import errors, limits
from penstock.contract.invariant import invariant
from penstock.records.batch import Compression
from penstock.records.build import BatchBuilder
from penstock.rules.partitioner import partition_of

RECORD_OVERHEAD_BYTES = 21
"""What a record takes beside key, value and headers at most, for all that is usual."""
_MANY = 1_024
"""Messages that `append_many` takes under one hold of the lock."""
_KEYS_REMEMBERED_MAX = 16_384
_SLOWED_SHARE = 2
"""All slowed partitions together may have so small a part of the buffer, in even shares: the others go on."""
_NO_SAMPLE = 1 << 60
_THROTTLED_NEWS_MS = 10_000
"""After so long a limit that delayed a batch explains no wait of the next one."""

_Delivery = TypeVar("_Delivery", bound=BatchDelivery)
_Made = TypeVar("_Made", bound=BatchDelivery, covariant=True)


class DeliveryType(Protocol[_Made]):
    """The class of deliveries that a surface returns."""

    def __call__(self, batch: ProducerBatch, index: int, timestamp_ms: int, /) -> _Made: ...


class Sender(Protocol):
    """Sends the batches: the producer's core."""

    def batch_opened(self, queue: PartitionQueue, batch: ProducerBatch) -> None: ...

    def offer(self, queue: PartitionQueue) -> None:
        """The queue may have something to send."""

    def oldest(self) -> ProducerBatch | None:
        """The batch that has waited longest for its outcome."""


class Route:
    """How messages of one topic reach their partitions."""

    __slots__ = ("_keys", "max_batch_bytes", "max_message_bytes", "name", "queues", "sticky", "topic_id")

    def __init__(self, name: str, topic_id: bytes, sticky: int) -> None:
        self.name = name
        self.topic_id = topic_id
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

    def advance_sticky(self, now: float, has_its_share: Callable[[PartitionQueue], bool]) -> PartitionQueue:
        """Go on to the next partition that has a leader and does not wait; or waits and has less than its share, all
        that a slowed one may have of the buffer; or only has a leader; or else to the next.
        """
        count = len(self.queues)
        found = full = -1
        for step in range(1, count + 1):
            index = (self.sticky + step) % count
            queue = self.queues[index]
            if queue.leader == NO_LEADER:
                continue
            if queue.slow_down_ms and has_its_share(queue):
                if full < 0:
                    full = index
                continue
            if queue.slowed_until <= now:
                found = index
                break
            if found < 0:
                found = index
        if found < 0:
            found = full if full >= 0 else (self.sticky + 1) % count
        self.sticky = found
        return self.queues[self.sticky]


class RecordAccumulator:
    """The part of a producer's core that `send` runs through; called under the client's lock."""

    __slots__ = (
        "_batch_messages",
        "_buffer_bytes",
        "_compression",
        "_full_of",
        "_hook",
        "_sender",
        "_settings",
        "_until_sample",
        "dropped_messages",
        "free_bytes",
        "routes",
        "sampler",
        "share_bytes",
        "slowed",
    )

    def __init__(self, settings: ProducerSettings, sender: Sender) -> None:
        self._settings = settings
        self._sender = sender
        self._buffer_bytes = settings.buffer_bytes
        self._batch_messages = settings.batch_messages
        self._hook: Callable[..., object] | None = settings.partitioner
        """What it gives, and what a caller names as a partition, may be anything."""
        self._compression = Compression[settings.compression.upper()]
        self.routes: dict[str, Route] = {}
        """Topics that messages can be sent to now."""
        self.free_bytes = settings.buffer_bytes
        """What the buffer still takes, in encoded bytes."""
        self.share_bytes = -(-settings.buffer_bytes // _SLOWED_SHARE)
        """What all slowed partitions together may have of the buffer. Each may have one batch more."""
        self.dropped_messages = 0
        self.sampler = KeySampler() if settings.sample_keys else None
        """Of keys; None = it does not look at them."""
        self._until_sample = self.sampler.gap if self.sampler is not None else _NO_SAMPLE
        self.slowed: dict[PartitionQueue, None] = {}
        """Partitions that some broker asked to slow down, in the order in which it did; some may be over it."""
        self._full_of: PartitionQueue | None = None
        """The slowed partition that was not given more of the buffer when this was asked last."""

    def append(
        self,
        route: Route,
        value: bytes | None,
        key: bytes | None,
        headers: HeaderList | None,
        timestamp_ms: int,
        partition: object,
        now: Callable[[], float],
        delivery: DeliveryType[_Delivery],
    ) -> _Delivery | None:
        """Put one message into a batch; None = the buffer is full. `now` is only asked when a batch begins.

        None as well when the message's partition is slowed and has its share of the buffer.

        Raises `MessageTooLarge`, `NotFound` (no such partition), `InvalidRequest`, `TypeError`.
        """
        size = 0
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += sum([_bytes_of(name) + len(data or b"") for name, data in headers])
        if size > route.max_message_bytes:
            raise errors.MessageTooLarge(
                f"{route.name}: message of {size} bytes, at most {route.max_message_bytes} allowed"
                " (max_message_bytes)"
            )
        if size > self.free_bytes:
            self._make_space(size, route)
            return None
        free = partition is None and key is None and self._hook is None
        if free:
            queue = route.queues[route.sticky]
        else:
            queue = self._choose(route, key, value, partition)
        while True:
            batch = queue.open
            if batch is None:
                if free:
                    queue = route.advance_sticky(now(), self.has_its_share)
                if queue.slow_down_ms and self._is_full(queue):
                    return None
                batch = queue.open or self._open_batch(route, queue, size, now())
            builder: BatchBuilder = batch.builder  # type: ignore[assignment]
            index = builder.count
            try:
                taken = builder.append(timestamp_ms, key, value, headers)
            except BaseException:
                self._discard_empty(queue)
                raise
            if taken:
                break
            self.close_batch(queue)
        self.free_bytes -= taken
        if key is not None:
            until_sample = self._until_sample - 1
            self._until_sample = until_sample
            if not until_sample:
                self._sample(queue, key, now())
        if index + 1 >= self._batch_messages:
            self.close_batch(queue)
        return delivery(batch, index, timestamp_ms)

    def append_many(
        self,
        route: Route,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        start: int,
        headers: HeaderList | None,
        timestamp_ms: int,
        partition: object,
        now: Callable[[], float],
        delivery: DeliveryType[_Delivery],
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
            if longest <= route.max_message_bytes and total <= self.free_bytes:
                return self._append_run(route, chunk, longest, timestamp_ms, partition, now, delivery)
        taken: list[_Delivery] = []
        for index in range(start, min(start + _MANY, len(values))):
            key = None if keys is None else keys[index]
            one = self.append(route, values[index], key, headers, timestamp_ms, partition, now, delivery)
            if one is None:
                break
            taken.append(one)
        return taken

    def _append_run(
        self,
        route: Route,
        values: Sequence[bytes | None],
        longest: int,
        timestamp_ms: int,
        partition: object,
        now: Callable[[], float],
        delivery: DeliveryType[_Delivery],
    ) -> list[_Delivery]:
        """As many as fit into the batch that is open, or else into a new one."""
        free = partition is None
        queue = route.queues[route.sticky] if free else self._choose(route, None, None, partition)
        while True:
            batch = queue.open
            if batch is None:
                if free:
                    queue = route.advance_sticky(now(), self.has_its_share)
                if queue.slow_down_ms and self._is_full(queue):
                    return []
                batch = queue.open or self._open_batch(route, queue, longest, now())
            builder = batch.builder
            invariant(builder is not None, "a batch keeps its builder while it is open")
            assert builder is not None
            first, size = builder.count, builder.size
            count_left = self._batch_messages - first
            try:
                builder.append_many(
                    timestamp_ms, values if count_left >= len(values) else values[:count_left]
                )
            except BaseException:
                self._discard_empty(queue)
                raise
            finally:
                self.free_bytes -= builder.size - size
            count = builder.count
            if count - first < len(values) or count >= self._batch_messages:
                self.close_batch(queue)
            if count > first:
                return [delivery(batch, index, timestamp_ms) for index in range(first, count)]

    def rejected(self, route: Route, timestamp_ms: int, delivery: DeliveryType[_Delivery]) -> _Delivery:
        """A message that does not fit and may not wait: refused, or dropped and counted."""
        if self._settings.on_full == "fail":
            raise self.buffer_full()
        self.dropped_messages += 1
        batch = ProducerBatch(route.queues[route.sticky], BatchBuilder(), 0, 0.0, 0.0)
        batch.finish(self.buffer_full())
        return delivery(batch, 0, timestamp_ms)

    @property
    def buffered_bytes(self) -> int:
        """Encoded bytes of messages without an outcome."""
        return self._buffer_bytes - self.free_bytes

    def buffer_full(self) -> errors.BufferFull:
        """What a send that may not wait (longer) raises."""
        slowed = self._full_of
        if slowed is not None and slowed.slow_down_ms:
            return errors.BufferFull(
                f"producer: {slowed.buffered_bytes} bytes for {slowed.label} wait, and its broker asks to slow down;"
                f" {len(self.slowed)} slowed partitions have 1/{_SLOWED_SHARE} of buffer_bytes={self._buffer_bytes}"
                " together, in even shares"
            )
        oldest = self._sender.oldest()
        return errors.BufferFull(
            f"producer: {self.buffered_bytes} of buffer_bytes={self._buffer_bytes} wait for their outcome"
            f"{'' if oldest is None else oldest.blocked_note}"
        )

    def close_batch(self, queue: PartitionQueue) -> None:
        """The open batch takes no more."""
        queue.close_open()
        self._sender.offer(queue)

    def close_batches(self) -> None:
        """All batches that linger leave now."""
        for route in self.routes.values():
            for queue in route.queues:
                if queue.open is not None:
                    self.close_batch(queue)

    def forget(self, topic: str) -> None:
        """The topic is gone, or another one has its name."""
        self.routes.pop(topic, None)
        for queue in [queue for queue in self.slowed if queue.topic == topic]:
            del self.slowed[queue]
        if self.sampler is not None:
            self.sampler.forget(topic)

    def slow_down(self, queue: PartitionQueue, wait_ms: float, now: float) -> float:
        """A broker asks for it, or with 0 no more. Messages without a key go elsewhere meanwhile. Returns how much
        longer the partition waits, in ms.
        """
        if wait_ms:
            self.slowed[queue] = None
        longer_ms = queue.slow_down(now, wait_ms)
        route = self.routes.get(queue.topic)
        if wait_ms and route is not None and route.queues[route.sticky] is queue:
            route.advance_sticky(now, self.has_its_share)
        return longer_ms

    def has_its_share(self, queue: PartitionQueue) -> bool:
        """Whether a slowed partition has as much of the buffer as it may, so that the rest is left for the others: an
        even share of what all slowed ones may have, and nothing more while they have all of that.
        """
        mine = queue.buffered_bytes
        if mine >= self.share_bytes:
            return True
        if not mine:
            return False
        for one in [one for one in self.slowed if not one.slow_down_ms]:
            del self.slowed[one]
        together = sum([one.buffered_bytes for one in self.slowed])
        return together >= self.share_bytes or mine * len(self.slowed) >= self.share_bytes

    def _is_full(self, queue: PartitionQueue) -> bool:
        full = self.has_its_share(queue)
        self._full_of = queue if full else None
        return full

    def _sample(self, queue: PartitionQueue, key: bytes, now: float) -> None:
        sampler = self.sampler
        if sampler is None:
            self._until_sample = _NO_SAMPLE
        else:
            self._until_sample = sampler.sample(queue.topic, queue.partition, key, now)

    def _make_space(self, size: int, route: Route) -> None:
        """Raises `BufferFull` for a message that can never fit."""
        self._full_of = None
        if size > self._buffer_bytes:
            raise errors.BufferFull(
                f"{route.name}: message of {size} bytes, buffer_bytes is {self._buffer_bytes}; raise it"
            )
        self.close_batches()

    def _choose(
        self, route: Route, key: bytes | None, value: bytes | None, partition: object
    ) -> PartitionQueue:
        if partition is None:
            if self._hook is None:
                assert key is not None
                return route.queue_of_key(key)
            partition = self._hook(route.name, key, value, len(route.queues))
        if not isinstance(partition, int):
            raise TypeError(f"{route.name}: partition {partition!r} is not a number")
        if not 0 <= partition < len(route.queues):
            last = len(route.queues) - 1
            raise errors.NotFound(f"{route.name}: no partition {partition}; it has {last + 1}, 0 to {last}")
        return route.queues[partition]

    def _open_batch(self, route: Route, queue: PartitionQueue, size: int, now: float) -> ProducerBatch:
        settings = self._settings
        if now - queue.throttled_at > _THROTTLED_NEWS_MS:
            queue.throttled_ms = 0
        least = size + limits.KIB
        bytes_max = min(max(settings.batch_bytes, least), max(route.max_batch_bytes, least))
        batch = ProducerBatch(
            queue,
            BatchBuilder(self._compression, bytes_max),
            queue.next_order(),
            now + settings.linger_ms,
            now + settings.delivery_timeout_ms,
        )
        queue.open = batch
        self._sender.batch_opened(queue, batch)
        return batch

    def _discard_empty(self, queue: PartitionQueue) -> None:
        """A batch whose first message could not be encoded never was."""
        batch = queue.open
        if batch is not None and batch.builder is not None and batch.builder.count == 0:
            queue.open = None
            batch.finish(None)


def _bytes_of(name: str) -> int:
    """As UTF-8; what cannot be encoded is refused where it is encoded."""
    return len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
