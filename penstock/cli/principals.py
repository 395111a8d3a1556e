"""`penstock service-account …` and `penstock principal-group …`: principals that access lists name; over REST."""

from contextlib import closing

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.named import GROUPS, SERVICE_ACCOUNTS, principal_of
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import rest_client
from penstock.cli.topic_changes import timeout_option
from penstock.rest.client import segment


@click.group(name="service-account", cls=Group, path=("service-account",))
def service_account() -> None:
    """Principals that are no people: create, list, delete."""


@service_account.command("create", cls=ChangingCommand, examples=["penstock service-account create billing"])
@click.argument("name")
@timeout_option
def service_account_create(name: str, timeout: float) -> None:
    """Make a service account. Its keys outlive who made them: penstock key create --service-account ID."""
    with closing(rest_client()) as rest, progress("Making a service account"):
        made = rest.post("/v1/service-accounts", {"name": name}, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(made["id"])


@service_account.command("list", examples=["penstock service-account list"])
@timeout_option
def service_account_list(timeout: float) -> None:
    """List the tenant's service accounts."""
    with closing(rest_client()) as rest:
        found = list(rest.items("/v1/service-accounts", timeout_s=timeout))
    if current().json:
        print_json({"service_accounts": found})
        return
    print_table(
        ["service account", "name", "created"],
        [[one["id"], one["name"], one["created_at"]] for one in found],
        empty="No service accounts. Make one: penstock service-account create billing",
    )


@service_account.command(
    "delete", cls=ChangingCommand, examples=["penstock service-account delete sa_... --yes"]
)
@click.argument("account", metavar="ID|NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def service_account_delete(account: str, yes: bool, timeout: float) -> None:
    """Delete a service account with all of its keys. It asks before, and needs --yes where there is no terminal."""
    if not yes:
        must_agree(f"All keys of {account} will be refused for good, on open connections too. Go on?")
    with closing(rest_client()) as rest, progress("Deleting"):
        account_id = SERVICE_ACCOUNTS.id_of(rest, account, timeout)
        rest.delete(f"/v1/service-accounts/{segment(account_id)}", timeout_s=timeout)
    if current().json:
        print_json({"id": account_id, "deleted": True})
        return
    say(f"Deleted {account}.")


@click.group(name="principal-group", cls=Group, path=("principal-group",))
def principal_group() -> None:
    """Groups of people and service accounts: create, list, members, delete."""


@principal_group.command(
    "create",
    cls=ChangingCommand,
    examples=["penstock principal-group create payments --member service_account:sa_..."],
)
@click.argument("name")
@click.option(
    "--member",
    "members",
    multiple=True,
    help="person:ID, service_account:ID or group:ID, or each with a name; repeatable.",
)
@timeout_option
def principal_group_create(name: str, members: tuple[str, ...], timeout: float) -> None:
    """Make a group of principals. Entries name it as group:ID."""
    with closing(rest_client()) as rest, progress("Making a group"):
        body = {"name": name, "members": [principal_of(rest, member, timeout) for member in members]}
        made = rest.post("/v1/principal-groups", body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(made["id"])


@principal_group.command("list", examples=["penstock principal-group list"])
@timeout_option
def principal_group_list(timeout: float) -> None:
    """List the tenant's groups of principals with their members."""
    with closing(rest_client()) as rest:
        found = list(rest.items("/v1/principal-groups", timeout_s=timeout))
    if current().json:
        print_json({"principal_groups": found})
        return
    print_table(
        ["group", "name", "members"],
        [[one["id"], one["name"], ", ".join(one["members"])] for one in found],
        empty="No groups of principals. Make one: penstock principal-group create payments",
    )


@principal_group.command(
    "members",
    cls=ChangingCommand,
    examples=["penstock principal-group members grp_... service_account:sa_..."],
)
@click.argument("group", metavar="ID|NAME")
@click.argument("members", nargs=-1, metavar="[PRINCIPAL]...")
@timeout_option
def principal_group_members(group: str, members: tuple[str, ...], timeout: float) -> None:
    """Set the members of a group, all of them; none: it is empty."""
    with closing(rest_client()) as rest, progress("Setting"):
        path = f"/v1/principal-groups/{segment(GROUPS.id_of(rest, group, timeout))}"
        body = {"members": [principal_of(rest, member, timeout) for member in members]}
        changed = rest.patch(path, body, timeout_s=timeout)
    if current().json:
        print_json(changed)
        return
    say(f"{changed['name']}: {', '.join(changed['members']) or 'no members'}.")


@principal_group.command("delete", cls=ChangingCommand, examples=["penstock principal-group delete grp_..."])
@click.argument("group", metavar="ID|NAME")
@timeout_option
def principal_group_delete(group: str, timeout: float) -> None:
    """Delete a group that no entry and no other group names."""
    with closing(rest_client()) as rest, progress("Deleting"):
        group_id = GROUPS.id_of(rest, group, timeout)
        rest.delete(f"/v1/principal-groups/{segment(group_id)}", timeout_s=timeout)
    if current().json:
        print_json({"id": group_id, "deleted": True})
        return
    say(f"Deleted {group}.")
