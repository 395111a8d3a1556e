"""The difference of the objects of a described resource between a file and a tenant. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.admin.declared_changes import Change, Kind, Sign
from penstock.contract.errors import InvalidRequest
from penstock.contract.resources.description import Given, Resource


def objects_changes(
    resource: Resource,
    kind: Kind,
    declared: Sequence[Mapping[str, Any]],
    present: Sequence[Mapping[str, Any]],
    *,
    shown: Mapping[str, Callable[[Any], object]],
) -> list[Change]:
    """Objects to make and to change, known by their names. `shown`: fields of which a change does not show all. Raises
    `InvalidRequest` where a file wants another value of what an object has for good.
    """
    there = {row["name"]: row for row in present}
    changeable = [field.name for field in resource.fields if field.given is Given.ALWAYS]
    for_good = [field.name for field in resource.fields if field.given is Given.ONCE]
    changes: list[Change] = []
    for values in declared:
        name = values["name"]
        if name not in there:
            changes.append(Change(kind=kind, sign=Sign.ADD, name=name, body=dict(values)))
            continue
        before = there[name]
        for field in for_good:
            if field in values and before[field] != values[field]:
                raise InvalidRequest(
                    f"{kind} {name}: {field} is {_said(before[field])}, the file says {_said(values[field])};"
                    f" it is chosen when a {kind} is made: declare another name"
                )
        differing = [field for field in changeable if field in values and before[field] != values[field]]
        if differing:
            whole = {field: shown.get(field, _as_it_is) for field in differing}
            changes.append(
                Change(
                    kind=kind,
                    sign=Sign.CHANGE,
                    name=name,
                    id=before["id"],
                    fields=tuple(
                        (field, say(before[field]), say(values[field])) for field, say in whole.items()
                    ),
                    body={field: values[field] for field in differing},
                )
            )
    return changes


def _as_it_is(value: object) -> object:
    return value


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "none")
