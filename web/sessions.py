"""Who uses the browser: the cookies of a person's session and of an operator.

A person's cookie is the token of a session that `tenants.actions.sign_in` opened; signing in always opens a new one. An
operator's cookie is the signed public id of their token, valid for some hours. The token itself is never stored.
"""

from django.core import signing
from django.http import HttpRequest, HttpResponse

from control_plane import config
from control_plane.audit.actor import Actor, ActorKind
from tenants import queries
from tenants.actions import SESSION_LENGTH
from tenants.models import OperatorToken, Person
from tenants.providers.actions import ATTEMPT_LENGTH
from tenants.sign_in.actions import PENDING_LENGTH

OPERATOR_S = 8 * 3600
_OPERATOR_SALT = "penstock.console.operator"


def secure() -> bool:
    """Whether cookies are sent over TLS only: if people reach the service over TLS."""
    return config.current().over_tls


def session_cookie() -> str:
    """The cookie's name. Its prefix makes browsers refuse a cookie that another host or a page without TLS has set."""
    return "__Host-penstock" if secure() else "penstock"


def operator_cookie() -> str:
    return "__Host-penstock-operator" if secure() else "penstock-operator"


def token_of(request: HttpRequest) -> str:
    """The session's token that the browser sent; empty if it sent none."""
    return request.COOKIES.get(session_cookie(), "")[:200]


def person_of(request: HttpRequest) -> Person | None:
    """Who has signed in. A request reads it from the database once."""
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


def pending_of(request: HttpRequest) -> str:
    """The token of the sign-in that waits for a second factor in this browser; empty if there is none."""
    return request.COOKIES.get(_pending_cookie(), "")[:200]


def keep_pending(response: HttpResponse, token: str) -> None:
    """Let the browser go on with the second factor."""
    response.set_cookie(
        _pending_cookie(),
        token,
        max_age=int(PENDING_LENGTH.total_seconds()),
        httponly=True,
        samesite="Lax",
        secure=secure(),
    )


def forget_pending(response: HttpResponse) -> None:
    response.delete_cookie(_pending_cookie(), samesite="Lax")


def _pending_cookie() -> str:
    return "__Host-penstock-pending" if secure() else "penstock-pending"


def attempt_of(request: HttpRequest) -> str:
    """What this browser was sent to a provider with; empty if it was not."""
    return request.COOKIES.get(_attempt_cookie(), "")[:200]


def keep_attempt(response: HttpResponse, token: str) -> None:
    """Know this browser again when the provider sends it back."""
    response.set_cookie(
        _attempt_cookie(),
        token,
        max_age=int(ATTEMPT_LENGTH.total_seconds()),
        httponly=True,
        samesite="Lax",
        secure=secure(),
    )


def forget_attempt(response: HttpResponse) -> None:
    response.delete_cookie(_attempt_cookie(), samesite="Lax")


def _attempt_cookie() -> str:
    return "__Host-penstock-attempt" if secure() else "penstock-attempt"


def forget_session(response: HttpResponse) -> None:
    response.delete_cookie(session_cookie(), samesite="Lax")


def forget_operator(response: HttpResponse) -> None:
    response.delete_cookie(operator_cookie(), samesite="Strict")


def source_of(request: HttpRequest) -> str:
    """The caller's address, as audit entries name it."""
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


def browser_of(request: HttpRequest) -> str:
    """The name that the browser sends."""
    return str(request.META.get("HTTP_USER_AGENT", ""))


def request_id_of(request: HttpRequest) -> str:
    return str(getattr(request, "request_id", ""))


def actor_of(request: HttpRequest, person: Person) -> Actor:
    """The person as the actor of changes."""
    return Actor(
        kind=ActorKind.PERSON,
        id=person.public_id,
        request_id=request_id_of(request),
        source=source_of(request),
    )


def stranger_of(request: HttpRequest) -> Actor:
    """Who has no valid credential, by their address."""
    source = source_of(request)
    return Actor(kind=ActorKind.ANONYMOUS, id=source, request_id=request_id_of(request), source=source)


def operator_actor_of(request: HttpRequest, operator: OperatorToken) -> Actor:
    """The operator as the actor of changes."""
    return Actor(
        kind=ActorKind.OPERATOR,
        id=operator.public_id,
        request_id=request_id_of(request),
        source=source_of(request),
    )


def theme_of(request: HttpRequest) -> str:
    """The theme that the person chose: light, dark, or empty for the system's."""
    chosen = request.COOKIES.get("penstock-theme", "")
    return chosen if chosen in ("light", "dark") else ""
