"""`penstock sign-in list` and `end`: where a person is signed in, in browsers and on command lines; over REST."""

import click

from penstock.cli.display import line
from penstock.cli.invocation import Group, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_table, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for
from penstock.rest.client import segment


@click.group(name="sign-in", cls=Group, path=("sign-in",))
def sign_in() -> None:
    """Where you are signed in: list, end."""


@sign_in.command("list", examples=["penstock sign-in list"])
@timeout_option
def sign_in_list(timeout: float) -> None:
    """List your sign-ins, in browsers and on command lines."""
    with client_for(None, None) as rest:
        rows = list(rest.items("/v1/sign-ins", timeout_s=timeout))
    if current().json:
        print_json({"sign_ins": rows})
        return
    print_table(
        ["sign-in", "program", "address", "since", "ends", "of"],
        [
            [
                row["id"],
                row["browser"],
                row["address"],
                moment(row["created_at"]),
                moment(row["expires_at"]),
                "this profile" if row["current"] else "",
            ]
            for row in rows
        ],
    )


@sign_in.command("end", examples=["penstock sign-in end sin_...", "penstock sign-in end --others"])
@click.argument("sign_in_id", metavar="[ID]", required=False)
@click.option("--others", is_flag=True, help="End all but the one of this profile.")
@timeout_option
def sign_in_end(sign_in_id: str | None, others: bool, timeout: float) -> None:
    """End one of your sign-ins: its token is refused at once. That of this profile: penstock logout."""
    if (sign_in_id is None) == (not others):
        raise click.UsageError("Name a sign-in by its id, or say --others.")
    with client_for(None, None) as rest:
        rest.delete(
            "/v1/sign-ins" if sign_in_id is None else f"/v1/sign-ins/{segment(sign_in_id)}", timeout_s=timeout
        )
    if current().json:
        print_json({"ended": sign_in_id or "others"})
        return
    say(line("All your other sign-ins have ended." if sign_in_id is None else f"{sign_in_id} has ended."))
