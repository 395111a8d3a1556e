"""Sign-ins that `penstock login` has put into profiles: a token of a person beside the profile's key.

A profile has one, as the line `sign_in` of its table. Its token goes to the service that made it and to no other.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from penstock.cli.connection import chosen_profile
from penstock.cli.invocation import current
from penstock.cli.output import say
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import ConfigurationError
from penstock.profiles import API_KEY, SIGN_IN, read_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A person who has signed in on this machine. Raises `ConfigurationError` for a moment that is none."""

    token: str = field(repr=False)
    email: str
    ends_at: str
    """ISO 8601, as the service says it."""
    api_url: str
    """The service that the token is for."""
    tenant: str = ""
    """Id of the tenant that commands are about; empty: the person has none."""

    def __post_init__(self) -> None:
        _ = self.end

    @property
    def end(self) -> datetime:
        """When the service takes the token no more."""
        try:
            return datetime.fromisoformat(self.ends_at).astimezone(UTC)
        except (ValueError, OverflowError):
            raise ConfigurationError(f"{SIGN_IN}: {self.ends_at!r} is no moment: penstock login") from None

    def fields(self) -> dict[str, str]:
        """The fields of the profile's table."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The token or key that a call to the control plane carries, and the tenant that it names."""

    text: str | None = field(repr=False)
    tenant: str | None = None
    sign_in: SignIn | None = None
    """Set where it is the token of this sign-in."""


def sign_in_of(profile: Mapping[str, Any]) -> SignIn | None:
    """The sign-in in a profile's fields. Raises `ConfigurationError` for one that is not whole."""
    kept = profile.get(SIGN_IN)
    if kept is None:
        return None
    if not isinstance(kept, dict) or not all(isinstance(value, str) for value in kept.values()):
        raise ConfigurationError(f"{SIGN_IN}: no sign-in of `penstock login`; sign in again")
    names = [each.name for each in fields(SignIn)]
    try:
        return SignIn(**{name: value for name, value in kept.items() if name in names})
    except TypeError:
        raise ConfigurationError(f"{SIGN_IN}: no sign-in of `penstock login`; sign in again") from None


def readable_sign_in(profile: Mapping[str, Any]) -> SignIn | None:
    """The sign-in, and None for one that is not whole: commands that replace or forget it need no more."""
    try:
        return sign_in_of(profile)
    except ConfigurationError:
        return None


def is_of_service(sign_in: SignIn, api_url: str | None) -> bool:
    """True where the token was made by the service of this address."""
    return sign_in.api_url.rstrip("/") == (api_url or "").rstrip("/")


def credential(chosen: ConnectionSettings) -> Credential:
    """The credential of this invocation's calls to the control plane: PENSTOCK_API_KEY, else the sign-in of the
    profile as long as it lasts, else the profile's key.

    Raises `ConfigurationError` where a sign-in has ended and there is no key.
    """
    if os.environ.get(API_KEY):
        return Credential(text=chosen.api_key)
    sign_in = sign_in_of(read_profile(chosen_profile()))
    if sign_in is None or not is_of_service(sign_in, chosen.api_url):
        return Credential(text=chosen.api_key)
    if sign_in.end > datetime.now(UTC):
        return Credential(text=sign_in.token, tenant=sign_in.tenant or None, sign_in=sign_in)
    ended = f"the sign-in of {sign_in.email} ended at {sign_in.ends_at}"
    if chosen.api_key is None:
        raise ConfigurationError(f"{ended}: sign in again with `penstock login`")
    if not current().json:
        say(f"Note: {ended}, so the profile's key is used. Sign in again: penstock login")
    return Credential(text=chosen.api_key)
