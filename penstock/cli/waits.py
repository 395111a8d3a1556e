"""Seconds that a command waits, as people type them after `--timeout`."""

import math
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Parameter = click.ParamType[float]
else:
    _Parameter = click.ParamType  # generic in newer versions only


class Seconds(_Parameter):
    """A number of seconds, 0 or more."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """The number. Raises `click.BadParameter`."""
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = math.nan
        if not seconds >= 0:
            self.fail(f"{value!r} is no number of seconds, 0 or more.", param, context)
        return seconds


SECONDS = Seconds()
