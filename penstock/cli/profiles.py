"""`penstock profile add`, `list`, `use` and `remove`: which services this machine knows, and which counts."""

import os
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.connection import chosen_profile
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, say
from penstock.contract.errors import ConfigurationError
from penstock.profile_changes import Field, change_file, with_profile, with_used, without_profile
from penstock.profiles import (
    API_KEY,
    BOOTSTRAP,
    PROFILE,
    PROFILE_FILE,
    USED,
    connection_settings,
    profile_file,
)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@click.group(name="profile", cls=Group, path=("profile",))
def profile() -> None:
    """Profiles of this machine: add, list, use, remove."""


@profile.command(
    "add",
    examples=[
        "penstock profile add staging --bootstrap b1.example:9092,b2.example:9092",
        "penstock profile add ci --bootstrap b1.example:9092 --api-url https://penstock.example",
    ],
)
@click.argument("name")
@click.option("--bootstrap", required=True, metavar="HOST:PORT,...", help="Brokers to begin with.")
@click.option("--api-url", metavar="URL", help="The control plane, for commands beyond messages.")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    metavar="FILE",
    help="Certificates to trust, PEM; brokers off this machine need it.",
)
def profile_add(name: str, bootstrap: str, api_url: str | None, ca_file: str | None) -> None:
    """Keep a service's addresses with a key under a name. The key is PENSTOCK_API_KEY, else asked for; it is never
    an argument, which other users of this machine could read. The first profile of a machine is used from then on.
    """
    if not _NAME.fullmatch(name) or name == USED:
        raise click.UsageError(
            f"{name!r} is no name for a profile: letters, digits, - and _, and not {USED!r}."
        )
    key = os.environ.get(API_KEY) or ""
    if not key:
        if current().json or not sys.stdin.isatty():
            raise click.UsageError(f"There is no terminal to ask for the key on: set {API_KEY}.")
        key = click.prompt("API key", hide_input=True, err=True)
    wanted = connection_settings(
        bootstrap=bootstrap,
        api_key=key,
        api_url=api_url,
        ca_file=ca_file,
        environment={PROFILE_FILE: os.devnull},
    )
    file = profile_file()
    fields: dict[str, Field] = {"bootstrap": list(wanted.bootstrap), "api_key": key}
    fields |= {
        field: value for field, value in (("api_url", wanted.api_url), ("ca_file", wanted.ca_file)) if value
    }
    first = not any(isinstance(found, dict) for found in read_profiles(file).values())

    def added(text: str) -> str:
        if name in tomllib.loads(text):
            raise ConfigurationError(
                f"profile {name!r}: is there already; remove it first: penstock profile remove {name}"
            )
        fresh = with_profile(text, name, fields)
        return with_used(fresh, name) if first else fresh

    change_profiles(file, added)
    if current().json:
        print_json({"profile": name, "file": str(file), "used": first})
        return
    say(f"Added {name} to {file}." + (" Commands use it now." if first else ""))


@profile.command("list", examples=["penstock profile list"])
def profile_list() -> None:
    """List the profiles with the service that each points to, and which one is used. Keys are not shown."""
    file = profile_file()
    profiles = read_profiles(file)
    counts = counted_profile(profiles)
    found = [
        {
            "profile": name,
            "used": name == counts,
            "api_url": fields.get("api_url"),
            "bootstrap": fields.get("bootstrap"),
            "tenant": fields.get("tenant"),
            "data": fields.get("data"),
        }
        for name, fields in sorted(profiles.items())
        if isinstance(fields, dict)
    ]
    if current().json:
        print_json({"file": str(file), "profiles": found})
        return
    print_table(
        ["profile", "used", "service", "tenant", "data of"],
        [
            [
                one["profile"],
                "used" if one["used"] else "",
                one["api_url"] or _addresses(one["bootstrap"]),
                one["tenant"] or "",
                one["data"] or "",
            ]
            for one in found
        ],
        empty=f"No profiles in {file}. Of a service that runs: penstock profile add; a new one: penstock dev up",
    )


@profile.command("use", examples=["penstock profile use staging"])
@click.argument("name")
def profile_use(name: str) -> None:
    """Use this profile when none is named: the commands, and programs with the SDK."""
    file = profile_file()
    change_profiles(file, lambda text: with_used(text, name))
    if current().json:
        print_json({"profile": name, "used": True})
        return
    say(f"Commands use {name} now.")
    for variable in (PROFILE, BOOTSTRAP):
        if os.environ.get(variable):
            say(f"{variable} is set here, and goes before it.")


@profile.command("remove", examples=["penstock profile remove staging", "penstock profile remove old --yes"])
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def profile_remove(name: str, yes: bool) -> None:
    """Remove a profile with its key and sign-in from this machine. The key stays valid until it is revoked, the sign-in
    until it ends: `penstock logout` ends it.
    """
    file = profile_file()
    change_profiles(
        file,
        lambda text: without_profile(text, name),
        None if yes else f"Remove profile {name} with its key from {file}?",
    )
    if current().json:
        print_json({"profile": name, "removed": True})
        return
    say(f"Removed {name}.")


def counted_profile(profiles: dict[str, Any]) -> str | None:
    """The profile that commands would read now, which need not be there; None when the environment alone counts."""
    used = profiles.get(USED)
    named = current().profile or os.environ.get(PROFILE) or (used if isinstance(used, str) else None)
    return named or chosen_profile()


def change_profiles(file: Path, change: Callable[[str], str], question: str | None = None) -> None:
    """Replace the file's text. What is not there is refused before anything is asked. Raises `ConfigurationError`."""
    try:
        if question is not None:
            change(file.read_text(encoding="utf-8-sig") if file.exists() else "")
            must_agree(question)
        change_file(file, change)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {file}: {error}") from error


def read_profiles(file: Path) -> dict[str, Any]:
    """All that the file has. Raises `ConfigurationError`."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {file}: {error}") from error


def _addresses(bootstrap: object) -> str:
    return ", ".join(map(str, bootstrap)) if isinstance(bootstrap, list) else str(bootstrap or "")
