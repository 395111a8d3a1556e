"""`penstock login`, `logout` and `whoami`: a person signs in from the command line, and commands speak as them."""

import contextlib
import os
import platform
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from penstock import __version__
from penstock.cli.display import line
from penstock.cli.invocation import Command, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_fact, print_json, print_part, say
from penstock.cli.profiles import change_profiles, counted_profile, read_profiles
from penstock.cli.rest import settings
from penstock.cli.sign_ins import SignIn, credential, is_of_service, readable_sign_in
from penstock.cli.topic_changes import timeout_option
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import ConfigurationError, NotFound, PenstockError, Unauthenticated
from penstock.profile_changes import with_field, with_profile
from penstock.profiles import (
    API_KEY,
    DEFAULT_PROFILE,
    PROFILE,
    PROFILE_FILE,
    SIGN_IN,
    connection_settings,
    profile_file,
)
from penstock.rest.client import RestClient

_WHOAMI = "/v1/whoami"
_CODE_MISSING = "code:"
"""The service's word that the password is right, and a code is asked for too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The profile that gets the sign-in, and the service that it is for."""

    file: Path
    profile: str
    fields: Mapping[str, Any]
    settings: ConnectionSettings

    def rest(self, token: str | None, *, timeout: float, tenant: str | None = None) -> RestClient:
        """A client of the service with this token."""
        return RestClient(
            self.settings.api_url,
            token,
            self.settings.ca_file,
            tenant=tenant,
            timeout_s=timeout,
            program=_program(),
        )

    def require_same_service(self) -> None:
        """Raises `click.UsageError` where the profile is of another service: its key and sign-in are not for it."""
        theirs = str(self.fields.get("api_url") or "")
        if theirs and theirs.rstrip("/") != (self.settings.api_url or "").rstrip("/"):
            raise click.UsageError(
                f"Profile {self.profile} is of {theirs}. Name another one for {self.settings.api_url}: --profile NAME."
            )

    def keep(self, sign_in: SignIn | None) -> None:
        """Write the profile with this sign-in, or without one. Raises `ConfigurationError`."""

        def changed(text: str) -> str:
            fresh = text
            if not isinstance(tomllib.loads(text).get(self.profile), dict):
                fresh = with_profile(text, self.profile, {})
            if sign_in is not None and not self.fields.get("api_url"):
                fresh = with_field(fresh, self.profile, "api_url", sign_in.api_url)
            return with_field(fresh, self.profile, SIGN_IN, None if sign_in is None else sign_in.fields())

        change_profiles(self.file, changed)


@click.command(
    "login",
    cls=Command,
    short_help="Sign in as a person.",
    examples=[
        "penstock login",
        "penstock login --email ann@example.com --tenant acme",
        "penstock login --api-url https://penstock.example --profile work",
    ],
)
@click.option("--email", metavar="ADDRESS", help="Your address; without it you are asked.")
@click.option(
    "--tenant", metavar="ID|NAME", help="The tenant that commands are about, of a person with several."
)
@click.option("--api-url", metavar="URL", help="The control plane, where the profile does not name it.")
@click.option(
    "--password-stdin",
    is_flag=True,
    help="Read the password from the first line of standard input, and a code of your second factor from the next.",
)
@timeout_option
def login(
    email: str | None, tenant: str | None, api_url: str | None, password_stdin: bool, timeout: float
) -> None:
    """Sign in with e-mail address, password and, if you have one, a code of your second factor or a recovery code.

    The profile keeps the token, not the password, in a file that only you can read. Commands that ask the control
    plane then speak as you until it ends; messages go with the profile's key as before. It stands among your sign-ins
    in the console, and `penstock logout` ends it.
    """
    target = _target(api_url)
    target.require_same_service()
    address, secrets = _secrets(email, password_stdin)
    with target.rest(None, timeout=timeout) as rest:
        token = _signed_in(rest, address, secrets)
    try:
        with target.rest(token, timeout=timeout) as rest:
            me = rest.get(_WHOAMI)
        chosen = _chosen_tenant(me["tenants"], tenant, _tenant_of_key(target, timeout))
        sign_in = SignIn(
            token=token,
            email=me["name"],
            ends_at=me["expires_at"],
            api_url=target.settings.api_url or "",
            tenant="" if chosen is None else chosen["id"],
        )
        before = readable_sign_in(target.fields)
        target.keep(sign_in)
    except BaseException:
        _end(target, token, timeout)
        raise
    if before is not None and is_of_service(before, target.settings.api_url):
        _end(target, before.token, timeout)
    if current().json:
        print_json(
            {
                "profile": target.profile,
                "email": sign_in.email,
                "tenant": chosen,
                "expires_at": sign_in.ends_at,
            }
        )
        return
    about = "no tenant" if chosen is None else f"{chosen['role']} of {chosen['name']}"
    say(
        line(
            f"Signed in as {sign_in.email}, {about}, until {moment(sign_in.ends_at)} (profile {target.profile})."
        )
    )
    if os.environ.get(API_KEY):
        say(f"{API_KEY} is set here, and goes before it.")


