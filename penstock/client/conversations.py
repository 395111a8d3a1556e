"""How a client asks the brokers about topics, groups and records: conversations without I/O.

A conversation is a generator. It yields a `BrokerCall`, and is sent the answer, or has the failure thrown in: a broker
that does not answer, or answers what cannot be read, is no reason to give up. It yields the error that it heard where
it wants to wait before it goes on.
"""

from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from penstock.client.refusals import pause_ms
from penstock.contract.errors import PenstockError, Throttled, TimedOut

BROKER_MS = 3_000
PAUSE_MS = 100
"""Before a coordinator that was being elected is asked again."""


T = TypeVar("T")
M_co = TypeVar("M_co", bound=Message, covariant=True)


class BrokerCall(NamedTuple, Generic[M_co]):
    """One unary call; `broker` None = any, each until one answers; else that one, once, for `BROKER_MS` at most."""

    method: str
    request: bytes
    answer: type[M_co]
    """What is read of the answer; one that cannot be read counts as none."""
    broker: int | None = None


Conversation = Generator[BrokerCall[Message] | PenstockError, Any, T]


class Patience:
    """How long a conversation may still take, and what it waited for last."""

    def __init__(self, timeout_s: float, now: float) -> None:
        self._timeout_s = timeout_s
        self._until = now + timeout_s * 1000
        self._throttled: Throttled | None = None

    def left_ms(self, now: float) -> float:
        """More than 0. Raises `TimedOut`, or `Throttled` where a broker throttled last."""
        if now >= self._until:
            raise self._throttled or TimedOut(f"no broker answered as asked within {self._timeout_s:g} s")
        return self._until - now

    def pause_ms(self, error: PenstockError, now: float) -> float:
        """How long to wait after this error."""
        self._throttled = error if isinstance(error, Throttled) else None
        return min(pause_ms(error, PAUSE_MS), self.left_ms(now))
