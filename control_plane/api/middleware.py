"""Every request gets an id, one line in the log, and is counted in the metrics. Requests with a NUL are refused."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.core.exceptions import BadRequest
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from control_plane.api import addresses, metrics
from control_plane.outbox import wake_ups
from daemon import logs

HEADER = "X-Request-Id"
TOOK = "penstock.took"
"""Where a request has what counts the seconds of processor time that it took."""
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("control_plane.requests")


def request_id_of(environ: Mapping[str, Any]) -> str:
    """The caller's own if it has plain characters only, else a new one."""
    given = str(environ.get("HTTP_X_REQUEST_ID", ""))
    return given if _GIVEN.fullmatch(given) else secrets.token_hex(8)


class NoNul:
    """Refuses an address or a header with a NUL in it: no object has such a name, and PostgreSQL takes none."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        headers = (str(value) for name, value in request.META.items() if name.startswith("HTTP_"))
        # The console's search removes a NUL from what a person typed.
        hidden = "%00" in query and request.path.startswith(addresses.REST)
        if hidden or any("\0" in text for text in (request.path, query, *headers)):
            raise BadRequest("a NUL in the address or a header")
        return self._get_response(request)


class Deliveries:
    """Wakes a worker, once the answer is ready, for the changes that the request did not deliver itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with wake_ups.within_a_request():
            return self._get_response(request)


class ProcessorTime:
    """Counts what a request took of a processor on its thread, the making of its answer included, where asked to."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.thread_time()
        try:
            response = self._get_response(request)
        finally:
            _count(request, began)
        if isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse):
            parts = response.streaming_content
            if isinstance(parts, Iterator):
                response.streaming_content = _timed(parts, request)
        return response


def _timed(parts: Iterator[bytes], request: HttpRequest) -> Iterator[bytes]:
    """The parts of an answer that are made while they are sent, on the thread that sends them."""
    began = time.thread_time()
    try:
        yield from parts
    finally:
        _count(request, began)


def _count(request: HttpRequest, began: float) -> None:
    counts: Callable[[float], None] | None = request.META.get(TOOK)
    if counts is not None:
        counts(time.thread_time() - began)


class RequestLog:
    """Uses the caller's request id if it has plain characters only, else makes a new one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request.META)
        request.request_id = request_id  # type: ignore[attr-defined]
        began = time.monotonic()
        mark = logs.request_id.set(request_id)
        try:
            response = self._get_response(request)
            took_s = time.monotonic() - began
            match = request.resolver_match
            route = match.route if match is not None else "unknown"
            metrics.count(request.method or "", route, response.status_code, took_s)
            _log.log(
                logging.DEBUG if request.path in addresses.PROBES else logging.INFO,
                "request",
                extra={
                    "method": request.method,
                    "path": request.path,
                    "status": response.status_code,
                    "ms": round(took_s * 1000, 1),
                },
            )
        finally:
            logs.request_id.reset(mark)
        response.headers[HEADER] = request_id
        return response
