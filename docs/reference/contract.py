"""Pages of the public contract: errors, limits, settings of a topic."""

import ast
import inspect
from dataclasses import fields
from enum import IntEnum
from pathlib import Path

from docs.reference.markdown import code, page, said_of, table
from penstock.cli.exit_codes import exit_code
from penstock.contract import limits, topic_settings
from penstock.contract.errors import error_class, error_table
from penstock.contract.topic_settings import TopicSettings


def errors_page() -> str:
    """The error table."""
    rows = []
    for row in error_table():
        kind = error_class(row.code)
        meaning = inspect.getdoc(kind) or ""
        rows.append(
            (
                int(row.code),
                code(kind.__name__),
                code(row.code.name),
                meaning,
                row.kind.value,
                row.belief.value,
                row.remedy,
                int(exit_code(kind(""))),
            )
        )
    return page(
        "Errors",
        "`penstock/contract/errors.py`",
        "Everything that Penstock refuses on purpose is a row of this table: on the wire by its number, in "
        "the SDK as an exception "
        "of `penstock`, in REST as `code` of a problem document (in lower case), on the command line in brackets.",
        "*Kind* says what the SDK does: *retriable* is repeated within the timeout, *fenced* means that "
        "a newer holder took over, "
        "*fatal* needs a change by you. *Belief* says what holds after it: *not applied*, or *unknown*: look "
        "before you repeat.",
        table(["number", "exception", "code", "meaning", "kind", "belief", "remedy", "exit code"], rows),
    )


def limits_page() -> str:
    """Every bound of the service."""
    said = said_of(limits)
    names = [name for name in said if name not in ("KIB", "MIB", "GIB")]
    mute = [name for name in names if not said[name]]
    if mute:
        raise ValueError(f"penstock/contract/limits.py: no docstring says why: {', '.join(mute)}")
    rows = [(code(name), _amount(name, getattr(limits, name)), said[name]) for name in names]
    return page(
        "Limits",
        "`penstock/contract/limits.py`",
        "What goes over one of these is refused with `LIMIT_EXCEEDED`, `MESSAGE_TOO_LARGE` or "
        "`INVALID_REQUEST`, naming the "
        "number asked for and the bound. A tenant's own limits (produce rate, partitions) are shown by "
        "`penstock tenant show`.",
        table(["limit", "value", "why, and of what"], rows),
    )


def topic_settings_page() -> str:
    """Settings of a topic with defaults and bounds."""
    bounds = _bounds()
    said = said_of(topic_settings, "TopicSettings")
    defaults = TopicSettings()
    rows = []
    for field in fields(TopicSettings):
        value = getattr(defaults, field.name)
        if isinstance(value, IntEnum):
            allowed = ", ".join(code(member.name.lower()) for member in type(value))
            meaning = f"{inspect.getdoc(type(value)) or ''} {said[field.name]}"
            rows.append((code(field.name), code(value.name.lower()), allowed, meaning))
        else:
            unlimited = " or -1 (no limit)" if field.name in ("retention_ms", "retention_bytes") else ""
            rows.append(
                (
                    code(field.name),
                    _amount(field.name, value),
                    bounds[field.name] + unlimited,
                    said[field.name],
                )
            )
    choices = [topic_settings.Durability]
    said_of_choices = [
        (code(member.name.lower()), said_of(topic_settings, choice.__name__)[member.name])
        for choice in choices
        for member in choice
    ]
    return page(
        "Settings of a topic",
        "`penstock/contract/topic_settings.py`",
        "Names as REST, the SDK (`client.admin.create_topic(name, partitions, **settings)`) and the command line "
        "(`--retention-ms`) take them. Replication, durability and timestamp type stay as they were when the "
        "topic was made.",
        table(["setting", "default", "allowed", "meaning"], rows),
        "What an acknowledgement means with each durability ([guide](../guides/delivery-guarantees.md)):",
        table(["durability", "acknowledged with `acks=all` means"], said_of_choices),
    )


def _bounds() -> dict[str, str]:
    """Low and high of every number, as its check says."""
    tree = ast.parse(Path(str(topic_settings.__file__)).read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_bounded":
            name, _, low, high = node.args
            assert isinstance(name, ast.Constant) and isinstance(name.value, str)
            found[name.value] = f"{_bound(name.value, low)} to {_bound(name.value, high)}"
    return found


def _bound(name: str, node: ast.expr) -> str:
    text = ast.unparse(node)
    if text.startswith("self."):
        return code(text.removeprefix("self."))
    return _amount(name, eval(text, {"limits": limits}))


def _amount(name: str, value: int) -> str:
    """A number with a unit where its name says one."""
    if value == 2**53:
        return "2^53"
    if value < 0:
        return "no limit"
    if "_BYTES" in name.upper():
        for size, unit in ((limits.GIB, "GiB"), (limits.MIB, "MiB"), (limits.KIB, "KiB")):
            if value >= size and value % size == 0:
                return f"{value // size:,} {unit}"
        return f"{value:,} byte{'' if value == 1 else 's'}"
    if name.upper().endswith("_MS") or "_MS_" in name.upper():
        for size, unit in ((24 * 3_600_000, "d"), (3_600_000, "h"), (1_000, "s")):
            if size <= value < 2**50 and value % size == 0:
                return f"{value:,} ms ({value // size:,} {unit})"
        return f"{value:,} ms"
    return f"{value:,}"
