"""`penstock profile list`, `use` and `remove`: which services this machine knows, and which counts."""

import os
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
from penstock.profile_changes import change_file, with_used, without_profile
from penstock.profiles import BOOTSTRAP, DEFAULT_PROFILE, PROFILE, USED, profile_file


@click.group(name="profile", cls=Group, path=("profile",))
def profile() -> None:
    """Profiles of this machine: list, use, remove."""


@profile.command("list", examples=["penstock profile list"])
def profile_list() -> None:
    """List the profiles with the service that each points to, and which one is used. Keys are not shown."""
    file = profile_file()
    profiles = _read(file)
    counts = _counts(profiles)
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
        empty=f"No profiles in {file}. Make a service: penstock dev up",
    )


@profile.command("use", examples=["penstock profile use staging"])
@click.argument("name")
def profile_use(name: str) -> None:
    """Use this profile when none is named: the commands, and programs with the SDK."""
    file = profile_file()
    _change(file, lambda text: with_used(text, name))
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
    """Remove a profile with its key from this machine. The key stays valid until it is revoked."""
    file = profile_file()
    _change(
        file,
        lambda text: without_profile(text, name),
        None if yes else f"Remove profile {name} with its key from {file}?",
    )
    if current().json:
        print_json({"profile": name, "removed": True})
        return
    say(f"Removed {name}.")


def _counts(profiles: dict[str, Any]) -> str | None:
    """The profile that commands would read now; None when the environment alone counts."""
    chosen = chosen_profile()
    if chosen is not None:
        return chosen
    if named := os.environ.get(PROFILE):
        return named
    used = profiles.get(USED)
    return used if isinstance(used, str) else DEFAULT_PROFILE


def _change(file: Path, change: Callable[[str], str], question: str | None = None) -> None:
    """Replace the file's text. What is not there is refused before anything is asked."""
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        fresh = change(text)
        if question is not None:
            must_agree(question)
        change_file(file, fresh)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {file}: {error}") from error


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"profile file {file}: {error}") from error


def _addresses(bootstrap: object) -> str:
    return ", ".join(map(str, bootstrap)) if isinstance(bootstrap, list) else str(bootstrap or "")
