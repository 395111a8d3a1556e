"""How bytes of unknown origin are shown: as text that cannot steer a terminal, as hex, or as JSON without
loss.
"""

from collections.abc import Sequence
from typing import Any

from penstock.rules.timestamps import moment_of


def text(value: bytes) -> str:
    """UTF-8 where it is; every other byte and every control character as an escape, so one value is one
    line.
    """
    return line(value.decode("utf-8", "backslashreplace"))


def line(text: str) -> str:
    """Text of another person, such as a name: what moves a cursor or turns the reading direction is an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def counted(number: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def byte_text(size: int) -> str:
    """A size for people.

    >>> byte_text(999), byte_text(1_500), byte_text(2_340_000)
    ('999 bytes', '1.5 kB', '2.3 MB')
    """
    if size < 1_000:
        return counted(size, "byte")
    shown, unit = float(size), "bytes"
    for following in ("kB", "MB", "GB", "TB"):
        if shown < 1_000:
            break
        shown, unit = shown / 1_000, following
    return f"{shown:.1f} {unit}"


def moment(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; a number beyond the calendar stays a number."""
    try:
        shown = moment_of(timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{shown:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def json_field(name: str, value: bytes | None, *, as_hex: bool) -> dict[str, Any]:
    """`{name: text}` when the bytes are UTF-8, else `{name_hex: …}`; `{name: null}` without a value."""
    if value is None:
        return {name: None}
    if not as_hex:
        try:
            return {name: value.decode()}
        except UnicodeDecodeError:
            pass
    return {f"{name}_hex": value.hex()}


def json_headers(headers: Sequence[tuple[str, bytes | None]], *, as_hex: bool) -> list[dict[str, Any]]:
    """Headers in order, repeated names included."""
    return [{"name": name, **json_field("value", value, as_hex=as_hex)} for name, value in headers]
