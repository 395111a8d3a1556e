"""What is otherwise in a report than in an earlier one. Pure."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

_COMPARED = MappingProxyType(
    {
        "people": ("person", "email", ("email", "role", "active", "second_factors")),
        "service_accounts": ("service_account", "name", ("name",)),
        "keys": ("key", "name", ("name", "principal", "scopes", "expires_at")),
        "groups": ("group", "name", ("name", "members")),
        # An entry never changes.
        "entries": ("entry", "text", ()),
        "invitations": ("invitation", "email", ("role",)),
    }
)
"""Of each list: the kind of its objects, the field that people know one by, and the fields that are compared."""


def compared(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was added, removed and changed between the two reports, in the order of their lists."""
    return list(_differences(earlier, later))


def _differences(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if earlier["default"] != later["default"]:
        yield _change("access_list", "", "default", "changed", [_field("default", earlier, later)])
    for name, (kind, known_by, fields) in _COMPARED.items():
        before = {one["id"]: one for one in earlier[name]}
        after = {one["id"]: one for one in later[name]}
        for id_, one in before.items():
            if id_ not in after:
                yield _change(kind, id_, one[known_by], "removed", [])
        for id_, one in after.items():
            if id_ not in before:
                yield _change(kind, id_, one[known_by], "added", [])
                continue
            changed = [
                _field(field, before[id_], one)
                for field in fields
                if before[id_].get(field) != one.get(field)
            ]
            if changed:
                yield _change(kind, id_, one[known_by], "changed", changed)


def _change(kind: str, id_: str, name: str, change: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": kind, "id": id_, "name": name, "change": change, "fields": fields}


def _field(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": name, "before": before.get(name), "after": after.get(name)}
