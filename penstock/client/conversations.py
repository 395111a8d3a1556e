"""How a client asks the brokers about topics, groups and records: conversations without I/O.

A conversation is a generator. It yields a `BrokerCall`, and is sent the answer, or has the failure thrown in: a broker
that does not answer is no reason to give up. It yields None where it wants to wait a little before it goes on.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

BROKER_MS = 3_000
PAUSE_MS = 100
"""Before a coordinator that was being elected is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCall:
    """One unary call; `broker` None = any, each until one answers; else that one, once, for `BROKER_MS` at most."""

    method: str
    request: bytes
    broker: int | None = None


T = TypeVar("T")
Conversation = Generator[BrokerCall | None, bytes, T]
