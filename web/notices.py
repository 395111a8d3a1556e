"""A sentence about the last action. A signed cookie carries it over one redirect, and it is shown once."""

from dataclasses import dataclass

from django.core import signing
from django.http import HttpRequest, HttpResponse

_COOKIE = "penstock-notice"
_SALT = "penstock.console.notice"
_SECONDS = 30
_LENGTH_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """`kind` is ok or caution."""

    text: str
    kind: str


def put(response: HttpResponse, text: str, kind: str = "ok") -> HttpResponse:
    """Show `text` on the next page."""
    response.set_cookie(
        _COOKIE,
        signing.dumps([kind, text[:_LENGTH_MAX]], salt=_SALT),
        max_age=_SECONDS,
        httponly=True,
        samesite="Lax",
    )
    return response


def take(request: HttpRequest) -> Notice | None:
    """The notice to show now. The middleware removes it with the answer."""
    sealed = request.COOKIES.get(_COOKIE)
    if not sealed or request.headers.get("HX-Request"):
        return None
    try:
        kind, text = signing.loads(sealed, salt=_SALT, max_age=_SECONDS)
    except (signing.BadSignature, ValueError):
        return None
    request._console_notice_shown = True  # type: ignore[attr-defined]
    return Notice(text=str(text), kind=str(kind))


def forget_shown(request: HttpRequest, response: HttpResponse) -> None:
    """Remove a notice that was shown, unless this answer sets another."""
    if getattr(request, "_console_notice_shown", False) and _COOKIE not in response.cookies:
        response.delete_cookie(_COOKIE, samesite="Lax")
