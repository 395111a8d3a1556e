"""The dialogue with a provider: OpenID Connect's code flow with PKCE, and every check of an ID token.

https://openid.net/specs/openid-connect-core-1_0.html, section 3.1.3.7. The signature is always checked, also over TLS:
a proxy between this service and the provider is no provider.
"""

import base64
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import jwt

from control_plane import config
from control_plane.config import ProviderConfig
from penstock.rules.addresses import is_loopback
from penstock.rules.names import is_printable_name

TIMEOUT_S = 10
"""For each request as a whole, with its answer."""
ANSWER_BYTES_MAX = 256 * 1024
LEEWAY_S = 60
"""How far the provider's clock may be away."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a key that the provider publishes: neither none, nor HMAC with what this service knows."""


class ProviderRefused(Exception):
    """What the provider says is not to be believed, or it does not answer. The message is for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whom a provider says this is."""

    issuer: str
    subject: str
    email: str
    """Empty if the provider says none, or does not say that it is verified."""


def back_url(provider: ProviderConfig) -> str:
    """Where the provider sends people back to."""
    return f"{config.current().public_url.rstrip('/')}/sign-in/with/{provider.id}/back"


def start_url(provider: ProviderConfig, *, state: str, nonce: str, verifier: str) -> str:
    """Where a browser is sent. Raises `ProviderRefused`."""
    endpoint = _endpoint(provider, _discovered(provider), "authorization_endpoint")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urlencode(
        {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": back_url(provider),
            "scope": "openid email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
    )
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"


def identify(provider: ProviderConfig, *, code: str, nonce: str, verifier: str) -> Identity:
    """Who it is that came back with `code`. Raises `ProviderRefused`."""
    known = _discovered(provider)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": back_url(provider),
        "code_verifier": verifier,
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    methods = known.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if not isinstance(methods, list):
        raise ProviderRefused("discovery: token_endpoint_auth_methods_supported: a list required")
    if "client_secret_basic" in methods:
        # Both parts encoded as forms are: RFC 6749, section 2.3.1.
        pair = f"{quote(provider.client_id, safe='')}:{quote(provider.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": provider.client_id, "client_secret": str(provider.client_secret)}
    answer = _asked(
        provider, _endpoint(provider, known, "token_endpoint"), data=urlencode(form).encode(), headers=headers
    )
    token = answer.get("id_token")
    if not isinstance(token, str):
        raise ProviderRefused("the provider sent no id_token")
    keys = _asked(provider, _endpoint(provider, known, "jwks_uri"))
    return identity_in(provider, token, keys=keys, nonce=nonce)


def identity_in(provider: ProviderConfig, token: str, *, keys: dict[str, Any], nonce: str) -> Identity:
    """Whom the ID token names. Raises `ProviderRefused` unless each of its claims is right."""
    try:
        claims = jwt.decode(
            token,
            key=_key(token, keys),
            algorithms=list(ALGORITHMS),
            audience=provider.client_id,
            issuer=provider.issuer,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    # Not implemented: a published key whose own alg is none.
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise ProviderRefused(f"id_token: {type(error).__name__}: {error}") from error
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(errors="replace"), nonce.encode()):
        raise ProviderRefused("id_token: nonce: it was made for another sign-in")
    party = claims.get("azp", provider.client_id)
    if party != provider.client_id or (isinstance(claims["aud"], list) and len(claims["aud"]) > 1):
        raise ProviderRefused("id_token: azp, aud: it was made for another client too")
    subject, email = claims["sub"], claims.get("email")
    if not isinstance(subject, str) or not is_printable_name(subject, 255):
        raise ProviderRefused("id_token: sub: 1 to 255 printable characters required")
    # Only the JSON value true: an address that the provider has not verified proves no person.
    proved = isinstance(email, str) and claims.get("email_verified") is True
    return Identity(issuer=provider.issuer, subject=subject, email=str(email) if proved else "")


