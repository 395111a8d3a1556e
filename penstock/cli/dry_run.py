"""`--dry-run`: the command asks the service what its change would do, prints the difference and changes nothing."""

from typing import Any

import click

from penstock.cli.invocation import Command, Invocation, current
from penstock.cli.output import print_json, print_table, say

_NONE = "–"


class Foreseen(Exception):
    """The service has answered what a change would do; nothing that comes after the change is to be done.

    `answer` is the document of REST's `?dry_run=true`.
    """

    def __init__(self, answer: Any) -> None:
        super().__init__("a dry run")
        self.answer = answer


class ChangingCommand(Command):
    """A command with `--dry-run`, whose first change over REST is its only one."""

    def __init__(self, name: str | None, *, params: list[click.Parameter] | None = None, **rest: Any) -> None:
        super().__init__(name, params=[*(params or []), dry_run_option()], **rest)

    def invoke(self, context: click.Context, /) -> Any:
        """As click's. Prints what would change, if that was asked for."""
        try:
            return super().invoke(context)
        except Foreseen as foreseen:
            _show(foreseen.answer)
            return None


def dry_run_option() -> click.Option:
    return click.Option(
        ["--dry-run"],
        is_flag=True,
        help="Show what would change, and change nothing.",
        expose_value=False,
        callback=_take,
    )


def _take(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().ensure_object(Invocation).dry_run = True


def _show(answer: dict[str, Any]) -> None:
    if current().json:
        print_json(answer)
        return
    rows = []
    for change in answer["changes"]:
        about = f"{change['kind']} {change['name'] or change['id'] or ''}".strip()
        fields = change["fields"] or [{"field": "", "before": None, "after": None}]
        rows += [
            [change["action"], about, one["field"], _shown(one["before"]), _shown(one["after"])]
            for one in fields
        ]
    print_table(
        ["change", "of", "field", "before", "after"], rows, title="Dry run", empty="Nothing would change."
    )
    if answer.get("monthly_cost_change") is not None:
        say(f"Cost a month: {answer['monthly_cost_change']} ({answer['monthly_cost_reason']})")
    say("Nothing was changed: this was a dry run.")


def _shown(value: Any) -> str:
    if value is None or value == "":
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_shown(one)}" for name, one in sorted(value.items())) or _NONE
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or _NONE
    return str(value)
