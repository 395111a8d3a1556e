"""Reads the fields of a price book's document, and names the one that is wrong."""

import re
from collections.abc import Mapping
from typing import Any

from penstock.contract.errors import InvalidRequest

DECIMAL_TEXT_MAX = 40
"""Characters of a price: more than the largest price and 12 places need."""
_DECIMAL = re.compile(r"([0-9]+)(?:\.([0-9]+))?")


def decimal(value: object, what: str, places_max: int, most: int) -> int:
    """Decimal text in units of its last possible place; a number of JSON would be a float."""
    if not isinstance(value, str) or len(value) > DECIMAL_TEXT_MAX:
        raise InvalidRequest(
            f'price book: {what} must be decimal text with up to {places_max} places such as "0.002", not {value!r}'
        )
    match = _DECIMAL.fullmatch(value)
    if match is None:
        raise InvalidRequest(f"price book: {what} {value!r} is no decimal number")
    whole, places = match[1], (match[2] or "").rstrip("0")
    if len(places) > places_max:
        raise InvalidRequest(f"price book: {what} {value!r} has more than {places_max} places")
    read: int = int(whole) * 10**places_max + int(places.ljust(places_max, "0"))
    if read > most * 10**places_max:
        raise InvalidRequest(f"price book: {what} {value!r} is not between 0 and {most}")
    return read


def mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"price book: {where} must be an object, not {type(value).__name__}")
    return value


def whole(fields: Mapping[str, Any], name: str, least: int, most: int, where: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidRequest(
            f"price book: {where}.{name} must be a whole number from {least} to {most}, not {value!r}"
        )
    return value


def text(fields: Mapping[str, Any], name: str, pattern: re.Pattern[str], where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not pattern.match(value):
        raise InvalidRequest(f"price book: {where}.{name} {value!r} does not match {pattern.pattern}")
    return value
