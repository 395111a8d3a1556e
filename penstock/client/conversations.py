"""How a client asks the brokers about topics, groups and records: conversations without I/O.

A conversation is a generator. It yields a `BrokerCall`, and is sent the answer, or has the failure thrown in: a broker
that does not answer, or answers what cannot be read, is no reason to give up. It yields the error that it heard where
it wants to wait a little before it goes on.
"""

from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from penstock.client.call_arguments import wait_ms
from penstock.contract.errors import BrokerUnavailable, PenstockError, Throttled, TimedOut

BROKER_MS = 3_000
PAUSE_MS = 100
"""Before a broker is asked again that was being elected, or throttles."""


T = TypeVar("T")
M_co = TypeVar("M_co", bound=Message, covariant=True)


class BrokerCall(NamedTuple, Generic[M_co]):
    """One unary call; `broker` None = any, each until one answers; else that one, once, for `BROKER_MS` at most."""

    method: str
    request: bytes
    answer: type[M_co]
    """The answer is read as this; one that cannot be read counts as none."""
    broker: int | None = None


Conversation = Generator[BrokerCall[Message] | PenstockError, Any, T]


class Patience:
    """How long a conversation may still take, and the error that its caller hears if that is not enough.

    A broker that throttles runs: that nothing was answered within `BROKER_MS` after it said so is due to its limit, or
    to a deadline that left no time.
    """

    def __init__(self, timeout_s: float, now: float) -> None:
        self._timeout_s = timeout_s
        self._until = now + wait_ms(timeout_s)
        self._heard: PenstockError | None = None
        self._heard_at = now

    def left_ms(self, now: float) -> float:
        """More than 0. Raises the error for the caller when the time is up."""
        if now >= self._until:
            if isinstance(self._heard, Throttled):
                raise self._heard
            why = f": {self._heard.message}" if self._heard is not None else ""
            raise TimedOut(f"no broker answered as asked within {self._timeout_s:g} s{why}")
        return self._until - now

    def hear(self, error: PenstockError, now: float) -> None:
        """The conversation waits after this error."""
        if self._of(error, now) is error:
            self._heard = error
            self._heard_at = now

    def end(self, error: PenstockError, now: float) -> PenstockError:
        """The error of a conversation that ends with this one."""
        return self._of(error, now)

    def _of(self, error: PenstockError, now: float) -> PenstockError:
        unanswered = isinstance(error, (BrokerUnavailable, TimedOut))
        if unanswered and isinstance(self._heard, Throttled) and now - self._heard_at <= BROKER_MS:
            return self._heard
        return error
