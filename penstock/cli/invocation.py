"""What every command shares: the options `--profile` and `--json`, and groups that the server's commands
can join.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any

import click

from penstock.cli import extensions
from penstock.cli.arguments import as_text


@dataclass(slots=True)
class Invocation:
    """One call of the command line. `profile` None = as the environment and the profile file say."""

    profile: str | None = None
    json: bool = False
    dry_run: bool = False
    """Changes are only foreseen."""


def current() -> Invocation:
    """The invocation that the running command belongs to."""
    return click.get_current_context().find_root().ensure_object(Invocation)


def _take_profile(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.find_root().ensure_object(Invocation).profile = as_text(value, parameter, context)


def _take_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().ensure_object(Invocation).json = True


def shared_options() -> list[click.Parameter]:
    """`--profile` and `--json`, which may stand before or behind the name of a command."""
    return [
        click.Option(
            ["--profile"],
            metavar="NAME",
            help="Profile with addresses and key (or PENSTOCK_PROFILE).",
            expose_value=False,
            callback=_take_profile,
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            help="Print JSON instead of tables.",
            expose_value=False,
            callback=_take_json,
        ),
    ]


class Command(click.Command):
    """A command with the shared options, whose help ends with examples."""

    def __init__(
        self,
        name: str | None,
        *,
        params: list[click.Parameter] | None = None,
        examples: Sequence[str] = (),
        **rest: Any,
    ) -> None:
        super().__init__(name, params=[*(params or []), *shared_options()], **rest)
        self.examples = tuple(examples)
        """Whole command lines as one would type them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's. Raises `click.BadParameter` for bytes that are no text, where the parameter is one."""
        rest = super().parse_args(ctx, args)
        for parameter in self.params:
            if isinstance(parameter.type, click.types.StringParamType) and parameter.name in ctx.params:
                ctx.params[parameter.name] = as_text(ctx.params[parameter.name], parameter, ctx)
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, each on a line of its own, however long."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Group(click.Group):
    """A group whose commands come from the wheel and, under `path`, from the server's entry points.

    `homes` names module:attribute of commands that are imported when they are asked for. `sections` are titles with the
    commands under each in the help.
    """

    command_class = Command

    def __init__(
        self,
        name: str | None = None,
        *,
        params: list[click.Parameter] | None = None,
        path: Sequence[str] = (),
        homes: Mapping[str, str] = MappingProxyType({}),
        sections: Mapping[str, Sequence[str]] = MappingProxyType({}),
        **rest: Any,
    ) -> None:
        super().__init__(name, params=[*(params or []), *shared_options()], **rest)
        self._sections = sections
        self.path = tuple(path)
        self._homes = homes

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the wheel's and the server's commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._homes, *extensions.names_under(self.path)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The wheel's command of that name, or else the server's, or one that says what to install."""
        own = super().get_command(ctx, cmd_name) or self._from_home(cmd_name)
        if own is not None or cmd_name not in extensions.names_under(self.path):
            return own
        try:
            return extensions.load((*self.path, cmd_name))
        except extensions.Absent as absent:
            return _AbsentCommand(cmd_name, absent)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, which suggests commands that are imported already. Raises `click.UsageError`."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            alike = " or ".join(map(repr, get_close_matches(name, self.list_commands(ctx))))
            raise click.UsageError(f"No such command {name!r}.{alike and f' Did you mean {alike}?'}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under the titles of their sections; those of no section come last."""
        titled = {name for names in self._sections.values() for name in names}
        sections = dict(self._sections)
        sections["More" if titled else "Commands"] = [
            name for name in self.list_commands(ctx) if name not in titled
        ]
        width = max((len(name) for name in self.list_commands(ctx)), default=0)
        for title, names in sections.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (f"{name:<{width}}", command.get_short_help_str(formatter.width - 6 - width))
                for name, command in commands
                if command is not None and not command.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _from_home(self, name: str) -> click.Command | None:
        home = self._homes.get(name)
        if home is None:
            return None
        module, _, attribute = home.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class _AbsentCommand(click.Command):
    """Stands for a command of the server that is not installed: any arguments lead to the same answer."""

    def __init__(self, name: str, absent: extensions.Absent) -> None:
        super().__init__(
            name,
            short_help="(not installed: a command of the server)",
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
            params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED), *shared_options()],
            add_help_option=False,
            callback=self._refuse,
        )
        self.absent = absent

    def _refuse(self, arguments: Sequence[str]) -> None:
        raise self.absent.refusal() from self.absent
