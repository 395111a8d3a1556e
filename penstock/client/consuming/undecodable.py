"""Messages whose value or key the deserializer does not take, and what an application wants of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from penstock.client.messages import Message
from penstock.contract.errors import SerializationFailed

OnUndecodable = Literal["stop", "skip"] | Callable[[Message, SerializationFailed], object]
"""Stop the partition before the message, skip it, or call this with it as it is stored, and skip it then."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A message that waits to be skipped."""

    message: Message
    """Its value and key are as they are stored."""
    error: SerializationFailed
    """It says where and why."""


def undecodable(message: Message, error: SerializationFailed) -> Undecodable:
    """The message with an error that names its partition and offset."""
    label = f"{message.topic}-{message.partition}: at offset {message.offset}"
    located = SerializationFailed(f"{label}: {error.message}")
    located.topic = message.topic
    located.partition = message.partition
    located.offset = message.offset
    located.__cause__ = error
    return Undecodable(message, located)
