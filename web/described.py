"""Values of described fields, as pages show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.contract.resources.description import Field, Unit
from web import formats


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A field's value, with the field's name and meaning beside it."""

    label: str
    value: str
    about: str


def rows(fields: Iterable[Field], values: Mapping[str, Any]) -> list[Row]:
    """A row for each field."""
    return [
        Row(label=field.label, value=number(field, values[field.name]), about=field.help.replace("`", ""))
        for field in fields
    ]


def number(field: Field, value: int) -> str:
    """A whole number in its unit, or what 0 means."""
    if not value and field.zero:
        return field.zero
    match field.unit:
        case Unit.BYTE:
            return formats.limit_size(value)
        case Unit.MILLISECOND:
            return f"{formats.count(value)} ms"
        case Unit.PERCENT:
            return f"{value} %"
        case Unit.DAY:
            return f"{formats.count(value)} day{'' if value == 1 else 's'}"
    return formats.count(value)


def choice_label(field: Field, value: str) -> str:
    """How people read one of the field's choices."""
    return next(choice.label for choice in field.choices if choice.value == value)
