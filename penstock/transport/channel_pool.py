"""The channels of one client: one a broker address, and another one for every so many streams and calls.

A broker takes STREAMS_PER_CONNECTION_MAX of both on one connection. What is more grpc lets wait without a word, or, on
a connection so new that it does not know the number yet, the broker refuses it as if it were away.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.contract import limits

STREAMS_PER_CHANNEL = limits.STREAMS_PER_CONNECTION_MAX * 3 // 4
"""The rest is for calls, which end soon."""
UNDER_WAY_PER_CHANNEL = limits.STREAMS_PER_CONNECTION_MAX * 9 // 10
"""Streams and calls. The rest is for those that are over here, and not yet at the broker."""

CHANNELS_PER_ADDRESS_MAX = 16
"""Each is a connection, which a broker bounds by tenant. What is more waits on them, within its own deadline."""

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class _Carrier(Generic[C]):
    channel: C
    streams: int = 0
    calls: int = 0

    def takes_a_call(self) -> bool:
        return self.streams + self.calls < UNDER_WAY_PER_CHANNEL

    def takes_a_stream(self) -> bool:
        return self.streams < STREAMS_PER_CHANNEL and self.takes_a_call()


class ChannelPool(Generic[C]):
    """Made when first needed. Safe between threads."""

    def __init__(self, make: Callable[[str], C]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._carriers: dict[str, list[_Carrier[C]]] = {}

    def for_call(self, address: str, begin: Callable[[C], Any]) -> Any:
        """As `for_stream`, for what ends soon."""
        with self._lock:
            taken = self._carrier(address, _Carrier.takes_a_call)
            taken.calls += 1

        def done(_call: Any) -> None:
            with self._lock:
                taken.calls -= 1

        return _begun(taken.channel, begin, done)

    def for_stream(self, address: str, begin: Callable[[C], Any]) -> Any:
        """What `begin` makes of a channel that has capacity: a call, which takes it until it is done."""
        with self._lock:
            taken = self._carrier(address, _Carrier.takes_a_stream)
            taken.streams += 1

        def done(_call: Any) -> None:
            with self._lock:
                taken.streams -= 1

        return _begun(taken.channel, begin, done)

    def _carrier(self, address: str, has_capacity: Callable[[_Carrier[C]], bool]) -> _Carrier[C]:
        carriers = self._carriers.setdefault(address, [])
        carrier = next(filter(has_capacity, carriers), None)
        if carrier is None and len(carriers) == CHANNELS_PER_ADDRESS_MAX:
            # grpc lets it wait there until another one ends.
            return min(carriers, key=lambda one: one.streams + one.calls)
        if carrier is None:
            carrier = _Carrier(self._make(address))
            carriers.append(carrier)
        return carrier

    def drain(self) -> list[C]:
        """All channels, which are the pool's no longer."""
        with self._lock:
            carriers, self._carriers = self._carriers, {}
        return [one.channel for known in carriers.values() for one in known]


def _begun(channel: C, begin: Callable[[C], Any], done: Callable[[Any], None]) -> Any:
    try:
        call = begin(channel)
        call.add_done_callback(done)
    except BaseException:
        done(None)
        raise
    return call
