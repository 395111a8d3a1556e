"""Requests of unary calls read as messages, within the bound on what one request may name."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from data_plane.node.ports import CallFailed
from penstock.contract.errors import ErrorCode, LimitExceeded
from penstock.contract.frames import check_few

M = TypeVar("M", bound=Message)


def parsed(kind: type[M], request: bytes) -> M:
    """The request as a message, or `CallFailed(INVALID_REQUEST)`."""
    try:
        message = kind()
        message.ParseFromString(request)
        return message
    except DecodeError:
        raise CallFailed(ErrorCode.INVALID_REQUEST, f"the request is no {kind.__name__}") from None


def require_few(count: int, what: str) -> None:
    """`check_few` for a call that is refused as a whole, by `CallFailed`."""
    try:
        check_few(count, what)
    except LimitExceeded as refusal:
        raise CallFailed(refusal.code, refusal.message) from None
