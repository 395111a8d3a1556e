"""Where reading begins: `--from beginning | end | an offset | a time`."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from penstock.rules.timestamps import read_moment, time_ms

_RELATIVE = re.compile(r"-(\d+)(ms|s|m|h|d)\Z")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Beginning:
    """The oldest message that is still there."""


@dataclass(frozen=True, slots=True)
class End:
    """Only what comes from now on."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The message of this number, in every partition that is read."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message stamped at this time or later, in ms since 1970 UTC."""

    timestamp_ms: int


Position = Beginning | End | AtOffset | AtTime


def parse_position(text: str, now_ms: int) -> Position:
    """Read `--from`. A time is ISO 8601 (UTC when it names no zone) or relative: `-15m`, `-2h`, `-1d`.

    Raises `ValueError` saying what is accepted.
    """
    if text == "beginning":
        return Beginning()
    if text == "end":
        return End()
    if text.isascii() and text.isdigit():
        return AtOffset(int(text))
    if relative := _RELATIVE.match(text):
        return AtTime(max(0, now_ms - int(relative[1]) * _UNIT_MS[relative[2]]))
    try:
        moment = read_moment(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is none of: beginning, end, an offset (17), a time (2026-01-31T12:00:00Z), "
            "a time ago (-15m)"
        ) from None
    return AtTime(max(0, time_ms(moment)))


def wall_ms() -> int:
    """Now, in ms since 1970 UTC."""
    return time_ms(datetime.now(UTC))


def read_position(context: click.Context, parameter: click.Parameter, value: str) -> Position:
    """`parse_position` as the callback of an option."""
    try:
        return parse_position(value, wall_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
