"""Pages for what went wrong; programs keep getting problem documents."""

import re

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from control_plane.api import problems
from penstock.contract.errors import Belief, ErrorCode, NotFound, PenstockError
from web import sessions
from web.refusals import as_sentence, split_message

_STALE_FORM = "This form is not valid any more"
_HEADINGS = {
    400: "That request makes no sense here",
    401: "Please sign in again",
    403: "That is not yours to do",
    404: "There is nothing here",
    409: "That exists already",
    422: "A limit stands in the way",
    429: "Too much at once",
    500: "Something broke on our side",
    503: "The brokers do not answer",
}
_GONE = "It may have been removed, have another name, or belong to somebody else."


def refused(request: HttpRequest, error: PenstockError) -> HttpResponse:
    """The page of a refusal; a small note where only a part of a page was asked for."""
    status = problems.status_of(error)
    _, text = split_message(error.message)
    remedy = error.remedy
    if status == 503:
        # The message tells of connections, the remedy is for who runs the brokers.
        unknown = error.belief is Belief.UNKNOWN
        done = "whether your request was done is not known" if unknown else "nothing was changed"
        text, remedy = f"It may be over in a moment; {done}.", "Look again." if unknown else "Try again."
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
    if _is_rest(request):
        return problems.not_found(request, exception)
    return _page(request, 404, f"No page has the address {request.path[:200]}.", "", "NOT_FOUND")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler of requests that it refuses itself."""
    if _is_rest(request):
        return problems.bad_request(request, exception)
    return _page(request, 400, "The request is malformed.", "", "INVALID_REQUEST")


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler of faults."""
    if _is_rest(request):
        return problems.server_error(request)
    # Without the request: what every page asks of the database may be what failed.
    context = {
        "heading": _HEADINGS[500],
        "frame": "web/door.html",
        "text": "Whether your last change was made, the audit log tells.",
        "remedy": "Report it with the request id.",
        "code": ErrorCode.INTERNAL.name.lower(),
        "status": 500,
        "request_id": sessions.request_id_of(request),
    }
    return HttpResponse(render_to_string("web/error.html", context), status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form that this service did not hand out, or whose cookie is gone."""
    return _page(
        request,
        403,
        "The form could not be trusted: its token is missing or old.",
        "Nothing was changed. Go back, reload the page and send the form again; cookies must be allowed.",
        ErrorCode.FORBIDDEN.name,
        heading=_STALE_FORM,
    )


def _find_place(request: HttpRequest) -> None:
    """An address below a tenant's or the operators' that does not exist keeps their pages beside it."""
    from web.places import place_of

    if request.path.startswith("/operator/") and not hasattr(request, "operator"):
        operator = sessions.operator_of(request)
        if operator is not None:
            request.operator = operator  # type: ignore[attr-defined]
        return
    match = re.match(r"/t/([^/]+)/", request.path)
    person = sessions.person_of(request)
    if match is None or person is None or hasattr(request, "place"):
        return
    try:
        request.place = place_of(request, person, match[1])  # type: ignore[attr-defined]
    except NotFound:
        pass


def _frame(request: HttpRequest) -> str:
    """The page that an error stands in: the tenant's or the operator's, where it is in one; the door otherwise."""
    if hasattr(request, "place"):
        return "web/page.html"
    if hasattr(request, "operator"):
        return "web/operator_page.html"
    return "web/door.html"


def _here(request: HttpRequest) -> str:
    """Which of a tenant's pages the address belongs to."""
    match = re.match(r"/t/[^/]+/(topics|groups?|invoices|keys|people)\b", request.path)
    return "" if match is None else "groups" if match[1] == "group" else match[1]


def _is_rest(request: HttpRequest) -> bool:
    from web.middleware import is_console

    return not is_console(request)


def _page(
    request: HttpRequest, status: int, text: str, remedy: str, code: str, heading: str = ""
) -> HttpResponse:
    _find_place(request)
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
