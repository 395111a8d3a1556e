"""The dialogue with a passkey (WebAuthn): a challenge, and the check of what the passkey signed.

allauth keeps the challenge in a session of the web framework. Here it is a value that the caller stores with the
request that it belongs to, and takes away with the first answer.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal import auth
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode

from control_plane import config
from penstock.contract.errors import InvalidRequest
from tenants.models import Person

ANSWER_LENGTH_MAX = 20_000
"""Characters of what a browser sends: some passkeys add certificates."""


def are_possible() -> bool:
    """Whether browsers take passkeys for this service: it has a host name, and TLS unless it is on this machine."""
    parts = urlsplit(config.current().public_url)
    host = parts.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return parts.scheme == "https" or host == "localhost"
    return False


def ask_to_register(person: Person) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the browser's `credentials.create` takes, and the challenge to keep."""
    with _kept({}) as session:
        options = auth.begin_registration(person, passwordless=False)
        return options, session[auth.STATE_SESSION_KEY]


def check_registration(state: Mapping[str, Any], answer: dict[str, Any]) -> None:
    """Raises `InvalidRequest` unless the answer is that of a passkey to this challenge."""
    with _kept({auth.STATE_SESSION_KEY: dict(state)}), _refusing():
        auth.complete_registration(answer)


def ask_to_sign(person: Person) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the browser's `credentials.get` takes, and the challenge to keep."""
    with _kept({}) as session:
        options = auth.begin_authentication(person)
        return options, session[auth.STATE_SESSION_KEY]


def check_signature(person: Person, state: Mapping[str, Any], answer: dict[str, Any]) -> Authenticator:
    """The passkey of the person that signed the challenge. Raises `InvalidRequest`."""
    with _kept({auth.STATE_SESSION_KEY: dict(state)}), _refusing():
        row = auth.complete_authentication(person, answer)
    count = _count(answer)
    before = int(row.data.get("count", 0))
    if count <= before and (count or before):
        # https://www.w3.org/TR/webauthn-3/#sctn-sign-counter: a copy of the passkey may be about.
        raise InvalidRequest("passkey: its counter went back; it may have been copied")
    row.data["count"] = count
    return row


def _count(answer: dict[str, Any]) -> int:
    """The counter that the passkey signed: four bytes after the hash and the flags of the authenticator's data."""
    return int.from_bytes(websafe_decode(answer["response"]["authenticatorData"])[33:37], "big")


@contextmanager
def _kept(session: dict[str, Any]) -> Iterator[dict[str, Any]]:
    with context.request_context(SimpleNamespace(session=session)):
        yield session


@contextmanager
def _refusing() -> Iterator[None]:
    """What a browser sent is anything at all: whatever does not fit the challenge is one refusal."""
    try:
        yield
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InvalidRequest("passkey: its answer does not fit; try again") from error
    except Exception as error:
        # cryptography raises InvalidSignature, which derives from Exception alone, and fido2 its own.
        raise InvalidRequest("passkey: its answer does not fit; try again") from error
