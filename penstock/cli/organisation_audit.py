"""`penstock organisation audit …`: the entries of an organisation's audit log, and whether it holds what was noted."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.audit import Log, expecting, noting, verified
from penstock.cli.audit_entries import exported, listed, searching
from penstock.cli.invocation import Group, current
from penstock.cli.organisations import path_of, session_client, session_option
from penstock.cli.output import print_json
from penstock.cli.topic_changes import timeout_option


@click.group(name="audit", cls=Group, path=("organisation", "audit"))
def organisation_audit() -> None:
    """The audit log of an organisation: list, export, verify."""


@organisation_audit.command(
    "list",
    short_help="List entries, newest first.",
    examples=[
        "penstock organisation audit list org_4fZ8 --kind member",
        "penstock organisation audit list org_4fZ8 --outcome refused --from 2026-01-31",
    ],
)
@click.argument("organisation_id", metavar="ID|NAME")
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
        listed(rest, path_of(rest, organisation_id, "audit"), timeout, **search)


@organisation_audit.command(
    "export",
    short_help="Write the log into a file, and go on with one.",
    examples=["penstock organisation audit export org_4fZ8 group.jsonl"],
)
@click.argument("organisation_id", metavar="ID|NAME")
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
        exported(rest, f"{path_of(rest, organisation_id, 'audit')}/export", file, timeout)


@organisation_audit.command(
    "head",
    short_help="Show the newest entry's number and hash, to note elsewhere.",
    examples=["penstock organisation audit head org_4fZ8"],
)
@click.argument("organisation_id", metavar="ID|NAME")
@click.option("--sequence", type=click.IntRange(min=1), help="Of this entry instead of the newest.")
@session_option
@timeout_option
def organisation_audit_head(
    organisation_id: str, sequence: int | None, token_file: Path | None, timeout: float
) -> None:
    """Show SEQUENCE:HASH of an entry, as --expect of `penstock audit verify-export` takes it.

    The hash stands for the entry and all before it. Every member may ask; it reveals nothing of the entries.
    """
    with session_client(token_file) as rest:
        log = Log(rest=rest, path=path_of(rest, organisation_id, "audit", "head"), timeout=timeout)
        head = log.head(sequence)
    if current().json:
        print_json({"organisation": head.where, "sequence": head.sequence, "hash": head.hash})
    else:
        click.echo(f"{head.sequence}:{head.hash}")


@organisation_audit.command(
    "verify",
    short_help="Check whether the log still holds what was noted of it.",
    examples=[
        "penstock organisation audit verify org_4fZ8",
        f"penstock organisation audit verify org_4fZ8 --expect 14:{'0' * 64}",
    ],
)
@click.argument("organisation_id", metavar="ID|NAME")
@expecting
@noting
@session_option
@timeout_option
@click.pass_context
def organisation_audit_verify(
    context: click.Context,
    organisation_id: str,
    expected: tuple[str, ...],
    notes: Path | None,
    token_file: Path | None,
    timeout: float,
) -> None:
    """Compare the log with what was noted of it: by the last run of this command, and by --expect.

    Then the newest head is noted here, beside those of tenants. Exit code 0 only when all agrees; 5 when something does
    not, and then nothing is noted.
    """
    with session_client(token_file) as rest:
        log = Log(rest=rest, path=path_of(rest, organisation_id, "audit", "head"), timeout=timeout)
        verified(context, log, expected, notes, on_invoices=False)
