"""Who sits at the browser: the cookies of a person's session and of an operator, and what they stand for.

A person's cookie holds the token of a session that `tenants.actions.sign_in` opened; signing in always opens a new one.
An operator's cookie holds the public id of their token, signed and for some hours. The token itself is never kept.
"""

from django.core import signing
from django.http import HttpRequest, HttpResponse

from control_plane import config
from control_plane.audit.actor import Actor, ActorKind
from tenants import queries
from tenants.actions import SESSION_LENGTH
from tenants.models import OperatorToken, Person

OPERATOR_S = 8 * 3600
_OPERATOR_SALT = "penstock.console.operator"


def secure() -> bool:
    """Cookies travel over TLS only, wherever the service is reached by it."""
    return config.current().over_tls


def session_cookie() -> str:
    """The prefix makes browsers refuse one that another host or an unprotected page has set."""
    return "__Host-penstock" if secure() else "penstock"


def operator_cookie() -> str:
    return "__Host-penstock-operator" if secure() else "penstock-operator"


def token_of(request: HttpRequest) -> str:
    """The session's token that the browser sent; empty if none."""
    return request.COOKIES.get(session_cookie(), "")[:200]


def person_of(request: HttpRequest) -> Person | None:
    """Who has signed in; asked of the database once a request."""
    if not hasattr(request, "_console_person"):
        token = token_of(request)
        request._console_person = queries.person_of_session(token) if token else None  # type: ignore[attr-defined]
    person: Person | None = request._console_person  # type: ignore[attr-defined]
    return person


def operator_of(request: HttpRequest) -> OperatorToken | None:
    """The operator who has signed in, as long as their token is not revoked."""
    sealed = request.COOKIES.get(operator_cookie(), "")
    if not sealed:
        return None
    try:
        public_id = signing.loads(sealed, salt=_OPERATOR_SALT, max_age=OPERATOR_S)
    except signing.BadSignature:
        return None
    return queries.operator(str(public_id))


def keep_session(response: HttpResponse, token: str) -> None:
    """Give the browser its session."""
    response.set_cookie(
        session_cookie(),
        token,
        max_age=int(SESSION_LENGTH.total_seconds()),
        httponly=True,
        samesite="Lax",
        secure=secure(),
    )


def keep_operator(response: HttpResponse, operator: OperatorToken) -> None:
    """Give the browser an operator's session."""
    response.set_cookie(
        operator_cookie(),
        signing.dumps(operator.public_id, salt=_OPERATOR_SALT),
        max_age=OPERATOR_S,
        httponly=True,
        samesite="Strict",
        secure=secure(),
    )


def forget_session(response: HttpResponse) -> None:
    response.delete_cookie(session_cookie(), samesite="Lax")


def forget_operator(response: HttpResponse) -> None:
    response.delete_cookie(operator_cookie(), samesite="Strict")


def source_of(request: HttpRequest) -> str:
    """The caller's address, as audit entries name it."""
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


def browser_of(request: HttpRequest) -> str:
    """What the browser calls itself."""
    return str(request.META.get("HTTP_USER_AGENT", ""))


def request_id_of(request: HttpRequest) -> str:
    return str(getattr(request, "request_id", ""))


def actor_of(request: HttpRequest, person: Person) -> Actor:
    """The person as the one who acts."""
    return Actor(
        kind=ActorKind.PERSON,
        id=person.public_id,
        request_id=request_id_of(request),
        source=source_of(request),
    )


def operator_actor_of(request: HttpRequest, operator: OperatorToken) -> Actor:
    """The operator as the one who acts."""
    return Actor(
        kind=ActorKind.OPERATOR,
        id=operator.public_id,
        request_id=request_id_of(request),
        source=source_of(request),
    )


def theme_of(request: HttpRequest) -> str:
    """The theme that the person chose here: light, dark, or empty for the system's."""
    chosen = request.COOKIES.get("penstock-theme", "")
    return chosen if chosen in ("light", "dark") else ""
