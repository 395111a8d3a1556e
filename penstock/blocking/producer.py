"""The blocking producer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from penstock.blocking.delivery import Delivery, outcomes_missing
from penstock.blocking.runtime import Runtime, now_ms
from penstock.blocking.sending import MessageSender
from penstock.client.call_arguments import require_values
from penstock.client.producing.delivery import flush_timeout_after, run_callbacks
from penstock.client.producing.producer import ProducerCore
from penstock.client.producing.statistics import ProducerStats
from penstock.client.serialization import Headers, MessageSerializer, all_plain, header_list, time_of_message
from penstock.client.settings import ProducerSettings
from penstock.contract.errors import TimedOut
from penstock.receipts.keeping import keeper_of

_Value = TypeVar("_Value", contravariant=True)
_Key = TypeVar("_Key", contravariant=True)


class Producer(Generic[_Value, _Key]):
    """Sends messages. Safe between threads. Made by `Client.producer`; a context manager that closes it at
    its end.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: ProducerSettings,
        client: object,
        serializer: MessageSerializer,
    ) -> None:
        self._runtime = runtime
        self._serializer = serializer
        self._client = client  # which lives as long as what it made is used
        self._lock = runtime.lock
        self._client_core = runtime.core
        self._keeper = keeper_of(runtime, settings)
        with runtime.lock:
            self._core: ProducerCore = runtime.core.add_producer(settings, self._keeper)
        self._accumulator = self._core.accumulator
        self._sender = MessageSender(runtime, self._core, serializer)

    def send(
        self,
        topic: str,
        value: _Value | None,
        key: _Key | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Put one message into a batch and return at once; its `Delivery` has the outcome.

        Messages with one key go to one partition, in order. Waits up to `max_block_ms` for the first news
        of a topic, and for space in the buffer if `on_full` is "block".

        Value and key are bytes-like, or what the producer's serializers take; a value of None is a tombstone. Headers
        are a mapping of names to bytes, or pairs of them.

        Raises `NotFound` (topic or partition), `MessageTooLarge`, `SerializationFailed`, `BufferFull`,
        `BrokerUnavailable`, `Unauthenticated`, `Closed`.
        """
        return self._sender.send(topic, value, key, headers, timestamp_ms, partition)

    def send_many(
        self,
        topic: str,
        values: Sequence[_Value | None],
        keys: Sequence[_Key | None] | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> list[Delivery]:
        """Send several messages of one topic with the same headers and time, in order; one `Delivery` each.

        `keys`, if given, has one entry a value. Waits and raises as `send` does; then those before the one
        that raised were sent.
        """
        self._runtime.enter()
        require_values(values, keys)
        if timestamp_ms is None:
            timestamp_ms = int(time.time() * 1000)
        else:
            timestamp_ms = time_of_message(topic, timestamp_ms)
        stored = header_list(topic, headers)
        if self._serializer.adds or not all_plain(values, keys):
            pairs = zip(values, keys or [None] * len(values), strict=True)
            return [self.send(topic, value, key, stored, timestamp_ms, partition) for value, key in pairs]
        accumulator, client_core = self._accumulator, self._client_core
        plain_values: Sequence[Any] = values
        plain_keys: Sequence[Any] | None = keys
        deliveries: list[Delivery] = []
        while len(deliveries) < len(values):
            at = len(deliveries)
            with self._lock:
                route = accumulator.routes.get(topic)
                if route is not None:
                    deliveries += accumulator.append_many(
                        route, plain_values, plain_keys, at, stored, timestamp_ms, partition, now_ms, Delivery
                    )
                    if client_core.woken or client_core.attention:
                        self._runtime.wake()
            if len(deliveries) == at:
                key = None if plain_keys is None else plain_keys[at]
                deliveries.append(
                    self._sender.wait_and_send(topic, plain_values[at], key, stored, timestamp_ms, partition)
                )
        return deliveries

    def flush(self, timeout: float | None = None) -> None:
        """Send what lingers and wait until every message sent so far has an outcome; each delivery has
        its own.

        Raises `TimedOut` when some have none after `timeout` seconds; they stay under way.
        """
        self._runtime.enter()
        with self._lock:
            pending = self._core.close_batches()
            self._runtime.wake()
        missing = outcomes_missing(pending, timeout)
        if missing:
            waiting = next((batch.blocked_note for batch in pending if not batch.done), "")
            raise TimedOut(f"producer: {missing} batches without an outcome after {timeout:g} s{waiting}")

    def close(self, timeout: float | None = None) -> None:
        """Flush, then end. What has no outcome after `timeout` seconds (None = the delivery timeout) fails
        with `Closed`, or as unknown if it was sent. Closing twice is harmless.

        Raises `ReceiptsNotWritten`, when everything else is done.
        """
        if not self._core.closed and self._runtime.unusable is None:
            try:
                self.flush(timeout)
            except TimedOut:
                pass  # the deliveries have the outcome
            with self._lock:
                if self._core in self._client_core.producers:
                    self._client_core.remove(self._core, now_ms())
                batches = self._runtime.signal()
            run_callbacks(batches)
        if self._keeper is not None:
            self._keeper.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed; it cannot be used any more then."""
        return self._core.closed

    @property
    def failed_count(self) -> int:
        """Messages that ended without being applied for certain, so far."""
        return self._core.failed_messages

    @property
    def dropped_count(self) -> int:
        """Messages that `on_full="drop"` turned away, so far."""
        return self._accumulator.dropped_messages

    @property
    def buffered_bytes(self) -> int:
        """Bytes of messages without an outcome."""
        return self._accumulator.buffered_bytes

    def stats(self) -> ProducerStats:
        """Totals of this producer, which partitions brokers slow down, and which keys are frequent."""
        with self._lock:
            return self._core.stats(now_ms())

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.buffered_bytes} bytes buffered"
        return f"<penstock.Producer, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush_timeout_after(kind))
