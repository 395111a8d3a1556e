"""Errors as problem documents (RFC 9457): refusals of the service and of the framework have one form."""

import logging
import math
import sys
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.settings import api_settings

from penstock.contract.errors import ErrorCode, PenstockError, split_message

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
DATABASE_AWAY = "The database does not answer"

STATUS = {
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.ALREADY_EXISTS: 409,
    ErrorCode.LIMIT_EXCEEDED: 422,
    ErrorCode.PRECONDITION_FAILED: 412,
    ErrorCode.THROTTLED: 429,
    ErrorCode.BROKER_UNAVAILABLE: 503,
    ErrorCode.TIMEOUT: 503,
    ErrorCode.OFFSET_OUT_OF_RANGE: 409,
    ErrorCode.IN_USE: 409,
    ErrorCode.GROUP_NOT_EMPTY: 409,
    ErrorCode.GROUP_NOT_FOUND: 404,
    ErrorCode.MESSAGE_TOO_LARGE: 422,
}
TITLES = {
    ErrorCode.INVALID_REQUEST: "The request is wrong",
    ErrorCode.UNAUTHENTICATED: "No valid credential",
    ErrorCode.FORBIDDEN: "Not allowed",
    ErrorCode.NOT_FOUND: "Not found",
    ErrorCode.ALREADY_EXISTS: "It exists already",
    ErrorCode.LIMIT_EXCEEDED: "A limit would be exceeded",
    ErrorCode.PRECONDITION_FAILED: "It was changed meanwhile",
    ErrorCode.IN_USE: "It is in use",
    ErrorCode.THROTTLED: "Too much at once",
    ErrorCode.BROKER_UNAVAILABLE: "The brokers cannot be reached",
    ErrorCode.INTERNAL: "A fault of the service",
}

_DETAIL_MAX = 500
_NAME_MAX = 100
_FIELDS_MAX = 20
_log = logging.getLogger(__name__)


class RateReached(exceptions.Throttled):
    """A rate of calls, or of what they take, is used up."""

    def __init__(self, *, limit: str, whose: str, most: str, used: str, clears_in_s: float) -> None:
        """`most`: what the limit allows; `used`: what was used of it, as a sentence."""
        super().__init__()
        self.limit = limit
        self.clears_in_s = clears_in_s
        self.wait_s = max(1, math.ceil(clears_in_s))
        """As `Retry-After` has it, in whole seconds: never before the count ends."""
        self.said = f"too many requests: {limit} {whose} is {most}, and {used}; clears in {self.wait_s} s"


def status_of(error: PenstockError) -> int:
    """The table's status. For other codes 503 if a retry helps (it is the brokers' state), else 500 (a fault)."""
    return STATUS.get(error.code, 503 if error.retriable else 500)


def problem(
    status: int, code: ErrorCode, detail: str, fields: dict[str, list[str]] | None = None, title: str = ""
) -> dict[str, Any]:
    """The document's members. Its `code` is the code's name in lower case."""
    name = code.name.lower()
    return {
        "type": f"urn:penstock:error:{name}",
        "title": title or TITLES.get(code, name.replace("_", " ").capitalize()),
        "status": status,
        "detail": _plain_text(detail, _DETAIL_MAX),
        "code": name,
        "fields": {
            _plain_text(field, _NAME_MAX): [_plain_text(text, _DETAIL_MAX) for text in texts[:_FIELDS_MAX]]
            for field, texts in list((fields or {}).items())[:_FIELDS_MAX]
        },
    }


def problem_of(error: PenstockError) -> dict[str, Any]:
    """The document of an error of the table."""
    return problem(status_of(error), error.code, error.message, _fields_of(error.message))


def _plain_text(text: str, most: int) -> str:
    """A caller's text may be quoted, up to `most` characters. Control characters become escapes: they could steer a
    terminal, or hide and reverse text.
    """
    text = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def is_database_away(error: BaseException | None) -> bool:
    """Whether the database could not be asked: it is restarted, another server takes over, or its disk is full."""
    return isinstance(error, OperationalError | InterfaceError)


