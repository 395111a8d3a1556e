"""`penstock organisation`: organisations of a person, their members, invitations and tenants, over REST."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.cluster import TOKEN_VARIABLE, operator_client
from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.named import ORGANISATIONS, PEOPLE, Named
from penstock.cli.output import print_json, print_table, say
from penstock.cli.rest import client_with, settings
from penstock.cli.sign_ins import credential
from penstock.cli.topic_changes import timeout_option
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import ConfigurationError
from penstock.rest.client import RestClient, segment

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION_VARIABLE = "PENSTOCK_SESSION_TOKEN"
ROLES = ("owner", "admin", "billing", "auditor")
_PATH = "/v1/organisations"
_FunctionT = TypeVar("_FunctionT", bound="Callable[..., Any]")


def session_option(command: _FunctionT) -> _FunctionT:
    """Organisations are for people: they carry the token of a session, no key of a tenant."""
    return click.option(
        "--token-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"File with the token of a session (or {SESSION_VARIABLE}); without it the sign-in of `penstock login`.",
    )(command)


@contextmanager
def session_client(token_file: Path | None) -> Iterator[RestClient]:
    """A client with the token of a person's session. Raises `ConfigurationError` when there is none."""
    chosen = settings()
    with client_with(chosen, _session_token(chosen, token_file)) as rest:
        yield rest


def _session_token(chosen: ConnectionSettings, token_file: Path | None) -> str:
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise ConfigurationError(f"session's token: {error}") from error
    else:
        token = os.environ.get(SESSION_VARIABLE, "").strip() or credential(chosen).text or ""
    if not token:
        raise ConfigurationError("no person has signed in: `penstock login`")
    return token


@click.group(
    name="organisation",
    cls=Group,
    path=("organisation",),
    homes={"audit": "penstock.cli.organisation_audit:organisation_audit"},
)
def organisation() -> None:
    """Organisations that own several tenants: members, invitations, tenants, audit log."""


@organisation.command(
    "list",
    short_help="List your organisations, or for operators all.",
    examples=[
        "penstock organisation list",
        "penstock organisation list --all --search acme --token-file operator.token",
    ],
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help=f"For operators: all of the service; the token is the operator's (or {TOKEN_VARIABLE}).",
)
@click.option("--search", metavar="TEXT", help="With --all: what a name contains, or an id.")
@session_option
@timeout_option
def organisation_list(every: bool, search: str | None, token_file: Path | None, timeout: float) -> None:
    """List your organisations and what you are in each; with --all those of the service."""
    if every:
        _list_all(search, token_file, timeout)
        return
    if search is not None:
        raise click.UsageError("--search is for operators: use it with --all.")
    with session_client(token_file) as rest:
        found = list(rest.items(_PATH, timeout_s=timeout))
    if current().json:
        print_json({"organisations": found})
        return
    print_table(
        ["organisation", "name", "called", "you are", "made"],
        [[one["id"], one["name"], one["display_name"], one["role"], one["created_at"]] for one in found],
        empty="You belong to no organisation. Make one: penstock organisation create acme",
    )


