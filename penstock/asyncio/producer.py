"""The producer of the asyncio SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from penstock.asyncio.delivery import Delivery, outcome
from penstock.asyncio.runtime import Runtime
from penstock.client.call_arguments import require_values, topic_name, wait_ms
from penstock.client.messages import HeaderList
from penstock.client.producing.accumulator import Route
from penstock.client.producing.delivery import flush_timeout_after
from penstock.client.producing.producer import ProducerCore
from penstock.client.producing.statistics import ProducerStats
from penstock.client.serialization import Headers, MessageSerializer, all_plain, header_list, time_of_message
from penstock.client.settings import ProducerSettings
from penstock.client.timing import NEVER
from penstock.contract.errors import Closed, TimedOut
from penstock.receipts.keeping import keeper_of

if TYPE_CHECKING:
    from penstock.receipts.keeper import ReceiptsKeeper

_Value = TypeVar("_Value", contravariant=True)
_Key = TypeVar("_Key", contravariant=True)


class Producer(Generic[_Value, _Key]):
    """Sends messages. Made by `Client.producer`; an async context manager that closes it at its end."""

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
        self._client_core = runtime.core
        self._keeper = keeper_of(runtime, settings)
        self._core: ProducerCore = runtime.core.add_producer(settings, self._keeper)
        self._accumulator = self._core.accumulator

    async def send(
        self,
        topic: str,
        value: _Value | None,
        key: _Key | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Put one message into a batch and return; its `Delivery` has the outcome.

        Messages with one key go to one partition, in order. Waits up to `max_block_ms` for the first news
        of a topic, and for space in the buffer if `on_full` is "block".

        Value and key are bytes-like, or what the producer's serializers take; a value of None is a tombstone. Headers
        are a mapping of names to bytes, or pairs of them.

        Raises `NotFound` (topic or partition), `MessageTooLarge`, `SerializationFailed`, `BufferFull`,
        `BrokerUnavailable`, `Unauthenticated`, `Closed`.
        """
        stored_value: Any = value
        stored_key: Any = key
        stored_headers: HeaderList | None = None
        if (
            type(value) is not bytes
            or headers is not None
            or (key is not None and type(key) is not bytes)
            or self._serializer.adds
        ):
            stored_value, stored_key, stored_headers = self._serializer.serialize(topic, value, key, headers)
        runtime, accumulator = self._runtime, self._accumulator
        if runtime.unusable is not None:
            runtime.check()
        if timestamp_ms is None:
            timestamp_ms = runtime.wall_ms()
        else:
            timestamp_ms = time_of_message(topic, timestamp_ms)
        route = accumulator.routes.get(topic)
        if route is not None:
            delivery = accumulator.append(
                route,
                stored_value,
                stored_key,
                stored_headers,
                timestamp_ms,
                partition,
                runtime.now_ms,
                Delivery,
            )
            if delivery is not None:
                if self._client_core.woken or self._client_core.attention:
                    runtime.signal()
                    await asyncio.sleep(0)  # a caller that only sends must not keep the writers from running
                return delivery
        return await self._send_waiting(
            topic, stored_value, stored_key, stored_headers, timestamp_ms, partition
        )

    async def send_many(
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
        self._runtime.check()
        require_values(values, keys)
        runtime, accumulator = self._runtime, self._accumulator
        if timestamp_ms is None:
            timestamp_ms = runtime.wall_ms()
        else:
            timestamp_ms = time_of_message(topic, timestamp_ms)
        stored = header_list(topic, headers)
        if self._serializer.adds or not all_plain(values, keys):
            pairs = zip(values, keys or [None] * len(values), strict=True)
            return [
                await self.send(topic, value, key, stored, timestamp_ms, partition) for value, key in pairs
            ]
        plain_values: Sequence[Any] = values
        plain_keys: Sequence[Any] | None = keys
        deliveries: list[Delivery] = []
        while len(deliveries) < len(values):
            position = len(deliveries)
            route = accumulator.routes.get(topic)
            if route is not None:
                deliveries += accumulator.append_many(
                    route,
                    plain_values,
                    plain_keys,
                    position,
                    stored,
                    timestamp_ms,
                    partition,
                    runtime.now_ms,
                    Delivery,
                )
                if self._client_core.woken or self._client_core.attention:
                    runtime.signal()
                    await asyncio.sleep(0)
            if len(deliveries) == position:
                key = None if plain_keys is None else plain_keys[position]
                deliveries.append(
                    await self._send_waiting(
                        topic, plain_values[position], key, stored, timestamp_ms, partition
                    )
                )
        return deliveries

    async def _send_waiting(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: HeaderList | None,
        timestamp_ms: int,
        partition: int | None,
    ) -> Delivery:
        runtime, core, accumulator = self._runtime, self._core, self._accumulator
        self._check()
        runtime.start()
        deadline = runtime.now_ms() + core.settings.max_block_ms
        while True:
            self._check()
            route: Route | None = core.route(topic_name(topic))
            if route is not None:
                delivery = accumulator.append(
                    route, value, key, headers, timestamp_ms, partition, runtime.now_ms, Delivery
                )
                runtime.signal()
                if delivery is not None:
                    return delivery
                if core.settings.on_full != "block":
                    return accumulator.rejected(route, timestamp_ms, Delivery)
            runtime.signal()
            if not await runtime.wait(deadline):
                if route is None:
                    raise runtime.core.topic_waits(topic)
                raise accumulator.buffer_full()

    async def flush(self, timeout: float | None = None) -> None:
        """Send what lingers and wait until every message sent so far has an outcome; each delivery has
        its own.

        Raises `TimedOut` when some have none after `timeout` seconds; they stay under way.
        """
        self._runtime.check()
        self._runtime.check_loop()
        pending = self._core.close_batches()
        self._runtime.signal()
        if not pending:
            return
        deadline = self._runtime.now_ms() + wait_ms(timeout)
        for batch in pending:
            left = None if deadline == NEVER else max(0.0, (deadline - self._runtime.now_ms()) / 1000)
            if not batch.done and not await outcome(batch, left):
                count = sum(1 for other in pending if not other.done)
                raise TimedOut(
                    f"producer: {count} batches without an outcome after {timeout:g} s{batch.blocked_note}"
                )

    async def close(self, timeout: float | None = None) -> None:
        """Flush, then end. What has no outcome after `timeout` seconds (None = the delivery timeout) fails
        with `Closed`, or as unknown if it was sent. Closing twice is harmless.

        Raises `ReceiptsNotWritten`, when everything else is done.
        """
        if not self._core.closed and self._runtime.unusable is None:
            try:
                await self.flush(timeout)
            except TimedOut:
                pass  # the deliveries have the outcome
            if self._core in self._client_core.producers:
                self._client_core.remove(self._core, self._runtime.now_ms())
            self._runtime.signal()
        if self._keeper is not None:
            await self._close_keeper(self._keeper)

    async def _close_keeper(self, keeper: ReceiptsKeeper) -> None:
        """A thread writes what is left, and the loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def on_closed() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                pass  # the close was cancelled, and its loop is gone

        keeper.begin_close(on_closed)
        try:
            await asyncio.wait_for(done.wait(), keeper.close_s)
        except TimeoutError:
            pass
        keeper.check_closed()

    @property
    def closed(self) -> bool:
        """True once it was closed; it cannot be used any more then."""
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
        return self._core.stats(self._runtime.now_ms())

    def _check(self) -> None:
        self._runtime.check()
        if self._core.closed:
            raise Closed("producer: closed")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.buffered_bytes} bytes buffered"
        return f"<penstock.asyncio.Producer, {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush_timeout_after(kind))
