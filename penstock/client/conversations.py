"""How a client asks the brokers about topics, groups and records: conversations without I/O.

A conversation is a generator. It yields a `BrokerCall`, and is sent the answer, or has the failure thrown in: a broker
that does not answer, or answers what cannot be read, is no reason to give up. It yields the error that it heard where
it wants to wait a little before it goes on.
"""

from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from penstock.contract.errors import PenstockError, Throttled, TimedOut

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
    """What is read of the answer; one that cannot be read counts as none."""
    broker: int | None = None


Conversation = Generator[BrokerCall[Message] | PenstockError, Any, T]


def too_late(timeout_s: float, heard: PenstockError | None) -> PenstockError:
    """The error of a conversation whose time is up, and which heard that last."""
    if isinstance(heard, Throttled):
        return heard
    why = f": {heard.message}" if heard is not None else ""
    return TimedOut(f"no broker answered as asked within {timeout_s:g} s{why}")