@organisation.command(
    "create",
    cls=ChangingCommand,
    examples=["penstock organisation create acme --display-name 'Acme Group'"],
)
@click.argument("name")
@click.option("--display-name", help="What people call it; the name unless given.")
@session_option
@timeout_option
def organisation_create(name: str, display_name: str | None, token_file: Path | None, timeout: float) -> None:
    """Make an organisation, and print its id. You are its owner."""
    body = {"name": name} | ({} if display_name is None else {"display_name": display_name})
    with session_client(token_file) as rest:
        made = rest.post(_PATH, body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(made["id"])


@organisation.command(
    "rename",
    cls=ChangingCommand,
    examples=["penstock organisation rename org_4fZ8 --display-name 'Acme Group'"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.option("--name", help="Another unique name.")
@click.option("--display-name", help="What people call it.")
@session_option
@timeout_option
def organisation_rename(
    organisation_id: str, name: str | None, display_name: str | None, token_file: Path | None, timeout: float
) -> None:
    """Give an organisation other names."""
    body = {
        field: value for field, value in (("name", name), ("display_name", display_name)) if value is not None
    }
    if not body:
        raise click.UsageError("say --name, --display-name or both.")
    with session_client(token_file) as rest:
        changed = rest.patch(path_of(rest, organisation_id), body, timeout_s=timeout)
    _done(changed, f"It is {changed['name']} now, called {changed['display_name']}.")


@organisation.command(
    "delete",
    cls=ChangingCommand,
    examples=["penstock organisation delete org_4fZ8 --yes"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@session_option
@timeout_option
def organisation_delete(organisation_id: str, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Delete an organisation that has no tenants. It asks before, and needs --yes where there is no terminal."""
    if not yes:
        must_agree(f"{organisation_id} goes for good, with its members and invitations. Go on?")
    with session_client(token_file) as rest:
        rest.delete(path_of(rest, organisation_id), timeout_s=timeout)
    _done({"id": organisation_id, "deleted": True}, f"Deleted {organisation_id}.")


@organisation.command("members", examples=["penstock organisation members org_4fZ8"])
@click.argument("organisation_id", metavar="ID|NAME")
@session_option
@timeout_option
def organisation_members(organisation_id: str, token_file: Path | None, timeout: float) -> None:
    """List the members and open invitations of an organisation."""
    with session_client(token_file) as rest:
        members = list(rest.items(path_of(rest, organisation_id, "members"), timeout_s=timeout))
        invited = list(rest.items(path_of(rest, organisation_id, "invitations"), timeout_s=timeout))
    if current().json:
        print_json({"members": members, "invitations": invited})
        return
    rows = [[one["id"], one["email"], one["role"], f"joined {one['joined_at']}"] for one in members]
    rows += [[one["id"], one["email"], one["role"], f"invited until {one['expires_at']}"] for one in invited]
    print_table(["id", "address", "role", "since"], rows)


@organisation.command(
    "role",
    cls=ChangingCommand,
    examples=["penstock organisation role org_4fZ8 usr_9Kd2 auditor"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("person", metavar="ID|EMAIL")
@click.argument("role", type=click.Choice(ROLES))
@session_option
@timeout_option
def organisation_role(
    organisation_id: str, person: str, role: str, token_file: Path | None, timeout: float
) -> None:
    """Give a member another role. It holds in every tenant of the organisation at once."""
    with session_client(token_file) as rest:
        path = _member_path(rest, organisation_id, person)
        changed = rest.patch(path, {"role": role}, timeout_s=timeout)
    _done(changed, f"{changed['email']} is {changed['role']} now.")


@organisation.command(
    "remove",
    cls=ChangingCommand,
    examples=["penstock organisation remove org_4fZ8 usr_9Kd2 --yes"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("person", metavar="ID|EMAIL")
@click.option("--yes", is_flag=True, help="Do not ask.")
@session_option
@timeout_option
def organisation_remove(
    organisation_id: str, person: str, yes: bool, token_file: Path | None, timeout: float
) -> None:
    """Remove a member, or leave with your own id. Keys that they may hold no more are revoked."""
    if not yes:
        must_agree(f"{person} sees nothing of the organisation any more, and their keys are revoked. Go on?")
    with session_client(token_file) as rest:
        rest.delete(_member_path(rest, organisation_id, person), timeout_s=timeout)
    _done({"id": person, "removed": True}, f"Removed {person}.")


@organisation.command(
    "invite",
    examples=["penstock organisation invite org_4fZ8 ann@example.com auditor"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("email")
@click.argument("role", type=click.Choice(ROLES))
@session_option
@timeout_option
def organisation_invite(
    organisation_id: str, email: str, role: str, token_file: Path | None, timeout: float
) -> None:
    """Invite a person by e-mail address. Without a mail server it prints the link: pass it on."""
    with session_client(token_file) as rest:
        body = {"email": email, "role": role}
        made = rest.post(path_of(rest, organisation_id, "invitations"), body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(line(made["link"] or made["id"]))
    say(f"{email} joins as {role} {'with this link' if made['link'] else 'with the link that is mailed'}.")


@organisation.command("withdraw", examples=["penstock organisation withdraw org_4fZ8 ivt_7Qw1"])
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("invitation")
@session_option
@timeout_option
def organisation_withdraw(
    organisation_id: str, invitation: str, token_file: Path | None, timeout: float
) -> None:
    """Withdraw an invitation: its link stops working."""
    with session_client(token_file) as rest:
        rest.delete(path_of(rest, organisation_id, "invitations", invitation), timeout_s=timeout)
    _done({"id": invitation, "withdrawn": True}, f"Withdrew {invitation}.")


@organisation.command("tenants", examples=["penstock organisation tenants org_4fZ8"])
@click.argument("organisation_id", metavar="ID|NAME")
@session_option
@timeout_option
def organisation_tenants(organisation_id: str, token_file: Path | None, timeout: float) -> None:
    """List the tenants of an organisation."""
    with session_client(token_file) as rest:
        found = list(rest.items(path_of(rest, organisation_id, "tenants"), timeout_s=timeout))
    if current().json:
        print_json({"tenants": found})
        return
    print_table(
        ["tenant", "name", "state", "made"],
        [[one["id"], one["name"], _state(one), one["created_at"]] for one in found],
        empty="It owns no tenants. Move one in: penstock organisation move-in ID TENANT",
    )


@organisation.command(
    "move-in",
    cls=ChangingCommand,
    examples=["penstock organisation move-in org_4fZ8 tn_2Lm5"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("tenant")
@session_option
@timeout_option
def organisation_move_in(organisation_id: str, tenant: str, token_file: Path | None, timeout: float) -> None:
    """Move a tenant that you own into an organisation that you own."""
    with session_client(token_file) as rest:
        moved = rest.post(path_of(rest, organisation_id, "tenants", tenant), timeout_s=timeout)
    _done(moved, f"{moved['name']} belongs to {organisation_id} now.")


@organisation.command(
    "move-out",
    cls=ChangingCommand,
    examples=["penstock organisation move-out org_4fZ8 tn_2Lm5 --yes"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.argument("tenant")
@click.option("--yes", is_flag=True, help="Do not ask.")
@session_option
@timeout_option
def organisation_move_out(
    organisation_id: str, tenant: str, yes: bool, token_file: Path | None, timeout: float
) -> None:
    """Move a tenant out: it stands alone. Rights and keys by the organisation end at once."""
    if not yes:
        must_agree(f"Members without a role of their own lose {tenant}, and their keys are revoked. Go on?")
    with session_client(token_file) as rest:
        moved = rest.delete(path_of(rest, organisation_id, "tenants", tenant), timeout_s=timeout)
    _done(moved, f"{moved['name']} stands alone now.")


def _list_all(search: str | None, token_file: Path | None, timeout: float) -> None:
    query = {} if search is None else {"q": search}
    with operator_client(token_file) as rest:
        found = list(rest.items("/v1/all-organisations", query, timeout_s=timeout))
    if current().json:
        print_json({"organisations": found})
        return
    print_table(
        ["organisation", "name", "called", "tenants", "members", "made"],
        [
            [one["id"], one["name"], one["display_name"], one["tenants"], one["members"], one["created_at"]]
            for one in found
        ],
        empty="There is no such organisation." if search else "There are no organisations.",
    )


def path_of(rest: RestClient, organisation_id: str, *parts: str) -> str:
    """The address of an organisation by its id or its name, or of something below it. Raises `NotFound`."""
    return "/".join([_PATH, segment(ORGANISATIONS.id_of(rest, organisation_id)), *map(segment, parts)])


def _member_path(rest: RestClient, organisation_id: str, person: str) -> str:
    """The address of a member by their id or e-mail address. Raises `NotFound`."""
    path = path_of(rest, organisation_id, "members")
    members = Named(what="member", path=path, prefix=PEOPLE.prefix, name=PEOPLE.name)
    return f"{path}/{segment(members.id_of(rest, person))}"


def _state(tenant: dict[str, Any]) -> str:
    if tenant["closed_at"] is not None:
        return "closed"
    return "suspended" if tenant["suspended"] else "open"


def _done(answer: dict[str, Any], said: str) -> None:
    if current().json:
        print_json(answer)
        return
    say(said)