@click.command(
    "logout", cls=Command, short_help="End the sign-in of the profile.", examples=["penstock logout"]
)
@click.option(
    "--forget-only",
    is_flag=True,
    help="Take it from the profile without asking the service, which takes the token until it ends.",
)
@timeout_option
def logout(forget_only: bool, timeout: float) -> None:
    """End the sign-in at the service, and take it from the profile. The profile's key stays."""
    target = _target(None)
    sign_in = readable_sign_in(target.fields)
    if sign_in is None and target.fields.get(SIGN_IN) is not None:
        target.keep(None)
        raise ConfigurationError(
            f"profile {target.profile!r}: the sign-in could not be read and is forgotten; end it in the console"
        )
    if sign_in is None:
        raise NotFound(
            f"profile {target.profile!r}: no person has signed in; `penstock whoami` shows what is used"
        )
    if not forget_only:
        with (
            RestClient(sign_in.api_url, sign_in.token, target.settings.ca_file, timeout_s=timeout) as rest,
            contextlib.suppress(Unauthenticated),
        ):
            rest.post("/v1/sign-out")
    target.keep(None)
    if current().json:
        print_json({"profile": target.profile, "email": sign_in.email, "ended": not forget_only})
        return
    say(
        line(
            f"{sign_in.email} is signed out."
            if not forget_only
            else f"Forgot the sign-in of {sign_in.email}."
        )
    )


@click.command(
    "whoami", cls=Command, short_help="Show who the commands speak as.", examples=["penstock whoami"]
)
@timeout_option
def whoami(timeout: float) -> None:
    """Show who asks the control plane and with what, until when, and each tenant with the role in it."""
    chosen = settings()
    used = credential(chosen)
    with RestClient(chosen.api_url, used.text, chosen.ca_file, timeout_s=timeout) as rest:
        me = rest.get(_WHOAMI)
    about = None if used.sign_in is None else used.sign_in.tenant
    messages = "key" if chosen.api_key and not chosen.api_key.startswith("pss_") else None
    if current().json:
        print_json({**me, "service": chosen.api_url, "tenant": about, "messages_with": messages})
        return
    until = "without an end" if me["expires_at"] is None else f"until {moment(me['expires_at'])}"
    print_fact(
        "caller",
        [me["kind"], me["name"], me["id"], me["expires_at"] or ""],
        line(f"{me['kind']} {me['name']}  ({me['id']}), {until}, at {chosen.api_url}"),
    )
    print_fact(
        "messages",
        [messages or ""],
        "Messages go with the profile's key."
        if messages
        else "There is no key for messages: penstock key create",
    )
    rows = [
        [tenant["name"], tenant["id"], tenant["role"] or "-", "used" if tenant["id"] == about else ""]
        for tenant in me["tenants"]
    ]
    if rows:
        print_part("tenant", ["tenant", "id", "role", ""], rows)
    if me["tenants_count"] > len(rows):
        say(f"and {me['tenants_count'] - len(rows)} tenants more")


def _target(api_url: str | None) -> _Target:
    """Raises `click.UsageError` where no service is named."""
    file = profile_file()
    profiles = read_profiles(file)
    name = counted_profile(profiles) or DEFAULT_PROFILE
    fields = profiles.get(name)
    has_fields = isinstance(fields, dict)
    chosen = connection_settings(
        profile=name if has_fields else None,
        brokers=False,
        api_url=api_url,
        environment=os.environ if has_fields else _without_profiles(),
    )
    if not chosen.api_url:
        raise click.UsageError("Name the service: --api-url URL, PENSTOCK_API_URL, or a profile that has it.")
    return _Target(
        file=file, profile=name, fields=fields if isinstance(fields, dict) else {}, settings=chosen
    )


