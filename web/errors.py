"""Pages for errors. Programs get problem documents instead."""

import logging
import re
import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from control_plane.api import problems
from control_plane.api.addresses import for_programs
from penstock.contract.errors import Belief, ErrorCode, NotFound, PenstockError, split_message
from web import sessions
from web.refusals import as_sentence
from web.tenant_access import access_of

_log = logging.getLogger(__name__)
_STALE_FORM = "This form is not valid any more"
_HEADINGS = {
    400: "This request is not valid",
    401: "Please sign in again",
    403: "You may not do this",
    404: "There is nothing here",
    409: "That exists already",
    422: "A limit does not allow this",
    429: "Too much at once",
    500: "Something failed in the service",
    503: "The brokers do not answer",
}
_GONE = "It may be removed, have another name, or belong to another tenant."


def refused(request: HttpRequest, error: PenstockError) -> HttpResponse:
    """The page of a refusal; a short note if the request is for a part of a page."""
    status = problems.status_of(error)
    _, text = split_message(error.message)
    remedy = error.remedy
    if status == 503:
        # The message is about connections, and the remedy is for the brokers' operators.
        unknown = error.belief is Belief.UNKNOWN
        done = "it is not known whether your request was done" if unknown else "nothing was changed"
        text, remedy = f"This may end in a moment; {done}.", "Check it." if unknown else "Try again."
    elif status == 404:
        remedy = _GONE
    text = as_sentence(text)
    if not text.endswith((".", "!", "?")):
        text += "."
    response = _page(request, status, text, remedy, error.code.name)
    if error.retriable:
        response.headers["Retry-After"] = str(problems.RETRY_AFTER_S)
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of addresses that do not exist."""
    if for_programs(request.path):
        return problems.not_found(request, exception)
    return _page(request, 404, f"No page has the address {request.path[:200]}.", "", "NOT_FOUND")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of requests that it refuses itself."""
    if for_programs(request.path):
        return problems.bad_request(request, exception)
    return _page(request, 400, "The request is malformed.", "", "INVALID_REQUEST")


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of faults."""
    if for_programs(request.path):
        return problems.server_error(request)
    away = problems.is_database_away(sys.exception())
    status = 503 if away else 500
    # Without the request: the database, which every page reads, may be what failed.
    context = {
        "heading": problems.DATABASE_AWAY if away else _HEADINGS[500],
        "frame": "web/signed_out.html",
        "text": "The audit log shows whether your last change was made.",
        "remedy": "Load the page again in a moment." if away else "Report it with the request id.",
        "code": (ErrorCode.TIMEOUT if away else ErrorCode.INTERNAL).name.lower(),
        "status": status,
        "request_id": sessions.request_id_of(request),
    }
    response = HttpResponse(render_to_string("web/error.html", context), status=status)
    if away:
        _log.warning("the database does not answer", exc_info=True)
        response.headers["Retry-After"] = str(problems.RETRY_AFTER_S)
        response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that this service did not send, or whose cookie is missing."""
    return _page(
        request,
        403,
        "The form was refused: its token is missing or old.",
        "Nothing was changed. Go back, reload the page and send the form again; cookies must be allowed.",
        ErrorCode.FORBIDDEN.name,
        heading=_STALE_FORM,
    )


def _find_frame(request: HttpRequest) -> None:
    """Find out whose address it is, so that an error below a tenant's or the operators' pages keeps their menu."""
    if request.path.startswith("/operator/") and not hasattr(request, "operator"):
        operator = sessions.operator_of(request)
        if operator is not None:
            request.operator = operator  # type: ignore[attr-defined]
        return
    match = re.match(r"/t/([^/]+)/", request.path)
    person = sessions.person_of(request)
    if match is None or person is None or hasattr(request, "access"):
        return
    try:
        request.access = access_of(request, person, match[1])  # type: ignore[attr-defined]
    except NotFound:
        pass


def _frame(request: HttpRequest) -> str:
    """The template around an error: a tenant's page, an operator's page, or that of people who are not signed in."""
    if hasattr(request, "access"):
        return "web/page.html"
    if hasattr(request, "operator"):
        return "web/operator_page.html"
    return "web/signed_out.html"


def _here(request: HttpRequest) -> str:
    """The entry of the tenant's menu that the address belongs to."""
    match = re.match(r"/t/[^/]+/(topics|groups?|invoices|keys|people)\b", request.path)
    return "" if match is None else "groups" if match[1] == "group" else match[1]


def _page(
    request: HttpRequest, status: int, text: str, remedy: str, code: str, heading: str = ""
) -> HttpResponse:
    _find_frame(request)
    context = {
        "heading": heading or _HEADINGS.get(status, "That did not work"),
        "frame": _frame(request),
        "here": _here(request),
        "text": text,
        "remedy": remedy,
        "code": code.lower(),
        "status": status,
        "request_id": sessions.request_id_of(request),
    }
    fragment = request.headers.get("HX-Request") == "true"
    return render(request, "web/error_note.html" if fragment else "web/error.html", context, status=status)
