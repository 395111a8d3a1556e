"""How a client asks the brokers about topics, groups and records: conversations without I/O.

A conversation is a generator. It yields a `BrokerCall`, and is sent the answer, or has the failure thrown in: a broker
that does not answer, or answers what cannot be read, is no reason to give up. It yields None where it wants to wait a
little before it goes on.
"""

from collections.abc import Generator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

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


Conversation = Generator[BrokerCall[Message] | None, Any, T]
