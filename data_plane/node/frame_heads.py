"""Heads of frames read as messages, within the bound on what one frame may name."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from penstock.contract import limits
from penstock.contract.errors import LimitExceeded
from penstock.contract.frames import FrameError, FrameKind, check_few

M = TypeVar("M", bound=Message)


def read_head(message: type[M], kind: FrameKind, head: bytes | memoryview) -> M:
    """The head of a frame. Raises `FrameError` when it is not readable."""
    try:
        return message.FromString(bytes(head))
    except DecodeError:
        raise FrameError(f"the head of a {kind.name} frame is not readable") from None


def require_read(waiting: int) -> None:
    """Raise `FrameError` when a client asks on without reading the answers it has."""
    if waiting > limits.UNREAD_ANSWERS_MAX:
        raise FrameError(
            f"{waiting} answers of the stream are unread, at most {limits.UNREAD_ANSWERS_MAX} are kept; read them, and"
            " open a new stream"
        )


def require_few(count: int, what: str) -> None:
    """Raise `FrameError` when a client's frame names more than one turn of the event loop should handle."""
    try:
        check_few(count, what, within="frame")
    except LimitExceeded as refusal:
        raise FrameError(refusal.message) from None
