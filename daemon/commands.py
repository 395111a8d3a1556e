"""`penstock config check`: what is wrong with a configuration, before its process is started."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import click

from daemon import settings
from daemon.config_check import Finding, Kind, State, one_line, refused, wrong
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, say
from penstock.contract.errors import ConfigurationError

KINDS = "penstock.configurations"
"""Entry points: each leads to the `Kind` of a process, in that process's own package."""
NAMES = ("broker", "web", "worker", "runner")
EXIT_WRONG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A finding, and for which processes it holds."""

    kinds: tuple[str, ...]
    finding: Finding


@click.group(name="config", cls=Group, path=("config",), short_help="Check a configuration before a start.")
def config() -> None:
    """Configurations of brokers and of the service's processes."""


@config.command(
    "check",
    short_help="Say what is wrong with a configuration.",
    examples=[
        "penstock config check /etc/penstock/broker.json",
        "penstock config check /etc/penstock/server.json --kind worker --connect",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(NAMES),
    help="The process that the file is for; without it the file's content tells.",
)
@click.option("--connect", is_flag=True, help="Also ask the stores and brokers that the file names.")
@click.pass_context
def check(context: click.Context, file: Path, kind: str | None, connect: bool) -> None:
    """Look at a configuration as its process would: values, files, addresses to listen on. Nothing is changed.

    Run it on the process's own host, as its user, with its environment, and before it is started: an address that it
    listens on already counts as taken. Ends with 0 when nothing is wrong, else with 1. No secret is shown.
    """
    found = findings(file, kind, os.environ, connect=connect)
    right = all(one.finding.state is not State.WRONG for one in found)
    if current().json:
        print_json({"ok": right, "file": str(file), "findings": [_json(one) for one in found]})
    else:
        rows = [
            (", ".join(one.kinds), one.finding.setting, one.finding.state.value, one.finding.text)
            for one in found
        ]
        print_table(["for", "setting", "", "fact"], rows, title=str(file))
        many = sum(one.finding.state is State.WRONG for one in found)
        say("Nothing is wrong." if right else f"{many} {'thing is' if many == 1 else 'things are'} wrong.")
    context.exit(0 if right else EXIT_WRONG)


def findings(
    file: Path, kind: str | None, environment: Mapping[str, str], *, connect: bool
) -> tuple[Checked, ...]:
    """What is found of a file, each fact once. Never empty."""
    try:
        values = settings.object_in(file)
    except ConfigurationError as error:
        return (Checked(kinds=(kind or "?",), finding=refused(error, file)),)
    known = _kinds()
    chosen = tuple(one for one in known if (one.name == kind if kind else one.recognizes(values)))
    if not chosen:
        return (Checked(kinds=(kind or "?",), finding=_nothing_known(kind)),)
    found: dict[Finding, list[str]] = {}
    for one in chosen:
        for finding in one.check(file, environment, connect=connect):
            found.setdefault(finding, []).append(one.name)
    return tuple(
        Checked(kinds=tuple(dict.fromkeys(kinds)), finding=finding) for finding, kinds in found.items()
    )


@cache
def _kinds() -> tuple[Kind, ...]:
    """Those whose package is installed, in the order of their names in the command."""
    points = {point.name: point for point in entry_points(group=KINDS)}
    found: list[Kind] = []
    for name in NAMES:
        try:
            if name in points:
                found.append(points[name].load())
        except ModuleNotFoundError:
            continue
    return tuple(found)


def _nothing_known(kind: str | None) -> Finding:
    if kind is not None:
        return wrong("--kind", f"the {kind} is not installed here; run this on a host that has it")
    return wrong(
        "the file",
        "it is for no process: a broker's has broker_id, the service's has secret_key, a runner's own has datasets; "
        "name the process with --kind to see what is missing",
    )


def _json(one: Checked) -> dict[str, object]:
    finding = one.finding
    return {
        "for": list(one.kinds),
        "setting": one_line(finding.setting),
        "state": finding.state.value,
        "text": finding.text,
    }
