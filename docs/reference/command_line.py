"""Pages of the command line, from its commands, and of its exit codes."""

import inspect
from collections.abc import Iterator

import click

from docs.reference.markdown import code, page, said_of, table
from penstock.cli import exit_codes
from penstock.cli.__main__ import cli
from penstock.cli.exit_codes import ExitCode, ProcessEnd
from penstock.cli.invocation import Command, shared_options

_SHARED = {"--help", "--version"}.union(*(option.opts for option in shared_options()))


def commands_page() -> str:
    """Every command: what it does, its arguments and options, examples."""
    shared = [
        record
        for option in shared_options()
        if (record := option.get_help_record(click.Context(cli))) is not None
    ]
    parts = [
        "Every command takes these, before or behind its name:",
        table(["option", "meaning"], [(code(name), meaning) for name, meaning in shared]),
        "[Exit codes](exit-codes.md) are the same for all. The [guide](../guides/cli.md) tells how they are used.",
    ]
    for path, command in leaves(cli, ("penstock",)):
        parts.append(f"## {' '.join(path)}")
        parts.append(_described(path, command))
    return page(
        "Commands",
        "the command line itself (`penstock.cli`, and `commands.py` of the server's packages)",
        *parts,
    )


def exit_codes_page() -> str:
    """What a command may end with."""
    return page(
        "Exit codes",
        "`penstock/cli/exit_codes.py`",
        "A script can rely on these. With `--json` a failure is one JSON document on the standard error "
        "stream, with `code` "
        "(a name of the [error table](errors.md)), `message`, `remedy`, `retriable`, `belief` and `exit_code`.",
        _codes(ExitCode),
        "## Processes",
        "`penstock broker run` and `penstock server web`, `worker` and `runner` end with these instead, for what "
        "starts them:",
        _codes(ProcessEnd),
    )


def _codes(of: type[ExitCode] | type[ProcessEnd]) -> str:
    said = said_of(exit_codes, of.__name__)
    rows = [
        (int(member), member.name.lower().replace("_", " "), said[member.name] or "Done.") for member in of
    ]
    return table(["code", "name", "meaning"], rows)


def leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        elif command is not None:
            yield (*path, name), command


def _described(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path), terminal_width=200, max_content_width=200)
    usage = command.get_usage(context).removeprefix("Usage: ")
    options = [
        record
        for parameter in command.get_params(context)
        if not _SHARED.intersection(parameter.opts)
        and (record := parameter.get_help_record(context)) is not None
        and record[1]
    ]
    parts = [f"    {usage}", inspect.cleandoc(command.help or "")]
    if options:
        parts.append(table(["option", "meaning"], [(code(name), meaning) for name, meaning in options]))
    if isinstance(command, Command) and command.examples:
        parts.append("Examples:\n\n" + "\n".join(f"    {example}" for example in command.examples))
    return "\n\n".join(parts)
