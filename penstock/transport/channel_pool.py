"""The channels of one client: one a broker address, and another one for every so many streams.

A broker takes STREAMS_PER_CONNECTION_MAX calls on one connection; grpc lets a further one wait without a word.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.contract import limits

STREAMS_PER_CHANNEL = limits.STREAMS_PER_CONNECTION_MAX * 3 // 4
"""The rest is for calls, which end soon."""

C = TypeVar("C")


@dataclass(slots=True, eq=False)
class _Carrier(Generic[C]):
    channel: C
    streams: int = 0


class ChannelPool(Generic[C]):
    """Made when first needed. Safe between threads."""

    def __init__(self, make: Callable[[str], C]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._carriers: dict[str, list[_Carrier[C]]] = {}

    def for_call(self, address: str) -> C:
        """The channel for what ends soon."""
        with self._lock:
            carriers = self._carriers.setdefault(address, [])
            if not carriers:
                carriers.append(_Carrier(self._make(address)))
            return carriers[0].channel

    def for_stream(self, address: str, begin: Callable[[C], Any]) -> Any:
        """What `begin` makes of a channel that has capacity: a call, which takes it until it is done."""
        with self._lock:
            carriers = self._carriers.setdefault(address, [])
            carrier = next((one for one in carriers if one.streams < STREAMS_PER_CHANNEL), None)
            if carrier is None:
                carrier = _Carrier(self._make(address))
                carriers.append(carrier)
            carrier.streams += 1
        taken = carrier

        def done(_call: Any) -> None:
            with self._lock:
                taken.streams -= 1

        try:
            call = begin(taken.channel)
            call.add_done_callback(done)
        except BaseException:
            done(None)
            raise
        return call

    def drain(self) -> list[C]:
        """All channels, which are the pool's no longer."""
        with self._lock:
            carriers, self._carriers = self._carriers, {}
        return [one.channel for known in carriers.values() for one in known]
