"""Asks before a change that cannot be undone; without a terminal, `--yes` is required."""

import sys

import click

from penstock.cli.invocation import current


def ask(question: str, *, instead: str = "--yes") -> bool:
    """What the person at the terminal answers; no is the answer to an empty line. A dry run is not asked about.

    Raises `click.UsageError` with `--json` and where standard input is no terminal: `instead` names the option.
    """
    if current().dry_run:
        return True
    if current().json:
        raise click.UsageError(f"with --json say {instead}.")
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: say {instead}.")
    return click.confirm(question, err=True)


def must_agree(question: str, *, instead: str = "--yes") -> None:
    """As `ask`; a no ends the command. Raises `click.Abort`."""
    if not ask(question, instead=instead):
        raise click.Abort()
