"""Every request gets an id, one line in the log, and a place in the metrics; those with a NUL are refused."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

from control_plane.api import metrics
from control_plane.outbox import wake_ups
from process import logs

HEADER = "X-Request-Id"
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PROBES = ("/healthz", "/readyz", "/metrics")
"""Asked every few seconds by machines, which tell by themselves when an answer is not what they want."""
_log = logging.getLogger("control_plane.requests")


class NoNul:
    """An address or a header with a NUL in it is nobody's, and no database takes one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        headers = (str(value) for name, value in request.META.items() if name.startswith("HTTP_"))
        # What people typed into a search of the console is searched without it.
        hidden = "%00" in query and request.path.startswith("/v1/")
        if hidden or any("\0" in text for text in (request.path, query, *headers)):
            raise BadRequest("a NUL in the address or a header")
        return self._get_response(request)


class Deliveries:
    """What a request has changed and not delivered itself is left to a worker once the answer is ready."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with wake_ups.within_a_request():
            return self._get_response(request)


class RequestLog:
    """An id that the caller gave is kept if it is a plain one, else a new one is made."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        request_id = given if _GIVEN.fullmatch(given) else secrets.token_hex(8)
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
                logging.DEBUG if request.path in _PROBES else logging.INFO,
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
