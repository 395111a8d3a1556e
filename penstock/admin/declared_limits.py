"""What differs of the limits of a tenant and of its service accounts between a file and the tenant. Pure."""

import difflib
from collections.abc import Mapping
from typing import Any

from penstock.admin.declaration import Declared
from penstock.admin.declared_changes import Change, Kind, Present, Sign
from penstock.contract.errors import InvalidRequest
from penstock.rules.principal_limits import PRINCIPAL_LIMIT_NAMES

EVERY_ACCOUNT_NAME = "default"
"""What a file and its changes call the limits of each account that has none of its own."""


def quotas_changes(wanted: Declared, present: Present) -> list[Change]:
    """Limits and plan of the tenant. Raises `InvalidRequest` for a limit that the service does not have."""
    if wanted.quotas is None or present.quotas is None:
        return []
    there = present.quotas
    known = [
        name
        for name, value in there.items()
        if isinstance(value, int) and not isinstance(value, bool) and name != "plan_version"
    ]
    for name in wanted.quotas.limits:
        if name not in known:
            near = difflib.get_close_matches(name[:64], known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise InvalidRequest(f"quotas: {name[:64]!r} is no limit of this service; {hint}")
    body: dict[str, Any] = dict(wanted.quotas.limits)
    fields: list[tuple[str, Any, Any]] = []
    if wanted.quotas.plan:
        asked: dict[str, Any] = {"plan": wanted.quotas.plan}
        if wanted.quotas.plan_version is not None:
            asked["plan_version"] = wanted.quotas.plan_version
        moved = [(name, there[name], value) for name, value in asked.items() if there[name] != value]
        fields += moved
        body |= asked if moved else {}
    fields += [
        (name, there[name], value)
        for name, value in sorted(wanted.quotas.limits.items())
        if there[name] != value
    ]
    if not fields:
        return []
    return [Change(kind=Kind.QUOTAS, sign=Sign.CHANGE, name=there["tenant"], fields=tuple(fields), body=body)]


def account_limits_changes(
    wanted: Declared, present: Present, removals: list[Change], prune: bool
) -> list[Change]:
    """Limits of service accounts. Those of an account that goes itself need no step of their own."""
    if wanted.account_limits is None:
        return []
    default = wanted.account_limits.default
    each = {name: (present.each_account or {}).get(name) for name in PRINCIPAL_LIMIT_NAMES}
    changes = [] if default is None else _set_account(EVERY_ACCOUNT_NAME, "", each, default)
    ids = {one["name"]: one["id"] for one in present.service_accounts}
    there = {one["name"]: one for one in present.account_limits}
    for name, limits in wanted.account_limits.accounts.items():
        changes += _set_account(f"of {name}", ids.get(name, ""), there.get(name, {}), limits)
    if prune:
        if default is None and any(value is not None for value in each.values()):
            removals.append(
                Change(
                    kind=Kind.ACCOUNT_LIMITS,
                    sign=Sign.REMOVE,
                    name=EVERY_ACCOUNT_NAME,
                    fields=_fields(each, {}),
                )
            )
        staying = ids if wanted.service_accounts is None else wanted.service_accounts
        removals += [
            Change(
                kind=Kind.ACCOUNT_LIMITS,
                sign=Sign.REMOVE,
                name=f"of {name}",
                id=one["service_account"],
                fields=_fields(one, {}),
            )
            for name, one in sorted(there.items())
            if name not in wanted.account_limits.accounts and name in staying
        ]
    return changes


def _set_account(name: str, id: str, before: Mapping[str, Any], wanted: Mapping[str, int]) -> list[Change]:
    fields = _fields(before, wanted)
    if not fields:
        return []
    body = {limit: wanted.get(limit) for limit in PRINCIPAL_LIMIT_NAMES}
    sign = Sign.ADD if all(before.get(limit) is None for limit in PRINCIPAL_LIMIT_NAMES) else Sign.CHANGE
    return [Change(kind=Kind.ACCOUNT_LIMITS, sign=sign, name=name, id=id, fields=fields, body=body)]


def _fields(before: Mapping[str, Any], after: Mapping[str, int]) -> tuple[tuple[str, Any, Any], ...]:
    return tuple(
        (limit, before.get(limit), after.get(limit))
        for limit in PRINCIPAL_LIMIT_NAMES
        if before.get(limit) != after.get(limit)
    )