def _key(token: str, keys: dict[str, Any]) -> jwt.PyJWK:
    """The published key that the token names; the only one if it names none."""
    header = jwt.get_unverified_header(token)
    if header.get("alg") not in ALGORITHMS:
        raise ProviderRefused(f"id_token: alg: {str(header.get('alg'))[:20]} is not taken")
    published = [one for one in jwt.PyJWKSet.from_dict(keys).keys if one.public_key_use in (None, "sig")]
    wanted = header.get("kid")
    fitting = [one for one in published if wanted is None or one.key_id == wanted]
    if len(fitting) != 1:
        raise ProviderRefused("id_token: kid: the provider publishes no such key")
    return fitting[0]


def _discovered(provider: ProviderConfig) -> dict[str, Any]:
    """What the provider says of itself; it must be the issuer that is configured."""
    found = _asked(provider, f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != provider.issuer:
        raise ProviderRefused("discovery: issuer: it calls itself otherwise than it is configured")
    return found


def _endpoint(provider: ProviderConfig, known: dict[str, Any], name: str) -> str:
    """An address that the provider says. Plain HTTP to this host only from a provider that is there itself: another
    one would reach what listens here for this host alone.
    """
    url, own = known.get(name), urlsplit(provider.issuer)
    local = own.scheme == "http" and is_loopback(own.hostname or "")
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        parts = None
    if parts is None or not (
        parts.scheme == "https" or (local and parts.scheme == "http" and is_loopback(parts.hostname or ""))
    ):
        raise ProviderRefused(f"discovery: {name}: an https URL required")
    return str(url)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """None is followed: who answers is the host that was asked."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Deadline:
    """Ends the connections of one request when its time is up. A read ends by itself only where nothing comes for so
    long: a provider that answers byte by byte would keep this process without an end.
    """

    def __init__(self) -> None:
        self._late = False
        self._opened = list[socket.socket]()
        self._timer = threading.Timer(TIMEOUT_S, self._end)
        self._timer.daemon = True
        self._timer.start()

    def check(self) -> None:
        """Raise `TimeoutError` if it is over."""
        if self._late:
            raise TimeoutError(f"no whole answer within {TIMEOUT_S} s")

    def cancel(self) -> None:
        self._timer.cancel()

    def connection(
        self, kind: Callable[..., http.client.HTTPConnection]
    ) -> Callable[..., http.client.HTTPConnection]:
        """Makes connections of the kind, which end with this."""

        def made(*given: Any, **named: Any) -> http.client.HTTPConnection:
            connection = kind(*given, **named)
            connect = connection.connect

            def noted() -> None:
                connect()
                self._opened.append(connection.sock)
                self.check()  # it may have ended before the socket was noted

            connection.connect = noted  # type: ignore[method-assign]
            return connection

        return made

    def _end(self) -> None:
        self._late = True
        for one in list(self._opened):
            with suppress(OSError):
                # Not its own shutdown, which takes the TLS away that the reader still needs.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._deadline.connection(http.client.HTTPConnection), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._deadline = deadline
        self._with = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        kind = partial(http.client.HTTPSConnection, context=self._with)
        return self.do_open(self._deadline.connection(kind), req)


def _asked(
    provider: ProviderConfig, url: str, *, data: bytes | None = None, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """The JSON object that the provider answers."""
    context = ssl.create_default_context(cafile=None if provider.ca_file is None else str(provider.ca_file))
    deadline = _Deadline()
    opener = urllib.request.build_opener(_NoRedirects, _Http(deadline), _Https(deadline, context))
    where = urlsplit(url).path
    try:
        request = urllib.request.Request(
            url, data=data, headers={"Accept": "application/json", **(headers or {})}
        )
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            text = answer.read(ANSWER_BYTES_MAX + 1)
        deadline.check()
        found = json.loads(text) if len(text) <= ANSWER_BYTES_MAX else None
    except urllib.error.HTTPError as error:
        error.close()
        raise ProviderRefused(f"{where}: status {error.code}") from error
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise ProviderRefused(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        deadline.cancel()
    if not isinstance(found, dict):
        raise ProviderRefused(f"{where}: a JSON object of at most {ANSWER_BYTES_MAX} bytes required")
    return found
