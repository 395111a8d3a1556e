"""`penstock organisation audit list` and `export`: the entries of an organisation's audit log."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.audit_entries import exported, listed, searching
from penstock.cli.invocation import Group
from penstock.cli.organisations import path_of, session_client, session_option
from penstock.cli.topic_changes import timeout_option


@click.group(name="audit", cls=Group, path=("organisation", "audit"))
def organisation_audit() -> None:
    """The audit log of an organisation: list and export."""


@organisation_audit.command(
    "list",
    short_help="List entries, newest first.",
    examples=[
        "penstock organisation audit list org_4fZ8 --kind member --token-file session.token",
        "penstock organisation audit list org_4fZ8 --outcome refused --from 2026-01-31 --token-file session.token",
    ],
)
@click.argument("organisation_id", metavar="ID")
@searching
@session_option
@timeout_option
def organisation_audit_list(
    organisation_id: str, token_file: Path | None, timeout: float, **search: Any
) -> None:
    """List who changed, was refused or read what of the organisation itself.

    What happens within a tenant is in the tenant's log: penstock audit list.
    """
    with session_client(token_file) as rest:
        listed(rest, path_of(organisation_id, "audit"), timeout, **search)


@organisation_audit.command(
    "export",
    short_help="Write the log into a file, and go on with one.",
    examples=["penstock organisation audit export org_4fZ8 group.jsonl --token-file session.token"],
)
@click.argument("organisation_id", metavar="ID")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@session_option
@timeout_option
def organisation_audit_export(
    organisation_id: str, file: Path, token_file: Path | None, timeout: float
) -> None:
    """Append to FILE what it does not have of the log yet: one entry a line, as JSON, in the chain's order.

    It is checked and goes on as `penstock audit export` does, and `penstock audit verify-export` checks the file.
    """
    with session_client(token_file) as rest:
        exported(rest, f"{path_of(organisation_id, 'audit')}/export", file, timeout)
