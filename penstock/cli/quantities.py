"""Sizes and times as people type them: `1GiB`, `7d`; plain numbers are bytes and milliseconds."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _Parameter = click.ParamType[int]
else:
    _Parameter = click.ParamType  # generic in newer versions only

SIZES: Mapping[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1_000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{f"{prefix}iB": 1_024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
}
"""Bytes of each unit; `KB` is `kB`, and `K` alone is neither."""
TIMES: Mapping[str, int] = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
"""Milliseconds of each unit."""
_MICRO = 1_000_000
_QUANTITY = re.compile(r"(-?\d{1,18})([A-Za-z]*)\Z", re.ASCII)


def read_quantity(text: str, units: Mapping[str, int]) -> int:
    """`7d` in milliseconds, `1GiB` in bytes; a plain number as it is. A negative number has no unit.

    Raises `ValueError` saying what is accepted.
    """
    found = _QUANTITY.match(text.strip())
    unit = "" if found is None else {"KB": "kB"}.get(found[2], found[2])
    if found is None or (unit and (unit not in units or found[1].startswith("-"))):
        raise ValueError(f"{text!r} is no whole number, alone or with one of {', '.join(units)}")
    return int(found[1]) * (units[unit] if unit else 1)


def in_unit(name: str, value: object) -> str:
    """A number of bytes or milliseconds in the largest unit that divides it, as options take it; -1 is no limit. The
    name says what it counts; empty for other numbers.

    >>> in_unit("retention_ms", 604_800_000), in_unit("produce_bytes_per_s", 67_108_864), in_unit("topics_max", 5)
    ('7d', '64MiB/s', '')
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    parts, per_s = name.split("_"), "/s" if name.endswith("_per_s") else ""
    units = SIZES if "bytes" in parts else TIMES if "ms" in parts and not per_s else {}
    if units and value == -1:
        return "no limit"
    for unit, size in sorted(units.items(), key=lambda item: -item[1]):
        if value and size > 1 and unit != "w" and value % size == 0:
            return f"{value // size}{unit}{per_s}"
    return ""


def read_micro(option: str, amount: str) -> int:
    """An amount of money in micro-units. Raises `click.UsageError`, which names the option."""
    try:
        micro = Decimal(amount) * _MICRO
    except InvalidOperation:
        raise click.UsageError(f"{option}: {amount!r} is no amount of money") from None
    if not micro.is_finite() or micro != micro.to_integral_value():
        raise click.UsageError(f"{option}: {amount!r} is no amount of money; at most six places are allowed")
    return int(micro)


class _Quantity(_Parameter):
    units: Mapping[str, int]

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return read_quantity(str(value), self.units)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Size(_Quantity):
    """Bytes: `1048576`, `1MiB`, `1MB`."""

    name = "size"
    units = SIZES


class Duration(_Quantity):
    """Milliseconds: `604800000`, `7d`, `90m`."""

    name = "time"
    units = TIMES
