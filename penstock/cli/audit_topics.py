"""`penstock audit topic`, `topic-on` and `topic-off`: the topic `__audit` that a tenant's audit log is written to."""

from pathlib import Path
from typing import Any

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table
from penstock.cli.quantities import Duration
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option

_PATH = "/v1/audit-topic"
_whose = whose_option("topic")


@click.command(
    "topic",
    cls=Command,
    short_help="Show whether the log is written to a topic, and how far it is behind.",
    examples=["penstock audit topic"],
)
@_whose
@timeout_option
def audit_topic(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Show whether the log is written to the topic __audit, and how many entries the topic does not have yet.

    It takes a person who has signed in (`penstock login`); API keys may not read the log.
    """
    with client_for(token_file, tenant) as rest:
        _show(rest.get(_PATH, timeout_s=timeout))


@click.command(
    "topic-on",
    cls=Command,
    short_help="Write the log to the topic __audit.",
    examples=["penstock audit topic-on", "penstock audit topic-on --retention 90d"],
)
@click.option(
    "--retention", type=Duration(), help="Keep entries in the topic at least this long (90d); -1 = no limit."
)
@_whose
@timeout_option
def audit_topic_on(
    retention: int | None, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Write every entry of the log to the topic __audit, which is made if there is none.

    A new topic gets the log from its first entry on; one that was switched off goes on where it stopped. It counts as
    any topic with one partition. Keys read it by a scope that names it.
    """
    body: dict[str, Any] = {"state": "on"}
    if retention is not None:
        body["retention_ms"] = retention
    with client_for(token_file, tenant) as rest:
        _show(rest.patch(_PATH, body, timeout_s=timeout))


@click.command(
    "topic-off",
    cls=Command,
    short_help="Write the log to the topic no more.",
    examples=["penstock audit topic-off", "penstock audit topic-off --delete --yes"],
)
@click.option("--delete", is_flag=True, help="Delete the topic for good, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_whose
@timeout_option
def audit_topic_off(
    delete: bool, yes: bool, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Write the log to the topic no more. The topic keeps what it has, until retention or --delete removes it.

    The log itself stays. With --delete it asks before, and needs --yes where there is no terminal.
    """
    if delete and not yes:
        must_agree("The topic __audit and all entries in it will be gone for good; the log stays. Go on?")
    with client_for(token_file, tenant) as rest:
        if delete:
            rest.delete(_PATH, timeout_s=timeout)
            _show(rest.get(_PATH, timeout_s=timeout))
        else:
            _show(rest.patch(_PATH, {"state": "off"}, timeout_s=timeout))


def _show(found: dict[str, Any]) -> None:
    if current().json:
        print_json(found)
        return
    retention = found["retention_ms"]
    rows = [
        ["state", found["state"] if found["exists"] or found["state"] == "on" else "off; there is no topic"],
        ["topic", found["topic"]],
        ["retention", "no limit" if retention < 0 else f"{retention} ms"],
        ["entries in it", f"up to {found['position']} of {found['newest']}"],
        ["lag", found["lag"]],
    ]
    if found["problem"]:
        rows.append(["last attempt", found["problem"]])
    print_table(["", ""], rows)
