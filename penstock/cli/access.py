"""`penstock access …`: the tenant's access list, who may do what, and why not; over REST."""

from contextlib import closing
from typing import Any

import click

from penstock.cli.access_arguments import resource_of
from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.named import KEYS, principal_of
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.contract.errors import Forbidden
from penstock.rest.client import segment
from penstock.rules.access import ALLOW, DENY, PRESETS


@click.group(
    name="access",
    cls=Group,
    path=("access",),
    homes={
        "report": "penstock.cli.access_reports:access_report",
        "reports": "penstock.cli.access_reports:access_reports",
    },
)
def access() -> None:
    """Who may do what: entries that allow and deny, and why not."""


@access.command(
    "list", examples=["penstock access list", "penstock access list --principal service_account:sa_..."]
)
@click.option("--principal", help="Only entries that name it.")
@timeout_option
def access_list(principal: str | None, timeout: float) -> None:
    """List the entries of the access list, and its default."""
    with closing(rest_client()) as rest:
        rules = rest.get("/v1/access", timeout_s=timeout)
        query = {"principal": principal_of(rest, principal, timeout)} if principal else None
        found = list(rest.items("/v1/acls", query, timeout_s=timeout))
    if current().json:
        print_json({"access": rules, "acls": found})
        return
    print_table(
        ["entry", "says"],
        [[one["id"], one["text"]] for one in found],
        empty="No entries. Add one: penstock access allow service_account:sa_... --on topic:orders.*",
    )
    say(f"What no entry speaks of: {rules['default']}.")
    _say_conditions(rules)


def _add(
    effect: str, principal: str, on: str, operations: tuple[str, ...], ranges: tuple[str, ...], timeout: float
) -> None:
    body: dict[str, Any] = {"effect": effect, **resource_of(on)}
    if operations:
        body["operations"] = list(operations)
    if ranges:
        body["addresses"] = list(ranges)
    with closing(rest_client()) as rest, progress("Adding an entry"):
        body["principal"] = principal_of(rest, principal, timeout)
        made = rest.post("/v1/acls", body, timeout_s=timeout)
    _show_entries(made, [made])


