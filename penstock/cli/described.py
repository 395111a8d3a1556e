"""Options of commands about a described resource, the bodies that are made of them, and lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from penstock.cli.invocation import current
from penstock.cli.output import print_json, print_table
from penstock.contract.resources.checks import chosen
from penstock.contract.resources.description import Field, Given, Kind, Resource, Value
from penstock.contract.resources.wording import meaning

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., object])
_Cell = Callable[[dict[str, Any]], object]


def options_to_make(
    resource: Resource, *, without: Sequence[str] = (), defaults: Mapping[str, Value] | None = None
) -> Callable[[_FunctionT], _FunctionT]:
    """An option for each field of a new object. `without`: fields that the command reads in another way; `defaults`:
    what the command gives where REST has no default."""
    usual = defaults or {}
    return _added(
        click.option(
            _option(field),
            field.name,
            required=field.default is None and field.name not in usual,
            default=usual.get(field.name, field.default or None),
            show_default=True,
            **_typed(field),
        )
        for field in _given(resource, Given.ONCE, Given.ALWAYS, without=without)
    )


def options_to_change(
    resource: Resource, *, without: Sequence[str] = ()
) -> Callable[[_FunctionT], _FunctionT]:
    """An option for each field that can be changed."""
    return _added(
        click.option(_option(field), field.name, **_typed(field))
        for field in _given(resource, Given.ALWAYS, Given.LATER, without=without)
    )


def body(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given on the command line, for REST: without what was not."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value is not False and value != ()
    }


def changes(resource: Resource, given: Mapping[str, Any]) -> dict[str, Any]:
    """As `body`. Raises click's `UsageError` where nothing was given."""
    changed = body(given)
    if not changed:
        known = [_option(field) for field in _given(resource, Given.ALWAYS, Given.LATER)]
        raise click.UsageError(f"one of {', '.join(known[:-1])} and {known[-1]} is required")
    return changed


def print_list(
    plural: str, objects: Sequence[dict[str, Any]], columns: Mapping[str, _Cell], *, empty: str
) -> None:
    """A table with these columns, or JSON; `empty` says what to do where there is no object."""
    if current().json:
        print_json({plural: objects})
        return
    rows = [[cell(shown) for cell in columns.values()] for shown in objects]
    print_table(list(columns), rows, empty=empty)


def _given(resource: Resource, *when: Given, without: Sequence[str] = ()) -> list[Field]:
    return [field for field in resource.fields if field.given in when and field.name not in without]


def _option(field: Field) -> str:
    return "--" + (field.option or field.name.replace("_", "-"))


def _typed(field: Field) -> dict[str, Any]:
    options: dict[str, Any] = {"help": meaning(field).replace("`", "")}
    if field.choices:
        options["type"] = click.Choice(chosen(field))
    if field.kind in (Kind.WHOLE, Kind.WHOLES):
        options["type"] = click.IntRange(field.low, field.high)
    if field.kind in (Kind.TEXTS, Kind.WHOLES):
        options |= {"multiple": True, "help": f"{options['help']} Repeatable."}
    if field.kind is Kind.MOMENT:
        options["metavar"] = "MOMENT"
    if field.kind is Kind.FLAG:
        options["is_flag"] = True
    return options


def _added(decorators: Iterable[Callable[[Any], Any]]) -> Callable[[_FunctionT], _FunctionT]:
    ordered = list(decorators)

    def decorate(command: _FunctionT) -> _FunctionT:
        # Click lists options in the order in which their decorators stand, from the last one up.
        for decorator in reversed(ordered):
            command = decorator(command)
        return command

    return decorate
