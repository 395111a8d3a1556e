"""`penstock key create`, `rotate`, `list` and `revoke`: the tenant's API keys, over REST."""

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from penstock.admin.blocking import Admin
from penstock.cli.access_arguments import scope_of
from penstock.cli.confirmation import must_agree
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.named import KEYS, SERVICE_ACCOUNTS
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import admin_client, rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.rules.access import described_resource
from penstock.rules.names import OPERATIONS

if TYPE_CHECKING:
    from penstock.admin.objects import Key, NewKey


@click.group(name="key", cls=Group, path=("key",))
def key() -> None:
    """API keys: create, rotate, list, revoke."""


@key.command(
    "create",
    cls=ChangingCommand,
    examples=[
        "penstock key create --name shop",
        "penstock key create --name till --topic-prefix orders. --operation produce --expires-at 2027-01-31",
        "penstock key create --name auditors --verifying",
    ],
)
@click.option("--name", required=True, help="What the key is for.")
@click.option(
    "--expires-at",
    type=click.DateTime(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]),
    help="When it ends by itself (UTC).",
)
@click.option("--topic-prefix", help="Only topics and groups whose name begins so.")
@click.option(
    "--operation", "operations", type=click.Choice(OPERATIONS), multiple=True, help="Only this; repeatable."
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="OPERATIONS:RESOURCE:NAME",
    help="Only this, for instance produce,describe:topic:orders.* or all:group:billing; repeatable. A name that ends "
    "with * is a prefix.",
)
@click.option("--service-account", metavar="ID|NAME", help="Whose key it is; without it: yours.")
@click.option(
    "--verifying",
    is_flag=True,
    help="It proves invoices (penstock verify-invoice) and does nothing else: it reads no message.",
)
@timeout_option
def key_create(
    name: str,
    expires_at: datetime | None,
    topic_prefix: str | None,
    operations: tuple[str, ...],
    scopes: tuple[str, ...],
    service_account: str | None,
    verifying: bool,
    timeout: float,
) -> None:
    """Make an API key. It is shown once."""
    if verifying and (operations or scopes or service_account):
        raise click.UsageError(
            "--verifying says all that the key may: leave --operation, --scope and --service-account out"
        )
    ends = None if expires_at is None else expires_at.replace(tzinfo=UTC)
    with closing(rest_client()) as rest, progress("Making a key"):
        admin = Admin(rest)
        if verifying:
            made = admin.create_verifying_key(
                name, expires_at=ends, topic_prefix=topic_prefix, timeout=timeout
            )
        else:
            made = admin.create_key(
                name,
                expires_at=ends,
                topic_prefix=topic_prefix,
                operations=operations,
                scopes=[scope_of(text) for text in scopes],
                service_account=None
                if service_account is None
                else SERVICE_ACCOUNTS.id_of(rest, service_account, timeout),
                timeout=timeout,
            )
    _show_new(made)


@key.command(
    "rotate",
    cls=ChangingCommand,
    examples=["penstock key rotate key_...", "penstock key rotate key_... --overlap-s 600"],
)
@click.argument("key_id", metavar="ID|NAME")
@click.option(
    "--overlap-s",
    type=click.IntRange(0, 30 * 86_400),
    default=3600,
    show_default=True,
    help="How long the old key goes on beside the new one, in seconds.",
)
@timeout_option
def key_rotate(key_id: str, overlap_s: int, timeout: float) -> None:
    """Make a key that takes the place of another one: same name, scopes and principal. It is shown once."""
    with closing(rest_client()) as rest, progress("Making a key"):
        made = Admin(rest).rotate_key(KEYS.id_of(rest, key_id, timeout), overlap_s=overlap_s, timeout=timeout)
    _show_new(made)
    if not current().json:
        say(f"{key_id} ends in {overlap_s} s.")


def _show_new(made: "NewKey") -> None:
    if current().json:
        print_json({"id": made.id, "name": made.name, "api_key": made.api_key, "delivered": made.delivered})
        return
    click.echo(made.api_key)
    say("Keep it now: it is stored nowhere and will not be shown again.")
    if not made.delivered:
        say("The brokers do not know it yet; they get it as soon as they can be reached.")


@key.command("list", examples=["penstock key list", "penstock key list --verifying"])
@click.option(
    "--verifying",
    is_flag=True,
    help="Only keys that prove invoices. Roles that may make them and see no other key list them so.",
)
@timeout_option
def key_list(verifying: bool, timeout: float) -> None:
    """List the tenant's keys, without their text."""
    with closing(admin_client()) as admin:
        keys = admin.keys(verifying=verifying, timeout=timeout)
    if current().json:
        print_json({"keys": [_as_json(found) for found in keys]})
        return
    rows = [[found.id, found.name, _state(found), found.created_at or "", _bounds(found)] for found in keys]
    print_table(
        ["key", "name", "state", "created", "only"],
        rows,
        empty=f"No keys yet. Make one: penstock key create --name {'auditors --verifying' if verifying else 'shop'}",
    )


@key.command(
    "revoke",
    cls=ChangingCommand,
    examples=["penstock key revoke key_...", "penstock key revoke key_... --yes"],
)
@click.argument("key_id", metavar="ID|NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def key_revoke(key_id: str, yes: bool, timeout: float) -> None:
    """Make a key invalid for good, also on connections that are open. It asks before, and needs --yes where there is
    no terminal.
    """
    if not yes:
        must_agree(f"Key {key_id} will be refused for good, on open connections too. Go on?")
    with closing(rest_client()) as rest, progress("Revoking"):
        revoked = KEYS.id_of(rest, key_id, timeout)
        Admin(rest).revoke_key(revoked, timeout=timeout)
    if current().json:
        print_json({"id": revoked, "revoked": True})
        return
    say(f"Revoked {key_id}.")


def _as_json(found: "Key") -> dict[str, Any]:
    return {
        "id": found.id,
        "name": found.name,
        "state": _state(found),
        "created_at": found.created_at,
        "expires_at": found.expires_at,
        "revoked_at": found.revoked_at,
        "principal": found.principal,
        "scopes": [dict(scope) for scope in found.scopes],
        "bindings": [dict(binding) for binding in found.bindings],
        "delivered": found.delivered,
    }


def _state(found: "Key") -> str:
    if found.revoked_at is not None:
        return "revoked"
    return "valid" if found.expires_at is None else f"until {found.expires_at}"


def _bounds(found: "Key") -> str:
    return "; ".join(
        f"{', '.join(scope.get('operations') or ()) or 'all'} on "
        + described_resource(
            scope.get("resource") or "", scope.get("name") or "", scope.get("pattern") == "literal"
        )
        for scope in found.scopes
    )
