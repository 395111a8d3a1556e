"""A refusal of the REST interface (RFC 9457 problem document) as one of Penstock's errors."""

import json
from typing import Any

from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    ErrorCode,
    Forbidden,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    MessageTooLarge,
    NotFound,
    PenstockError,
    Throttled,
    Unauthenticated,
    error_class,
)

_BY_STATUS: dict[int, type[PenstockError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    402: LimitExceeded,
    403: Forbidden,
    404: NotFound,
    409: AlreadyExists,
    413: MessageTooLarge,
    422: InvalidRequest,
    429: Throttled,
    502: BrokerUnavailable,
    503: BrokerUnavailable,
    504: BrokerUnavailable,
}
_NAMES = {code.name: code for code in ErrorCode}
_SHOWN_CHARACTERS = 300
"""Of an answer that is no problem document, enough to recognise who gave it."""


class ServiceUnavailable(BrokerUnavailable):
    """The control plane could not be reached, or is not ready."""

    remedy = "Check api_url and whether the service runs (penstock dev status)."


def problem_error(status: int, body: bytes, url: str) -> PenstockError:
    """The error that an answer of this status (400 or more) stands for.

    The document's `code` (a name or number of the error table) decides; where it has none, the status does.
    """
    document = _document(body)
    if document is None:
        text = body.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
        return _class_of(status)(f"{url}: status {status}" + (f": {text}" if text else ""))
    return refusal_of(status, document)


def refusal_of(status: int, document: dict[str, Any]) -> PenstockError:
    """The error that a problem document of this status stands for."""
    known = _code(document.get("code"))
    kind = _class_of(status) if known is None else error_class(known)
    if kind is BrokerUnavailable:
        kind = ServiceUnavailable
    return kind(_message(document, status))


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _code(value: object) -> int | None:
    if isinstance(value, str):
        return _NAMES.get(value.upper())
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _class_of(status: int) -> type[PenstockError]:
    known = _BY_STATUS.get(status)
    if known is not None:
        return ServiceUnavailable if known is BrokerUnavailable else known
    return InvalidRequest if status < 500 else InternalError


def _message(document: dict[str, Any], status: int) -> str:
    text = str(document.get("detail") or document.get("title") or f"status {status}")
    fields = document.get("fields")
    if isinstance(fields, dict):
        named = [f"{name}: {_joined(what)}" for name, what in sorted(fields.items())]
        text += "".join(f"\n  {line}" for line in named if line not in text)
    return text


def _joined(what: object) -> str:
    return "; ".join(map(str, what)) if isinstance(what, list) else str(what)
