"""Fields of forms, made from descriptions of resources."""

from collections.abc import Iterable
from typing import Any, TypeVar

from django import forms

from control_plane.api.bounds import within_bounds
from penstock.contract.resources.description import Field, Kind
from penstock.contract.resources.wording import meaning
from web.forms.console_form import ConsoleForm
from web.forms.fields import Choice, Moment, Text, Whole

_FormT = TypeVar("_FormT", bound=ConsoleForm)
_WHOLE_LENGTH_MAX = 19


def with_fields(base: type[_FormT], fields: Iterable[Field], *, required: bool = True) -> type[_FormT]:
    """The form, with a box for each of these fields."""
    return type(base.__name__, (base,), {field.name: box(field, required=required) for field in fields})


def box(field: Field, *, required: bool = True, initial: object = None, chooses: bool = False) -> forms.Field:
    """What people fill in. It is theirs to leave empty where it is not `required`. A choice that `chooses` shows and
    hides other boxes of its form.
    """
    options: dict[str, Any] = {
        "label": field.label,
        "help_text": meaning(field).replace("`", ""),
        "required": required,
        "initial": initial,
    }
    if field.choices:
        choices = [(choice.value, choice.label) for choice in field.choices]
        return Choice(
            choices=choices, widget=forms.Select({"data-chooses": True} if chooses else {}), **options
        )
    if field.kind is Kind.WHOLE:
        widget = forms.TextInput({"inputmode": "numeric", "maxlength": _WHOLE_LENGTH_MAX})
        return Whole(widget=widget, validators=within_bounds(field), **options)
    if field.kind is Kind.MOMENT:
        return Moment(**options)
    length = {} if field.length_max is None else {"maxlength": field.length_max}
    widget = forms.TextInput({**length, "spellcheck": "false"})
    return Text(widget=widget, **options)
