"""`penstock people …`: the people of a tenant, their roles, and invitations; over REST, for people."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.named import INVITATIONS, PEOPLE
from penstock.cli.output import print_json, print_table, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.rest.client import RestClient, segment

ROLES = ("owner", "admin", "developer", "billing", "auditor")
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., object])


@click.group(name="people", cls=Group, path=("people",))
def people() -> None:
    """People of the tenant and invitations: list, role, remove, invite, invitations, withdraw, join."""


def _whose(command: _FunctionT) -> _FunctionT:
    """Keys invite no people: owners and admins do."""
    return timeout_option(whose_option("people")(command))


@people.command(
    "list",
    short_help="List the tenant's people with their roles.",
    examples=["penstock people list", "penstock people list --json"],
)
@_whose
def people_list(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the tenant's people with their roles, and for owners, admins and auditors who has a second factor."""
    with client_for(token_file, tenant) as rest:
        members = list(rest.items("/v1/people", timeout_s=timeout))
    if current().json:
        print_json({"people": members})
        return
    factor = {True: "yes", False: "no", None: "-"}
    print_table(
        ["person", "e-mail", "role", "second factor", "joined"],
        [
            [
                member["id"],
                member["email"],
                member["role"],
                factor[member["second_factor"]],
                moment(member["joined_at"]),
            ]
            for member in members
        ],
    )


@people.command(
    "role",
    examples=["penstock people role bert@example.com developer", "penstock people role usr_... auditor"],
)
@click.argument("person", metavar="ID|EMAIL")
@click.argument("role", type=click.Choice(ROLES))
@_whose
def people_role(person: str, role: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Give a person another role. The keys of a person who becomes billing or auditor are revoked."""
    with client_for(token_file, tenant) as rest:
        changed = rest.patch(_person(rest, person, timeout), {"role": role}, timeout_s=timeout)
    if current().json:
        print_json(changed)
        return
    say(line(f"{changed['email']} is {changed['role']} now."))


@people.command("remove", examples=["penstock people remove bert@example.com --yes"])
@click.argument("person", metavar="ID|EMAIL")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_whose
def people_remove(
    person: str, yes: bool, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Remove a person from the tenant, or leave it with your own address. The keys that they made are revoked."""
    if not yes:
        must_agree(f"{person} sees nothing of the tenant any more, and their keys are revoked. Go on?")
    with client_for(token_file, tenant) as rest:
        rest.delete(_person(rest, person, timeout), timeout_s=timeout)
    if current().json:
        print_json({"person": person, "removed": True})
        return
    say(line(f"Removed {person}."))


@people.command("invite", examples=["penstock people invite ann@example.com developer"])
@click.argument("email")
@click.argument("role", type=click.Choice(ROLES))
@_whose
def people_invite(email: str, role: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Invite a person by e-mail address, for 7 days. Without a mail server it prints the link: pass it on."""
    with client_for(token_file, tenant) as rest:
        made = rest.post("/v1/invitations", {"email": email, "role": role}, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(line(made["link"] or made["id"]))
    say(
        line(
            f"{email} joins as {role} {'with this link' if made['link'] else 'with the link that is mailed'}."
        )
    )


@people.command("invitations", examples=["penstock people invitations"])
@_whose
def people_invitations(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the invitations that can still be accepted."""
    with client_for(token_file, tenant) as rest:
        invitations = list(rest.items("/v1/invitations", timeout_s=timeout))
    if current().json:
        print_json({"invitations": invitations})
        return
    print_table(
        ["invitation", "e-mail", "role", "made", "ends"],
        [
            [
                waiting["id"],
                waiting["email"],
                waiting["role"],
                moment(waiting["created_at"]),
                moment(waiting["expires_at"]),
            ]
            for waiting in invitations
        ],
        empty="No invitations wait. Make one: penstock people invite ann@example.com developer",
    )


@people.command("withdraw", examples=["penstock people withdraw ann@example.com"])
@click.argument("invitation", metavar="ID|EMAIL")
@_whose
def people_withdraw(invitation: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Withdraw an invitation: its link stops working."""
    with client_for(token_file, tenant) as rest:
        withdrawn = INVITATIONS.id_of(rest, invitation, timeout)
        rest.delete(f"/v1/invitations/{segment(withdrawn)}", timeout_s=timeout)
    if current().json:
        print_json({"id": withdrawn, "withdrawn": True})
        return
    say(line(f"Withdrew the invitation of {invitation}."))


@people.command("join", examples=["penstock people join psi_..."])
@click.argument("invitation", metavar="TOKEN")
@timeout_option
def people_join(invitation: str, timeout: float) -> None:
    """Accept an invitation as the person who has signed in. TOKEN is the end of the link."""
    token = invitation.rstrip("/").rpartition("/")[2]
    with client_for(None, None) as rest:
        joined: dict[str, Any] = rest.post("/v1/join", {"token": token}, timeout_s=timeout)
    if current().json:
        print_json(joined)
        return
    say(line(f"You are {joined['role']} of {joined['tenant'] or joined['organisation']} now."))


def _person(rest: RestClient, person: str, timeout_s: float) -> str:
    """The address of a person of the tenant by their id or e-mail address. Raises `NotFound`."""
    return f"/v1/people/{segment(PEOPLE.id_of(rest, person, timeout_s))}"
