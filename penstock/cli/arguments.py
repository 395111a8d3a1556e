"""Arguments as the shell gives them: text, or bytes where a command says so."""

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _BytesParameter = click.ParamType[bytes]
else:
    _BytesParameter = click.ParamType  # generic in newer versions only


class Bytes(_BytesParameter):
    """The bytes of an argument as the shell gave them, whatever they are."""

    name = "text"

    def convert(self, value: str | bytes, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Python keeps bytes that are no text of the locale as lone surrogates; this is the way back."""
        return value if isinstance(value, bytes) else os.fsencode(value)


def as_text(value: Any, parameter: click.Parameter, context: click.Context) -> Any:
    """A text, or each of several, as UTF-8, whatever the locale; other values as they are.

    Raises `click.BadParameter` for bytes that are no UTF-8.
    """
    if isinstance(value, (tuple, list)):
        return type(value)(as_text(part, parameter, context) for part in value)
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        return os.fsencode(value).decode()
    except UnicodeDecodeError:
        shown = os.fsencode(value).decode(errors="backslashreplace")
        raise click.BadParameter(f"'{shown}' is no UTF-8 text", context, parameter) from None
