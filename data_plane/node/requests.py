"""Requests of unary calls read as messages, within the bound on what one request may name."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from data_plane.node.ports import CallFailed
from penstock.contract import limits
from penstock.contract.errors import ErrorCode

M = TypeVar("M", bound=Message)


def parsed(kind: type[M], request: bytes) -> M:
    """The request as a message, or `CallFailed(INVALID_REQUEST)`."""
    try:
        message = kind()
        message.ParseFromString(request)
        return message
    except DecodeError:
        raise CallFailed(ErrorCode.INVALID_REQUEST, f"the request is no {kind.__name__}") from None


def demand_few(count: int, what: str) -> None:
    """Refuse what would hold up the event loop (RL137) with `CallFailed(LIMIT_EXCEEDED)`."""
    if count > limits.FRAME_ENTRIES_MAX:
        raise CallFailed(
            ErrorCode.LIMIT_EXCEEDED,
            f"{count} {what} in one request, at most {limits.FRAME_ENTRIES_MAX} allowed",
        )