def _without_profiles() -> dict[str, str]:
    """The environment of a profile that is not there yet: no other one names its service."""
    named = {name: value for name, value in os.environ.items() if name != PROFILE}
    return {**named, PROFILE_FILE: os.devnull}


class _Secrets:
    """Password and codes, asked for on the terminal or read from the standard input."""

    def __init__(self, *, from_input: bool) -> None:
        self._from_input = from_input

    def password(self) -> str:
        """The password."""
        return self._next("Password")

    def code(self) -> str:
        """A code; empty where the standard input has no more."""
        return self._next("Code of your second factor, or a recovery code")

    def _next(self, question: str) -> str:
        if self._from_input:
            return sys.stdin.readline().rstrip("\r\n")
        return str(click.prompt(question, hide_input=True, err=True))


def _secrets(email: str | None, password_stdin: bool) -> tuple[str, _Secrets]:
    """The address and where secrets come from. Raises `click.UsageError` where no person can be asked."""
    if not password_stdin and (current().json or not sys.stdin.isatty()):
        raise click.UsageError("There is no terminal to ask on: give --email, and --password-stdin.")
    if email is None and password_stdin:
        raise click.UsageError("--password-stdin needs --email.")
    address = email if email is not None else str(click.prompt("E-mail address", err=True))
    return address, _Secrets(from_input=password_stdin)


def _signed_in(rest: RestClient, email: str, secrets: _Secrets) -> str:
    """The token of a new sign-in. Raises `Unauthenticated`, `Throttled`."""
    body = {"email": email, "password": secrets.password()}
    try:
        return str(rest.post("/v1/sign-in", body)["token"])
    except Unauthenticated as refused:
        if not refused.message.startswith(_CODE_MISSING):
            raise
        code = secrets.code()
        if not code:
            raise
    return str(rest.post("/v1/sign-in", {**body, "code": code})["token"])


def _tenant_of_key(target: _Target, timeout: float) -> str | None:
    """Id of the tenant of the profile's key; None without one, or where it may be of another service."""
    key = target.fields.get("api_key")
    if not isinstance(key, str) or not target.fields.get("api_url"):
        return None
    try:
        with target.rest(key, timeout=timeout) as rest:
            tenants = rest.get(_WHOAMI)["tenants"]
    except PenstockError:
        return None
    return str(tenants[0]["id"]) if tenants else None


def _chosen_tenant(
    tenants: Sequence[Mapping[str, Any]], asked: str | None, of_key: str | None
) -> Mapping[str, Any] | None:
    """The tenant that commands are about: the one asked for, or that of the profile's key, or the only one.

    Raises `NotFound` where the person has no role in it, `click.UsageError` where they have several.
    """
    named = asked or of_key
    if named is not None:
        of_name = [tenant for tenant in tenants if named == tenant["id"]]
        of_name = of_name or [tenant for tenant in tenants if named == tenant["name"]]
        if not of_name:
            whose = "" if asked else ", to which the profile's key belongs; sign in with another --profile"
            raise NotFound(f"you have no role in tenant {named!r}{whose}")
        if of_key is not None and of_name[0]["id"] != of_key:
            raise click.UsageError("The profile's key is of another tenant: sign in with another --profile.")
        return of_name[0]
    if len(tenants) > 1:
        names = ", ".join(str(tenant["name"]) for tenant in tenants[:20])
        raise click.UsageError(f"You have several tenants: name one with --tenant. They are {names}.")
    return tenants[0] if tenants else None


def _end(target: _Target, token: str, timeout: float) -> None:
    """End a sign-in at the service that is not needed any more; if that fails it ends by itself."""
    with contextlib.suppress(PenstockError), target.rest(token, timeout=timeout) as rest:
        rest.post("/v1/sign-out")


def _program() -> str:
    """The name under which the sign-in stands in the console."""
    host = platform.node()
    return (
        f"penstock {__version__} on {host}"
        if host.isascii() and host.isprintable()
        else f"penstock {__version__}"
    )
