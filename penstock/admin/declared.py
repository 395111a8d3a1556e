"""The difference between what a declarative file wants and what a tenant has. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.admin.declaration import Declared, DeclaredAcl, DeclaredKey, DeclaredScope
from penstock.admin.declared_changes import Change, Kind, Present, Sign, ids_of
from penstock.admin.declared_limits import account_limits_changes, quotas_changes
from penstock.admin.declared_objects import objects_changes
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import BUDGETS_PER_TENANT_MAX, KEY_NAME_LENGTH_MAX
from penstock.contract.resources import BUDGETS, WEBHOOKS
from penstock.contract.topic_settings import FIXED
from penstock.rules.access import ALLOW, DENY, circle_among, described_resource
from penstock.rules.names import AUDIT_TOPIC, check_display_name


def difference(
    wanted: Declared,
    present: Present,
    *,
    prune: bool = False,
    prune_topics: bool = False,
    prune_keys: bool = False,
) -> tuple[Change, ...]:
    """Changes in the order in which they are to be applied; none when the tenant has what the file wants.

    Raises `InvalidRequest` for what cannot be applied, before anything is done.
    """
    names = {of_id: named for named, of_id in ids_of(present).items()}
    known = _known(wanted, present, prune)
    default: list[Change] = []
    if wanted.default is not None and wanted.default != present.default:
        default = [
            Change(
                kind=Kind.ACCESS,
                sign=Sign.CHANGE,
                name="default",
                fields=(("default", present.default, wanted.default),),
                body=wanted.default,
            )
        ]
    removals: list[Change] = []
    accounts = _accounts(wanted, present, removals, prune)
    groups = _groups(wanted, present, removals, prune, names, known)
    _refuse_circles(wanted, present, prune, names)
    topics = _topics(wanted, present, removals, prune_topics)
    acls = _acls(wanted, present, removals, prune, names, known)
    keys = _keys(wanted, present, removals, prune_keys, names, known)
    if wanted.account_limits is not None:
        _require(
            (f"service_account:{name}" for name in wanted.account_limits.accounts), known, "account_limits"
        )
    account_limits = account_limits_changes(wanted, present, removals, prune)
    webhooks = _webhooks(wanted, present, removals, prune)
    budgets = _budgets(wanted, present, removals, prune, names, known)
    # What names another goes before it; data goes last.
    order = (
        *(Kind.WEBHOOK, Kind.ACL, Kind.PRINCIPAL_GROUP, Kind.KEY, Kind.BUDGET, Kind.ACCOUNT_LIMITS),
        *(Kind.SERVICE_ACCOUNT, Kind.TOPIC),
    )
    # Of entries those that allow go first and those that deny come first: a run that stops on its way leaves no gap.
    removals.sort(key=lambda one: (order.index(one.kind), _denies(one)))
    acls.sort(key=lambda one: not _denies(one))
    # Limits are first, for what needs higher ones; those of an account and budgets before it has a key; keys come when
    # what they may do is there.
    steps = [
        *(*quotas_changes(wanted, present), *accounts, *account_limits),
        *(*groups, *topics, *budgets, *acls, *keys, *webhooks, *removals),
    ]
    return tuple(_with_default(steps, default, opens=wanted.default == ALLOW))


def _with_default(steps: Sequence[Change], default: Sequence[Change], *, opens: bool) -> list[Change]:
    """What opens comes first, but after new entries that deny; what closes comes last, but before such entries go."""
    denying = [at for at, one in enumerate(steps) if _denies(one) and (one.sign is Sign.ADD) == opens]
    at = 0 if opens else len(steps)
    if denying:
        at = denying[-1] + 1 if opens else denying[0]
    return [*steps[:at], *default, *steps[at:]]


def _denies(change: Change) -> bool:
    return change.kind is Kind.ACL and isinstance(change.body, DeclaredAcl) and change.body.effect == DENY


def _known(wanted: Declared, present: Present, prune: bool) -> set[str]:
    """Principals by name that are there when all is applied."""
    known = {"everyone", *ids_of(present)}
    for kind, names in (("service_account", wanted.service_accounts), ("group", wanted.principal_groups)):
        if names is None:
            continue
        if prune:
            known = {one for one in known if not one.startswith(f"{kind}:")}
        known |= {f"{kind}:{name}" for name in names}
    return known


def _require(principals: Iterable[str], known: set[str], whose: str) -> None:
    for principal in principals:
        if principal not in known:
            raise InvalidRequest(
                f"{whose}: {principal[:300]} is not there; declare it in the file or make it first"
            )


def _by_name(rows: Iterable[Mapping[str, Any]], what: str) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for one in rows:
        if one["name"] in found:
            raise InvalidRequest(
                f"two {what} are named {one['name']!r} ({found[one['name']]['id']}, {one['id']}); delete one of them"
            )
        found[one["name"]] = one
    return found


def _removed(
    kind: Kind, there: Mapping[str, Mapping[str, Any]], wanted: Iterable[str], body: str = ""
) -> list[Change]:
    kept = set(wanted)
    return [
        Change(kind=kind, sign=Sign.REMOVE, name=name, id=one["id"], body=one.get(body))
        for name, one in sorted(there.items())
        if name not in kept
    ]


def _accounts(wanted: Declared, present: Present, removals: list[Change], prune: bool) -> list[Change]:
    there = _by_name(present.service_accounts, "service accounts")
    if wanted.service_accounts is None:
        return []
    if prune:
        removals += _removed(Kind.SERVICE_ACCOUNT, there, wanted.service_accounts)
    new = [name for name in wanted.service_accounts if name not in there]
    for name in new:
        check_display_name("service_accounts", name, KEY_NAME_LENGTH_MAX)
    return [Change(kind=Kind.SERVICE_ACCOUNT, sign=Sign.ADD, name=name) for name in new]


def _groups(
    wanted: Declared,
    present: Present,
    removals: list[Change],
    prune: bool,
    names: Mapping[str, str],
    known: set[str],
) -> list[Change]:
    there = _by_name(present.principal_groups, "groups of principals")
    if wanted.principal_groups is None:
        return []
    if prune:
        removals += _removed(Kind.PRINCIPAL_GROUP, there, wanted.principal_groups, "members")
    changes: list[Change] = []
    for name, members in wanted.principal_groups.items():
        _require(members, known, f"group {name}")
        if name not in there:
            check_display_name("principal_groups", name, KEY_NAME_LENGTH_MAX)
            changes.append(Change(kind=Kind.PRINCIPAL_GROUP, sign=Sign.ADD, name=name, body=members))
            continue
        before = tuple(sorted(names.get(one, one) for one in there[name]["members"]))
        if before != members:
            fields = (("members", list(before), list(members)),)
            changes.append(
                Change(
                    kind=Kind.PRINCIPAL_GROUP,
                    sign=Sign.CHANGE,
                    name=name,
                    id=there[name]["id"],
                    fields=fields,
                    body=members,
                )
            )
    return changes


def _refuse_circles(wanted: Declared, present: Present, prune: bool, names: Mapping[str, str]) -> None:
    if wanted.principal_groups is None:
        return
    direct: dict[str, Sequence[str]] = {
        f"group:{name}": members for name, members in wanted.principal_groups.items()
    }
    if not prune:
        for one in present.principal_groups:
            direct.setdefault(
                f"group:{one['name']}", [names.get(member, member) for member in one["members"]]
            )
    circle = circle_among(list(direct.items()))
    if circle:
        raise InvalidRequest(
            f"principal_groups: groups would hold one another in a circle: {' holds '.join(circle)[:300]}"
        )


def _topics(wanted: Declared, present: Present, removals: list[Change], prune: bool) -> list[Change]:
    if wanted.topics is None:
        return []
    there = {one["name"]: one for one in present.topics if one["name"] != AUDIT_TOPIC}
    if prune:
        removals += _removed(Kind.TOPIC, there, (one.name for one in wanted.topics))
    changes: list[Change] = []
    for one in wanted.topics:
        body: dict[str, Any] = {"partitions": one.partitions, "settings": dict(one.settings)}
        if one.name not in there:
            changes.append(
                Change(kind=Kind.TOPIC, sign=Sign.ADD, name=one.name, body={"name": one.name, **body})
            )
            continue
        before = there[one.name]
        if one.partitions < before["partitions"]:
            raise InvalidRequest(
                f"topic {one.name}: it has {before['partitions']} partitions, the file says {one.partitions};"
                " the number can only grow"
            )
        fields: list[tuple[str, Any, Any]] = []
        if one.partitions != before["partitions"]:
            fields.append(("partitions", before["partitions"], one.partitions))
        changed: dict[str, int | str | None] = {}
        foreseen = present.foreseen_settings.get(one.name, before["settings"])
        for setting, named in sorted(one.settings.items()):
            was = before["settings"].get(setting)
            value = foreseen[setting] if named is None else named
            if was == value:
                continue
            if setting in FIXED:
                raise InvalidRequest(
                    f"topic {one.name}: {setting} is {was}, the file says {value}; it is chosen when a topic is made"
                )
            fields.append((f"settings.{setting}", was, value))
            changed[setting] = named
        if fields:
            body = {} if one.partitions == before["partitions"] else {"partitions": one.partitions}
            if changed:
                body["settings"] = changed
            changes.append(
                Change(
                    kind=Kind.TOPIC,
                    sign=Sign.CHANGE,
                    name=one.name,
                    id=before["id"],
                    fields=tuple(fields),
                    body=body,
                )
            )
    return changes


def _acls(
    wanted: Declared,
    present: Present,
    removals: list[Change],
    prune: bool,
    names: Mapping[str, str],
    known: set[str],
) -> list[Change]:
    if wanted.acls is None:
        return []
    there: dict[DeclaredAcl, str] = {}
    kept = set(wanted.acls)
    for one in present.acls:
        acl = DeclaredAcl(
            effect=one["effect"],
            principal=names.get(one["principal"], one["principal"]),
            resource=one["resource"],
            name=one["name"],
            pattern=one["pattern"],
            operations=tuple(sorted(set(one["operations"]))),
            addresses=tuple(sorted(set(one["addresses"]))),
        )
        there[acl] = one["id"]
        if prune and acl not in kept:
            removals.append(
                Change(kind=Kind.ACL, sign=Sign.REMOVE, name=acl_text(acl), id=one["id"], body=acl)
            )
    _require((acl.principal for acl in wanted.acls), known, "acls")
    return [
        Change(kind=Kind.ACL, sign=Sign.ADD, name=acl_text(acl), body=acl)
        for acl in wanted.acls
        if acl not in there
    ]


def _keys(
    wanted: Declared,
    present: Present,
    removals: list[Change],
    prune: bool,
    names: Mapping[str, str],
    known: set[str],
) -> list[Change]:
    if wanted.keys is None:
        return []
    there: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in present.keys:
        account = names.get(f"service_account:{one['service_account']}", "").partition(":")[2]
        if account:
            there.setdefault((account, one["name"]), []).append(one)
    named = {(one.service_account, one.name) for one in wanted.keys}
    if prune:
        for (account, name), keys in sorted(there.items()):
            if (account, name) in named:
                continue
            for one in keys:
                if one["id"] == present.own_key:
                    raise InvalidRequest(
                        f"key {name} of {account}: this command uses it; name it in the file, or use another key"
                    )
                removals.append(
                    Change(kind=Kind.KEY, sign=Sign.REMOVE, name=f"{name} of {account}", id=one["id"])
                )
    changes: list[Change] = []
    for key in wanted.keys:
        _require([f"service_account:{key.service_account}"], known, f"key {key.name}")
        same_name = there.get((key.service_account, key.name), [])
        if not same_name:
            changes.append(
                Change(kind=Kind.KEY, sign=Sign.ADD, name=f"{key.name} of {key.service_account}", body=key)
            )
            continue
        differing = [_key_differs(key, one) for one in same_name]
        # While a key is exchanged there are two of its name.
        if all(differing):
            raise InvalidRequest(
                f"key {key.name} of {key.service_account}: {differing[0]}; a key never changes:"
                " declare it by another name, and revoke this one when nothing uses it"
            )
    return changes


def _webhooks(wanted: Declared, present: Present, removals: list[Change], prune: bool) -> list[Change]:
    if wanted.webhooks is None:
        return []
    if prune:
        there = {row["name"]: row for row in present.webhooks}
        removals += _removed(Kind.WEBHOOK, there, (webhook["name"] for webhook in wanted.webhooks))
    return objects_changes(WEBHOOKS, Kind.WEBHOOK, wanted.webhooks, present.webhooks, shown={"url": _host})


def _budgets(
    wanted: Declared,
    present: Present,
    removals: list[Change],
    prune: bool,
    names: Mapping[str, str],
    known: set[str],
) -> list[Change]:
    if wanted.budgets is None:
        return []
    there = [
        {**row, "service_account": _account_named(row["service_account"], names)} for row in present.budgets
    ]
    before = {row["name"]: row for row in there}
    going: list[Change] = []
    if prune:
        going = _removed(Kind.BUDGET, before, (budget["name"] for budget in wanted.budgets))
    for budget in wanted.budgets:
        if budget["service_account"]:
            _require([f"service_account:{budget['service_account']}"], known, f"budget {budget['name']}")
        if budget["name"] not in before:
            check_display_name("budgets", budget["name"], KEY_NAME_LENGTH_MAX)
    changes = objects_changes(BUDGETS, Kind.BUDGET, wanted.budgets, there, shown={})
    new = sum(change.sign is Sign.ADD for change in changes)
    if new and len(there) - len(going) + new > BUDGETS_PER_TENANT_MAX:
        raise InvalidRequest(
            f"budgets: {len(there) - len(going) + new} of them in the end, at most {BUDGETS_PER_TENANT_MAX} allowed"
        )
    if len(there) + new > BUDGETS_PER_TENANT_MAX:
        return [*going, *changes]
    removals += going
    return changes


def _account_named(account_id: str | None, names: Mapping[str, str]) -> str:
    """The name of a service account, its id where it has gone; empty: there is none."""
    return names.get(f"service_account:{account_id}", f":{account_id or ''}").partition(":")[2]


def _host(url: str) -> str:
    """The address without path and query, which may be a secret."""
    return "/".join(url.split("/", 3)[:3]) + "/…"


def _key_differs(key: DeclaredKey, there: Mapping[str, Any]) -> str:
    """What the key that is there has otherwise than the file; empty: nothing."""
    scopes = {
        DeclaredScope(
            resource=one["resource"],
            name=one["name"],
            pattern=one["pattern"],
            operations=tuple(sorted(set(one["operations"]))),
        )
        for one in there["scopes"]
    }
    if scopes != set(key.scopes):
        return f"its scopes are {_scopes_text(scopes)}, the file says {_scopes_text(key.scopes)}"
    ends = there["expires_at"]
    # Where the file names no end, it is that of the key that made it, if that has one.
    if key.expires_at is not None and (ends is None or datetime.fromisoformat(ends) != key.expires_at):
        return f"it ends {ends or 'never'}, the file says {key.expires_at.isoformat()}"
    return ""


def _scopes_text(scopes: Iterable[DeclaredScope]) -> str:
    texts = (
        f"{', '.join(one.operations) or 'all'} on "
        + described_resource(one.resource, one.name, one.pattern == "literal")
        for one in scopes
    )
    return "; ".join(sorted(texts))[:300] or "none"


def acl_text(acl: DeclaredAcl) -> str:
    """An entry in one line."""
    resource = (
        f"{acl.resource}:{acl.name}{'*' if acl.pattern == 'prefix' else ''}"
        if acl.resource != "tenant"
        else "tenant"
    )
    addresses = f" from {', '.join(acl.addresses)}" if acl.addresses else ""
    return (
        f"{acl.effect} {acl.principal} {', '.join(acl.operations) or 'everything'} on {resource}{addresses}"
    )
