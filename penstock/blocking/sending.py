"""The blocking producer's work for each message, compiled: a place in a batch under the lock, or a wait for it."""

from __future__ import annotations

from typing import Any

from librt.time import time

from penstock.blocking.delivery import Delivery, require_outside_calls
from penstock.blocking.runtime import Runtime, now_ms
from penstock.client.call_arguments import topic_name
from penstock.client.core import ClientCore
from penstock.client.messages import HeaderList
from penstock.client.producing.producer import ProducerCore
from penstock.client.serialization import MessageSerializer, time_of_message
from penstock.contract.errors import Closed


class MessageSender:
    """Safe between threads. What comes from a user has any type here: the checks say what is wrong with it."""

    __slots__ = (
        "_accumulator",
        "_client_core",
        "_core",
        "_lock",
        "_runtime",
        "_serializer",
    )

    def __init__(self, runtime: Runtime, core: ProducerCore, serializer: MessageSerializer) -> None:
        self._runtime = runtime
        self._core = core
        self._serializer = serializer
        self._client_core: ClientCore = runtime.core
        self._accumulator = core.accumulator
        self._lock = runtime.lock

    def send(
        self, topic: Any, value: Any, key: Any, headers: Any, timestamp_ms: Any, partition: Any
    ) -> Delivery:
        """Do as `Producer.send`."""
        stored_headers: HeaderList | None = None
        if (
            type(value) is not bytes
            or headers is not None
            or (key is not None and type(key) is not bytes)
            or self._serializer.adds
        ):
            value, key, stored_headers = self._serializer.serialize(topic, value, key, headers)
        runtime, accumulator, client_core = self._runtime, self._accumulator, self._client_core
        if runtime.unusable is not None:
            runtime.check()
        require_outside_calls(self._lock)
        time_ms = int(time() * 1000) if timestamp_ms is None else time_of_message(topic, timestamp_ms)
        # `with`, and no call of `acquire` before a `try`: an interrupt between the two would leave the lock taken.
        with self._lock:
            route = accumulator.routes.get(topic)
            if route is not None:
                delivery = accumulator.append(
                    route, value, key, stored_headers, time_ms, partition, now_ms, Delivery
                )
                if delivery is not None:
                    if client_core.woken or client_core.attention:
                        runtime.wake()
                    return delivery
        return self.wait_and_send(topic, value, key, stored_headers, time_ms, partition)

    def wait_and_send(
        self,
        topic: Any,
        value: bytes | None,
        key: bytes | None,
        headers: HeaderList | None,
        timestamp_ms: int,
        partition: Any,
    ) -> Delivery:
        """Send one message once its topic is known and the buffer has space, or do what `on_full` says."""
        runtime, core, accumulator = self._runtime, self._core, self._accumulator
        deadline = now_ms() + core.settings.max_block_ms
        with runtime.lock:
            while True:
                self.check()
                runtime.start()
                route = core.route(topic_name(topic))
                if route is not None:
                    delivery = accumulator.append(
                        route, value, key, headers, timestamp_ms, partition, now_ms, Delivery
                    )
                    if delivery is not None:
                        runtime.wake()
                        return delivery
                    if core.settings.on_full != "block":
                        runtime.wake()
                        return accumulator.rejected(route, timestamp_ms, Delivery)
                runtime.wake()
                if not runtime.wait(deadline):
                    if route is None:
                        raise runtime.core.topic_waits(topic)
                    raise accumulator.buffer_full()

    def check(self) -> None:
        """Raise if the producer cannot be used any more."""
        self._runtime.check()
        if self._core.closed:
            raise Closed("producer: closed")
