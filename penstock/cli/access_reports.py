"""`penstock access report` and `reports`: who may do what in a tenant, each month and now, over REST."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command, current
from penstock.cli.invoice import moment
from penstock.cli.output import print_json, print_part, print_table, progress, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.rest.client import segment
from penstock.rules.access_report import as_csv, digest

_whose = whose_option("report")
_NOW = "now"
_Row = Callable[[Mapping[str, Any]], list[object]]


@click.command(
    "reports",
    cls=Command,
    short_help="List the reports of past months.",
    examples=["penstock access reports", "penstock access reports --tenant tn_... --json"],
)
@_whose
@timeout_option
def access_reports(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the stored reports, oldest first: one of each month, kept for 25 months.

    It takes a person who has signed in (`penstock login`); API keys may not read reports.
    """
    with client_for(token_file, tenant) as rest:
        found = list(rest.items("/v1/access/reports", timeout_s=timeout))
    if current().json:
        print_json({"reports": found})
        return
    print_table(
        ["month", "made", "changes", "looks unused", "refused", "sha256"],
        [
            [
                one["month"],
                moment(one["made_at"]),
                one["counts"].get("changes", 0),
                one["counts"].get("unused", 0),
                one["counts"].get("refusals", 0),
                one["sha256"],
            ]
            for one in found
        ],
        empty="No report yet: the first one is made when this month is over. Now: penstock access report",
    )


@click.command(
    "report",
    cls=Command,
    short_help="Show who may do what, what changed and looks unused.",
    examples=[
        "penstock access report",
        "penstock access report --month 2026-10",
        "penstock access report --month 2026-10 --csv > access.csv",
    ],
)
@click.option(
    "--month", metavar="MONTH", help="The stored report of this month, as 2026-10. Without it: now."
)
@click.option("--csv", "csv", is_flag=True, help="Print rows for a spreadsheet, none of them a formula.")
@_whose
@timeout_option
@click.pass_context
def access_report(
    context: click.Context,
    month: str | None,
    csv: bool,
    token_file: Path | None,
    tenant: str | None,
    timeout: float,
) -> None:
    """Show people, service accounts, keys, groups and entries of the tenant, and what of it to look at.

    It takes a person who has signed in (`penstock login`); API keys may not read reports. Exit code 5 where the
    report is not the one that its digest is of.
    """
    if csv and current().json:
        raise click.UsageError("--csv and --json: either this or that")
    with client_for(token_file, tenant) as rest, progress("Reading"):
        answer = rest.get(f"/v1/access/reports/{segment(month or _NOW)}", timeout_s=timeout)
    report = answer["report"]
    if digest(report) != answer["sha256"]:
        say("The report is not the one that its digest is of; nothing of it is shown.")
        context.exit(int(ExitCode.REFUSED))
    if current().json:
        print_json(answer)
    elif csv:
        for line in as_csv(report):
            sys.stdout.write(line)
    else:
        _show(answer)


def _show(answer: Mapping[str, Any]) -> None:
    report = answer["report"]
    since = f", changes since {report['compared_with']}" if report["compared_with"] else ""
    for kind, title, columns, row in _PARTS:
        rows = [row(one) for one in report[kind]]
        if sys.stdout.isatty():
            click.echo(f"{title}: {len(rows):,}")
        if rows:
            print_part(kind, columns, rows)
    for name, count in report["left_out"].items():
        say(f"{count:,} more of {name} are not in the report.")
    say(f"{report['tenant']['name']}, made {moment(report['made_at'])}{since}; sha256 {answer['sha256']}")


def _changed(one: Mapping[str, Any]) -> list[object]:
    fields = ", ".join(field["field"] for field in one["fields"]) or "-"
    return [one["kind"], one["change"], one["name"] or one["id"], fields]


def _counted(one: Mapping[str, Any]) -> list[object]:
    return [one["name"] or f"{one['actor_kind']} {one['actor_id']}", one["action"], one["times"]]


def _person(one: Mapping[str, Any]) -> list[object]:
    factors = ", ".join(one["second_factors"]) or "none"
    return [one["email"], one["role"], factors, _at(one["last_sign_in_at"])]


def _key(one: Mapping[str, Any]) -> list[object]:
    scopes = "; ".join(f"{', '.join(s['operations']) or 'all'} on {s['on']}" for s in one["scopes"])
    return [one["name"], one["principal"], scopes or "all", _at(one["expires_at"]), _at(one["last_used_at"])]


def _at(text: str | None) -> str:
    return "never" if text is None else moment(text)


_PARTS: tuple[tuple[str, str, tuple[str, ...], _Row], ...] = (
    (
        "people",
        "People",
        ("person", "role", "second factor", "last sign-in"),
        _person,
    ),
    (
        "service_accounts",
        "Service accounts",
        ("name", "id", "made"),
        lambda one: [one["name"], one["id"], moment(one["created_at"])],
    ),
    ("keys", "Keys", ("name", "of", "may", "ends", "last used"), _key),
    (
        "groups",
        "Groups of principals",
        ("name", "members"),
        lambda one: [one["name"], ", ".join(one["members"]) or "none"],
    ),
    ("entries", "Entries of the access list", ("entry", "says"), lambda one: [one["id"], one["text"]]),
    (
        "presets",
        "Presets that entries make up",
        ("who", "is", "of"),
        lambda one: [one["principal"], one["preset"], one["on"]],
    ),
    (
        "invitations",
        "Open invitations",
        ("address", "role", "until"),
        lambda one: [one["email"], one["role"], moment(one["expires_at"])],
    ),
    ("changes", "Changed", ("kind", "change", "what", "of it"), _changed),
    (
        "unused",
        "Looks unused",
        ("kind", "what", "why"),
        lambda one: [one["kind"], one["name"], one["reason"]],
    ),
    ("refusals", "Refused", ("who", "what", "times"), _counted),
    ("activity", "Changes by", ("who", "what", "times"), _counted),
)
