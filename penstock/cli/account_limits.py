"""`penstock limits …`: rates that service accounts have beside their tenant's; over REST."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.named import SERVICE_ACCOUNTS
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.rest.client import RestClient, segment

_NAMES = ("produce_bytes_per_s", "consume_bytes_per_s", "requests_per_s")
_EACH = "each other"
_whose = whose_option("service account")


@click.group(name="limits", cls=Group, path=("limits",))
def limits() -> None:
    """Limits of service accounts beside the tenant's: show, set, remove."""


@limits.command(
    "list",
    short_help="List the service accounts that have limits of their own.",
    examples=["penstock limits list"],
)
@_whose
@timeout_option
def limits_list(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the service accounts that have limits of their own, and what each other one has."""
    with client_for(token_file, tenant) as rest:
        found = list(rest.items("/v1/service-account-limits", timeout_s=timeout))
        each = rest.get(limits_path(None), timeout_s=timeout)
    if current().json:
        print_json({"limits": found, "default": each})
        return
    _show([*found, each])


@limits.command("show", examples=["penstock limits show sa_..."])
@click.argument("account", metavar="ID|NAME")
@_whose
@timeout_option
def limits_show(account: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Show the limits that hold for a service account beside the tenant's."""
    with client_for(token_file, tenant) as rest:
        found = rest.get(_path(rest, account, timeout), timeout_s=timeout)
    if current().json:
        print_json(found)
        return
    _show([found])


@limits.command(
    "set",
    short_help="Set the limits of a service account, or those of each other one.",
    cls=ChangingCommand,
    examples=[
        "penstock limits set sa_... --produce-bytes-per-s 1000000",
        "penstock limits set --requests-per-s 500",
        "penstock limits set sa_... --requests-per-s 500 --tenant tn_... --token-file operator.token",
    ],
)
@click.argument("account", metavar="[ID|NAME]", required=False)
@click.option("--produce-bytes-per-s", type=click.IntRange(min=0), help="Bytes of batches as sent.")
@click.option("--consume-bytes-per-s", type=click.IntRange(min=0), help="Bytes of batches as pushed.")
@click.option("--requests-per-s", type=click.IntRange(min=0), help="Requests of its clients.")
@_whose
@timeout_option
def limits_set(
    account: str | None,
    produce_bytes_per_s: int | None,
    consume_bytes_per_s: int | None,
    requests_per_s: int | None,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Set the limits of a service account, all of them; without ID those of each that has none of its own.

    A limit that is not named is what each other service account has. 0 means that only the tenant's limit holds. No key
    sets the limits of its own service account.
    """
    body = dict(zip(_NAMES, (produce_bytes_per_s, consume_bytes_per_s, requests_per_s), strict=True))
    if all(value is None for value in body.values()):
        raise click.UsageError("Name at least one limit, or use: penstock limits remove")
    with client_for(token_file, tenant) as rest, progress("Setting"):
        changed = rest.put(_path(rest, account, timeout), body, timeout_s=timeout)
    _answer(changed)


@limits.command(
    "remove",
    short_help="Remove the limits of a service account, or those of each other one.",
    cls=ChangingCommand,
    examples=["penstock limits remove sa_..."],
)
@click.argument("account", metavar="[ID|NAME]", required=False)
@_whose
@timeout_option
def limits_remove(account: str | None, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Remove the limits of a service account; without ID those of each that has none of its own."""
    with client_for(token_file, tenant) as rest, progress("Removing"):
        changed = rest.delete(_path(rest, account, timeout), timeout_s=timeout)
    _answer(changed)


def limits_path(account: str | None) -> str:
    """The address of an account's limits, or of those that each other one has."""
    if account is None:
        return "/v1/service-account-limits/default"
    return f"/v1/service-accounts/{segment(account)}/limits"


def _path(rest: RestClient, account: str | None, timeout_s: float) -> str:
    """As `limits_path`, of an account by its id or by its name. Raises `NotFound`."""
    return limits_path(None if account is None else SERVICE_ACCOUNTS.id_of(rest, account, timeout_s))


def _answer(changed: dict[str, Any]) -> None:
    if current().json:
        print_json(changed)
        return
    _show([changed])
    if not changed["delivered"]:
        say("The brokers do not have it yet; they get it as soon as they answer.")


def _show(found: list[dict[str, Any]]) -> None:
    print_table(
        ["service account", "name", *_NAMES],
        [
            [one["service_account"] or _EACH, one["name"] or "", *(_shown(one, name) for name in _NAMES)]
            for one in found
        ],
    )


def _shown(one: dict[str, Any], name: str) -> str:
    """What holds, and in brackets that it is not the account's own."""
    value = one["effective"][name]
    shown = f"{value}" if value else "the tenant's"
    return shown if one[name] is not None or one["service_account"] is None else f"({shown})"
