"""Changes of the profile file: one table or one line is replaced, every other line stays as it was."""

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.contract.errors import ConfigurationError, NotFound
from penstock.private_file import write_private
from penstock.profiles import USED

Field = str | list[str] | Mapping[str, str]
"""A value in a profile."""
try:
    import fcntl
except ImportError:  # not on every system; there the last one wins
    fcntl = None  # type: ignore[assignment]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line as TOML has it: a text in quotes may have what other formats take for the end of one."""
_HEADER = re.compile(r"[ \t]*\[")
_USED_LINE = re.compile(rf"[ \t]*{USED}[ \t]*=")


def with_profile(text: str, name: str, fields: Mapping[str, Field]) -> str:
    """`text` (TOML) with the table `name` holding exactly `fields`, every other line as it was.

    Raises `tomllib.TOMLDecodeError` for text that is none, `ConfigurationError` where the change would
    touch another table.
    """
    before: dict[str, Any] = tomllib.loads(text)
    if before.get(name) == fields:
        return text
    table = f"[{name}]\n" + "".join(f"{key} = {_inline(value)}\n" for key, value in fields.items())
    kept, where = _without(text, name)
    fresh = kept[:where].rstrip("\n") + "\n\n" + table + ("\n" if kept[where:] else "") + kept[where:]
    return _checked(fresh, {**before, name: fields}, name)


def with_field(text: str, name: str, field: str, value: str | Mapping[str, str] | None) -> str:
    """`text` with the field of the table `name` set on one line, every other line as it was; None: without the field.

    Raises `NotFound` when there is no such profile, and as `with_profile` does.
    """
    before: dict[str, Any] = tomllib.loads(text)
    table = before.get(name)
    if not isinstance(table, dict):
        raise _missing(name)
    header = re.compile(rf"[ \t]*\[[ \t]*{re.escape(name)}[ \t]*\]")
    line_of_field = re.compile(rf"[ \t]*{re.escape(field)}[ \t]*=")
    kept: list[str] = []
    inside = False
    for line in _LINE.findall(text):
        if _HEADER.match(line):
            inside = header.match(line) is not None
        elif inside and line_of_field.match(line):
            continue
        kept.append(line)
        if inside and value is not None and header.match(line):
            kept[-1] = line if line.endswith("\n") else line + "\n"
            kept.append(f"{field} = {_inline(value)}\n")
    changed = {key: kept_value for key, kept_value in table.items() if key != field}
    if value is not None:
        changed[field] = value
    return _checked("".join(kept), {**before, name: changed}, name)


def without_profile(text: str, name: str) -> str:
    """`text` without the table `name`; nor is it the used one any more.

    Raises `NotFound` when there is none, and as `with_profile` does.
    """
    before: dict[str, Any] = tomllib.loads(text)
    if not isinstance(before.get(name), dict):
        raise _missing(name)
    kept, _ = _without(text, name)
    if before.get(USED) == name:
        kept = _without_used(kept)
    wanted = {
        key: value for key, value in before.items() if key != name and not (key == USED and value == name)
    }
    return _checked(kept, wanted, name)


def with_used(text: str, name: str) -> str:
    """`text` with `name` as the profile that counts when none is named.

    Raises `NotFound` when there is no such profile, and as `with_profile` does.
    """
    before: dict[str, Any] = tomllib.loads(text)
    if not isinstance(before.get(name), dict):
        raise _missing(name)
    fresh = f"{USED} = {json.dumps(name)}\n" + _without_used(text)
    return _checked(fresh, {**before, USED: name}, name)


def change_file(file: Path, change: Callable[[str], str]) -> None:
    """Replace the profile file's text by what `change` makes of it, readable by its owner only. Two programs at once
    change it one after the other. Raises `OSError`, `UnicodeDecodeError`, and what `change` raises.
    """
    whole = file.resolve()
    whole.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(whole.with_name(f".{whole.name}.lock"), flags, 0o600), "rb") as turn:
        if fcntl is not None:
            with suppress(OSError):  # as file systems of a network may not lock
                fcntl.flock(turn, fcntl.LOCK_EX)
        text = whole.read_text(encoding="utf-8-sig") if whole.exists() else ""
        fresh = change(text)
        if fresh != text:
            write_private(whole, fresh)


def _missing(name: str) -> NotFound:
    return NotFound(f"profile {name!r}: there is none; `penstock profile list` shows what there is")


def _inline(value: object) -> str:
    """TOML on one line, of texts, lists of them and tables of them."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_inline(part)}" for key, part in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _checked(fresh: str, wanted: dict[str, Any], name: str) -> str:
    fresh = fresh.lstrip("\n")
    try:
        after: dict[str, Any] = tomllib.loads(fresh)
    except tomllib.TOMLDecodeError:
        after = {}
    if after != wanted:
        raise ConfigurationError(f"table [{name}] cannot be changed there; change it by hand")
    return fresh


def _without(text: str, name: str) -> tuple[str, int]:
    """`text` without the table `name` and its sub-tables, and where it stood (the end if it did not)."""
    own = re.compile(rf"[ \t]*\[{re.escape(name)}[\].]")
    kept: list[str] = []
    where: int | None = None
    inside = False
    for line in _LINE.findall(text):
        if _HEADER.match(line):
            inside = own.match(line) is not None
            if inside and where is None:
                where = sum(map(len, kept))
        if not inside:
            kept.append(line)
    joined = "".join(kept)
    return joined, len(joined) if where is None else where


def _without_used(text: str) -> str:
    """`text` without the line that says which profile is used: it stands before the first table."""
    kept: list[str] = []
    top = True
    for line in _LINE.findall(text):
        top = top and not _HEADER.match(line)
        if not (top and _USED_LINE.match(line)):
            kept.append(line)
    return "".join(kept)
