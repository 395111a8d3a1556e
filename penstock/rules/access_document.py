"""The written form of access lists: canonical JSON, the same for the same list, as the metadata store holds it."""

import hashlib
import json
from typing import Any, Final

from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, LimitExceeded
from penstock.rules.access import AccessList, Acl

_LIST_FIELDS: Final = frozenset(("default", "acls", "groups"))
_ACL_FIELDS: Final = frozenset(
    ("effect", "principal", "resource", "name", "literal", "operations", "addresses")
)


def access_list_json(rules: AccessList) -> str:
    """Entries in an order of their own, groups by name. Raises `LimitExceeded` when it is too long to store."""
    rows = [json.dumps(acl_document(acl), separators=(",", ":"), sort_keys=True) for acl in rules.acls]
    groups = {group: sorted(set(members)) for group, members in rules.members}
    text = (
        f'{{"acls":[{",".join(sorted(set(rows)))}],"default":{json.dumps(rules.default)},'
        f'"groups":{json.dumps(groups, separators=(",", ":"), sort_keys=True)}}}'
    )
    size = len(text.encode())
    if size > limits.ACCESS_LIST_BYTES_MAX:
        raise LimitExceeded(
            f"the access list has {size} bytes, at most {limits.ACCESS_LIST_BYTES_MAX} allowed;"
            " use fewer or shorter entries",
            limit="ACCESS_LIST_BYTES_MAX",
        )
    return text


def access_list_of(text: str) -> AccessList:
    """Raises `InvalidRequest`, also for fields that are not known: a broker must not read half of a rule."""
    try:
        values: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("access list: it is no JSON") from None
    if not isinstance(values, dict) or not values.keys() <= _LIST_FIELDS:
        raise InvalidRequest("access list: an object of default, acls and groups required")
    rows, groups = values.get("acls", []), values.get("groups", {})
    if not isinstance(rows, list) or not isinstance(groups, dict):
        raise InvalidRequest("access list: acls is a list, groups an object")
    return AccessList(
        default=_text("default", values.get("default", "allow")),
        acls=tuple(acl_of_document(row) for row in rows),
        members=tuple((group, _texts("groups", groups[group])) for group in sorted(groups)),
    )


def access_list_digest(text: str) -> str:
    """SHA-256 of the written form, hex: what tells whether two are the same."""
    return hashlib.sha256(text.encode()).hexdigest()


def acl_document(acl: Acl) -> dict[str, Any]:
    """One entry as the written form has it."""
    values: dict[str, Any] = {"effect": acl.effect, "principal": acl.principal, "resource": acl.resource}
    if acl.name:
        values["name"] = acl.name
    if acl.literal:
        values["literal"] = True
    if acl.operations:
        values["operations"] = sorted(set(acl.operations))
    if acl.addresses:
        values["addresses"] = sorted(set(acl.addresses))
    return values


def acl_of_document(row: object) -> Acl:
    """The entry that was written so. Raises `InvalidRequest`."""
    if not isinstance(row, dict) or not row.keys() <= _ACL_FIELDS:
        raise InvalidRequest(f"access list: an entry has other fields than {', '.join(sorted(_ACL_FIELDS))}")
    literal = row.get("literal", False)
    if not isinstance(literal, bool):
        raise InvalidRequest("literal: true or false required")
    return Acl(
        effect=_text("effect", row.get("effect")),
        principal=_text("principal", row.get("principal")),
        resource=_text("resource", row.get("resource")),
        name=_text("name", row.get("name", "")),
        literal=literal,
        operations=_texts("operations", row.get("operations", [])),
        addresses=_texts("addresses", row.get("addresses", [])),
    )


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{field}: text required")
    return value


def _texts(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InvalidRequest(f"{field}: a list of texts required")
    return tuple([_text(field, one) for one in value])