def database_away() -> dict[str, Any]:
    """The document for it. A change may be made or not; sent again with its idempotency key it is made once."""
    _log.warning("the database does not answer", exc_info=True)
    return problem(
        503,
        ErrorCode.TIMEOUT,
        "the database does not answer; send it again in a moment, a POST with the same idempotency key",
        title=DATABASE_AWAY,
    )


def answer_problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """For the framework: the answer to what a view raised. None: a fault, which the framework re-raises."""
    headers: dict[str, str] = {}
    match error:
        case OperationalError() | InterfaceError():
            status, body = 503, database_away()
            headers["Retry-After"] = str(RETRY_AFTER_S)
        case PenstockError():
            body = problem_of(error)
            if error.limit:
                body["limit"] = error.limit
            status = body["status"]
            if error.retriable:
                headers["Retry-After"] = str(getattr(error, "retry_after_s", RETRY_AFTER_S))
        case exceptions.ValidationError():
            fields = _flat("", error.detail)
            detail = "; ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items())
            status, body = 400, problem(400, ErrorCode.INVALID_REQUEST, detail, fields)
        case RateReached():
            status, body = 429, problem(429, ErrorCode.THROTTLED, error.said)
            body["limit"] = error.limit
            headers["Retry-After"] = str(error.wait_s)
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            status, body = 401, problem(401, ErrorCode.UNAUTHENTICATED, str(error.detail))
        case exceptions.PermissionDenied() | PermissionDenied():
            status, body = 403, problem(403, ErrorCode.FORBIDDEN, "not allowed")
        case RequestDataTooBig():
            status, body = 400, problem(400, ErrorCode.INVALID_REQUEST, "body: too large")
        case Http404():
            status, body = 404, problem(404, ErrorCode.NOT_FOUND, "no such address")
        case exceptions.APIException():
            status = error.status_code
            body = problem(status, ErrorCode.INVALID_REQUEST, str(error.detail))
        case _:
            return None
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def plain(status: int, code: ErrorCode, detail: str) -> JsonResponse:
    """The same outside the framework's views."""
    return JsonResponse(problem(status, code, detail), status=status, content_type=CONTENT_TYPE)


def not_found(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Django's handler of addresses that do not exist."""
    return plain(404, ErrorCode.NOT_FOUND, f"no such address: {request.path[:200]}")


def bad_request(request: HttpRequest, exception: Exception) -> JsonResponse:
    """Django's handler of requests that it refuses itself."""
    return plain(400, ErrorCode.INVALID_REQUEST, "the request is malformed")


def server_error(request: HttpRequest) -> JsonResponse:
    """Django's handler of faults, and of a database that is away: it calls this while it handles the exception."""
    if is_database_away(sys.exception()):
        answer = JsonResponse(database_away(), status=503, content_type=CONTENT_TYPE)
        answer.headers["Retry-After"] = str(RETRY_AFTER_S)
        answer._has_been_logged = True  # type: ignore[attr-defined]
        return answer
    request_id = getattr(request, "request_id", "")
    return plain(500, ErrorCode.INTERNAL, f"report it with the request id {request_id}")


def _fields_of(message: str) -> dict[str, list[str]]:
    """Messages of the service begin with the field that they are about: `name: …`."""
    field, text = split_message(message)
    return {field: [text]} if field else {}


def _flat(name: str, detail: Any) -> dict[str, list[str]]:
    """The framework's nested details by dotted name."""
    if isinstance(detail, dict):
        found: dict[str, list[str]] = {}
        for key, value in detail.items():
            inner = f"{name}.{key}" if name else str(key)
            found.update(_flat(name if key == api_settings.NON_FIELD_ERRORS_KEY else inner, value))
        return found
    if isinstance(detail, list) and any(isinstance(item, dict) for item in detail):
        found = {}
        for index, item in enumerate(detail):
            found.update(_flat(f"{name}[{index}]", item))
        return found
    texts = [str(item) for item in detail] if isinstance(detail, list) else [str(detail)]
    return {name or "body": texts}