def _show_entries(answer: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    if current().json:
        print_json(answer)
        return
    for one in entries:
        click.echo(line(f"{one['id']}  {one['text']}"))
    _say_delivered(answer)


_ON = click.option(
    "--on",
    required=True,
    metavar="RESOURCE",
    help="topic:NAME, group:NAME, transactional_id:NAME or tenant; NAME* is a prefix.",
)
_OPERATIONS = click.option(
    "--operation", "operations", multiple=True, help="Only this; repeatable. Without it: all."
)
_FROM = click.option(
    "--from",
    "ranges",
    multiple=True,
    metavar="RANGE",
    help="Only callers from there, as 10.0.0.0/8; repeatable.",
)


@access.command(
    "allow",
    cls=ChangingCommand,
    examples=["penstock access allow service_account:sa_... --on topic:orders.* --operation consume"],
)
@click.argument("principal")
@_ON
@_OPERATIONS
@_FROM
@timeout_option
def access_allow(
    principal: str, on: str, operations: tuple[str, ...], ranges: tuple[str, ...], timeout: float
) -> None:
    """Add an entry that allows. PRINCIPAL is person:ID, service_account:ID, group:ID or everyone."""
    _add(ALLOW, principal, on, operations, ranges, timeout)


@access.command(
    "deny",
    cls=ChangingCommand,
    examples=["penstock access deny everyone --on topic:secrets --from 192.0.2.0/24"],
)
@click.argument("principal")
@_ON
@_OPERATIONS
@_FROM
@timeout_option
def access_deny(
    principal: str, on: str, operations: tuple[str, ...], ranges: tuple[str, ...], timeout: float
) -> None:
    """Add an entry that denies. It wins over every entry that allows."""
    _add(DENY, principal, on, operations, ranges, timeout)


@access.command(
    "preset",
    cls=ChangingCommand,
    examples=[
        "penstock access preset consumer service_account:sa_... --topic orders.* --group-prefix billing"
    ],
)
@click.argument("preset", type=click.Choice(tuple(PRESETS)))
@click.argument("principal")
@click.option("--topic", required=True, help="Name of the topic; NAME* is a prefix.")
@click.option("--group-prefix", default="", help="Only groups and transactional ids whose names begin so.")
@timeout_option
def access_preset(preset: str, principal: str, topic: str, group_prefix: str, timeout: float) -> None:
    """Add the entries that a producer, consumer, owner or reader of topics needs."""
    named = resource_of(f"topic:{topic}")
    body = {
        "preset": preset,
        "name": named["name"],
        "pattern": named["pattern"],
        "group_prefix": group_prefix,
    }
    with closing(rest_client()) as rest, progress("Adding entries"):
        body["principal"] = principal_of(rest, principal, timeout)
        made = rest.post("/v1/acls:preset", body, timeout_s=timeout)
    _show_entries(made, made["items"])


@access.command(
    "remove",
    cls=ChangingCommand,
    examples=["penstock access remove acl_...", "penstock access remove acl_... --yes"],
)
@click.argument("entry")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def access_remove(entry: str, yes: bool, timeout: float) -> None:
    """Remove an entry. It asks before, and needs --yes where there is no terminal."""
    path = f"/v1/acls/{segment(entry)}"
    with closing(rest_client()) as rest:
        if not yes:
            found = rest.get(path, timeout_s=timeout)
            must_agree(f"Remove: {found['text']}. It counts at once. Go on?")
        with progress("Removing"):
            answer = rest.delete(path, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"Removed {entry}.")
    _say_delivered(answer)


@access.command(
    "default",
    cls=ChangingCommand,
    examples=["penstock access default deny", "penstock access default allow --yes"],
)
@click.argument("default", type=click.Choice((ALLOW, DENY)))
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def access_default(default: str, yes: bool, timeout: float) -> None:
    """Set what holds for what no entry speaks of. It asks before, and needs --yes where there is no terminal."""
    if not yes:
        what = "only what an entry allows" if default == DENY else "everything that no entry denies"
        must_agree(f"Every key of the tenant will be allowed {what}, at once. Go on?")
    with closing(rest_client()) as rest, progress("Setting"):
        answer = rest.patch("/v1/access", {"default": default}, timeout_s=timeout)
    if current().json:
        print_json(answer)
        return
    say(f"What no entry speaks of: {answer['default']}.")
    _say_delivered(answer)


@access.command(
    "check",
    examples=[
        "penstock access check --key key_... --operation produce --on topic:orders",
        "penstock access check --principal person:usr_... --operation consume --on group:billing",
    ],
)
@click.option("--key", help="Id of a key.")
@click.option("--principal", help="person:ID or service_account:ID.")
@click.option("--operation", required=True, help="As produce, consume, describe; see the entries.")
@click.option(
    "--on", required=True, metavar="RESOURCE", help="topic:NAME, group:NAME, transactional_id:NAME or tenant."
)
@click.option("--from", "address", default="", help="Address of the caller.")
@timeout_option
def access_check(
    key: str | None, principal: str | None, operation: str, on: str, address: str, timeout: float
) -> None:
    """May this key or principal do that, and why not? A no has exit code 4."""
    if (key is None) == (principal is None):
        raise click.UsageError("either --key or --principal is required")
    with closing(rest_client()) as rest:
        whom = (
            {"key": KEYS.id_of(rest, key, timeout)}
            if key is not None
            else {"principal": principal_of(rest, principal or "", timeout)}
        )
        found = rest.get("/v1/access/check", {**whom, **_asked(operation, on, address)}, timeout_s=timeout)
    if current().json:
        print_json(found)
    elif found["allowed"]:
        click.echo(line(f"yes: {found['reason']}"))
    if not found["allowed"]:
        raise Forbidden(f"{found['principal']} ({found['name']}): {found['reason']}")


@access.command("who", examples=["penstock access who --operation consume --on topic:orders"])
@click.option("--operation", required=True, help="As produce, consume, describe; see the entries.")
@click.option(
    "--on", required=True, metavar="RESOURCE", help="topic:NAME, group:NAME, transactional_id:NAME or tenant."
)
@click.option("--from", "address", default="", help="Address of the caller.")
@timeout_option
def access_who(operation: str, on: str, address: str, timeout: float) -> None:
    """List people and service accounts: may they do that, and why?"""
    with closing(rest_client()) as rest:
        answer = rest.get("/v1/access/who", _asked(operation, on, address), timeout_s=timeout)
    found = answer["principals"]
    if current().json:
        print_json(answer)
        return
    print_table(
        ["may", "principal", "name", "why"],
        [["yes" if one["allowed"] else "no", one["principal"], one["name"], one["reason"]] for one in found],
    )


def _asked(operation: str, on: str, address: str) -> dict[str, object]:
    """Query parameters of a question about one resource. Raises `UsageError`."""
    named = resource_of(on)
    if named.get("pattern") == "prefix":
        raise click.UsageError(f"{on[:64]!r}: ask about one resource, by its whole name")
    asked = {"operation": operation, "resource": named["resource"], "name": named.get("name", "")}
    return asked | ({"address": address} if address else {})


def _say_delivered(answer: dict[str, Any]) -> None:
    if not answer["delivered"]:
        say("The brokers do not obey it yet; they get it as soon as they can be reached.")


def _say_conditions(rules: dict[str, Any]) -> None:
    for condition in rules["conditions"]:
        say(f"Not in force as it stands here: {condition['message']}")
