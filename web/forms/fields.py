"""Fields of forms: texts, whole numbers, choices and times, read strictly."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from penstock.rules.timestamps import time_ms

TEXT_MAX = 512 * 1024
"""Characters of one field. A longer text is refused, never shortened."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_EMPTY = "Fill this in"


def not_too_long(text: str) -> None:
    """Raises `ValidationError`. Not `max_length`: with it, browsers shorten a pasted text."""
    if len(text) > TEXT_MAX:
        raise ValidationError(f"{len(text):,} characters; a form of the console takes {TEXT_MAX:,}")


class Text(forms.CharField):
    """Text without the spaces around it."""

    default_error_messages: ClassVar = {"required": _EMPTY}

    def __init__(self, **options: Any) -> None:
        super().__init__(validators=[not_too_long], **options)


class Verbatim(Text):
    """Text as it was typed. Browsers end lines with CR LF where a person typed LF."""

    def __init__(self, **options: Any) -> None:
        super().__init__(strip=False, **options)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\r\n", "\n")


SECRET_LENGTH_MAX = 256
"""Characters. Longer ones are refused before they are looked at: to normalise half a million takes minutes."""


class Secret(Text):
    """A password or token, as it was typed. No page ever shows it."""

    def __init__(self, *, attrs: dict[str, Any], **options: Any) -> None:
        super().__init__(
            strip=False, widget=forms.PasswordInput(attrs), max_length=SECRET_LENGTH_MAX, **options
        )


class Whole(forms.IntegerField):
    """A whole number, with or without spaces between its digits."""

    default_error_messages: ClassVar = {"required": _EMPTY, "invalid": "Enter a whole number"}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

    def to_python(self, value: Any) -> int | None:
        text = "" if value is None else str(value).replace(" ", "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return int(text)


class Choice(forms.ChoiceField):
    """One of several."""

    default_error_messages: ClassVar = {"required": "Choose one", "invalid_choice": "Choose one of these"}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)


class Moment(forms.DateTimeField):
    """A time in UTC, as browsers send it."""

    default_error_messages: ClassVar = {
        "required": _EMPTY,
        "invalid": "Enter a time such as 2026-01-31T12:00",
    }

    def __init__(self, **options: Any) -> None:
        widget = forms.DateTimeInput({"type": "datetime-local", "step": 1}, format="%Y-%m-%dT%H:%M:%S")
        super().__init__(widget=widget, **options)


class Ticks(forms.CheckboxSelectMultiple):
    """Boxes to tick, each with its own name: `may_produce`."""

    def __init__(self, *, before: str) -> None:
        super().__init__()
        self._before = before

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return [value for value, _ in self.choices if f"{self._before}{value}" in data]

    def create_option(self, name: str, value: Any, *given: Any, **named: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *given, **named)
        return {**option, "name": f"{self._before}{value}"}


class Several(forms.MultipleChoiceField):
    """Some of several, as boxes to tick."""

    default_error_messages: ClassVar = {"required": "Tick at least one"}

    def __init__(self, *, before: str, **options: Any) -> None:
        widget = Ticks(before=before)
        super().__init__(widget=widget, **{"template_name": "web/fields/ticks.html", **options})


def numbered(numbers: Iterable[int]) -> list[tuple[str, str]]:
    """Numbers as choices."""
    return [(str(number), str(number)) for number in numbers]


def moment_ms(at: datetime) -> int:
    """ms since 1970; 0 for an earlier time."""
    return max(0, time_ms(at))
