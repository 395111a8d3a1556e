"""The difference of a declarative file: applied in its order it leaves none, whatever was there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import InvalidRequest
from penstock.admin.declaration import Declared, DeclaredAcl, DeclaredTopic
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Change, Kind, Present, Sign, ids_of

NAMES = st.sampled_from(("a", "b", "c"))


@st.composite
def wishes(draw: st.DrawFn) -> Declared:
    accounts = tuple(sorted(draw(st.sets(NAMES))))
    groups = sorted(draw(st.sets(NAMES)))
    known = [f"service_account:{name}" for name in accounts] + [f"group:{name}" for name in groups]

    def members(name: str) -> st.SearchStrategy[set[str]]:
        """Only later groups, so that there is no circle."""
        possible = [one for one in known if not one.startswith("group:") or one > f"group:{name}"]
        return st.sets(st.sampled_from(possible)) if possible else st.just(set())

    acls = st.builds(
        DeclaredAcl,
        effect=st.sampled_from(("allow", "deny")),
        principal=st.sampled_from(("everyone", *known)),
        resource=st.just("topic"),
        name=NAMES,
        pattern=st.sampled_from(("literal", "prefix")),
        operations=st.sampled_from(((), ("produce",))),
        addresses=st.just(()),
    )
    return Declared(
        service_accounts=accounts,
        principal_groups={name: tuple(sorted(draw(members(name)))) for name in groups},
        topics=tuple(
            DeclaredTopic(
                name=name,
                partitions=draw(st.integers(1, 3)),
                settings={"retention_ms": draw(st.integers(1, 3))},
            )
            for name in sorted(draw(st.sets(NAMES)))
        ),
        acls=tuple(sorted(draw(st.sets(acls)), key=repr)),
        default=draw(st.sampled_from(("allow", "deny"))),
    )


def applied(present: Present, changes: tuple[Change, ...]) -> Present:
    """The tenant afterwards. A principal that does not exist in its turn is a `KeyError`."""
    kinds: dict[Kind, dict[str, dict[str, Any]]] = {
        kind: {one["id"]: dict(one) for one in rows}
        for kind, rows in (
            (Kind.SERVICE_ACCOUNT, present.service_accounts),
            (Kind.PRINCIPAL_GROUP, present.principal_groups),
            (Kind.TOPIC, present.topics),
            (Kind.ACL, present.acls),
        )
    }
    default, ids = present.default, ids_of(present)
    ids |= {
        f"group:{one.name}": f"group:new_{one.name}"
        for one in changes
        if one.kind is Kind.PRINCIPAL_GROUP and one.sign is Sign.ADD
    }
    for number, one in enumerate(changes):
        where = one.id or (f"new_{one.name}" if one.kind is Kind.PRINCIPAL_GROUP else f"n{number}_{one.name}")
        if one.kind is Kind.ACCESS:
            default = one.body
            continue
        rows = kinds[one.kind]
        if one.sign is Sign.REMOVE:
            del rows[where]
        elif one.kind is Kind.SERVICE_ACCOUNT:
            rows[where] = {"id": where, "name": one.name}
            ids[f"service_account:{one.name}"] = f"service_account:{where}"
        elif one.kind is Kind.PRINCIPAL_GROUP:
            rows[where] = {"id": where, "name": one.name, "members": [ids[member] for member in one.body]}
        elif one.kind is Kind.TOPIC:
            before = rows.get(where, {"settings": {}})
            settings = {**before["settings"], **one.body.get("settings", {})}
            rows[where] = {"name": one.name, **before, **one.body, "settings": settings, "id": where}
        else:
            acl = one.body
            principal = acl.principal if acl.principal == "everyone" else ids[acl.principal]
            rows[where] = {
                "id": where, "effect": acl.effect, "principal": principal, "resource": acl.resource,
                "name": acl.name, "pattern": acl.pattern, "operations": list(acl.operations), "addresses": [],
            }  # fmt: skip
    return Present(
        service_accounts=tuple(kinds[Kind.SERVICE_ACCOUNT].values()),
        principal_groups=tuple(kinds[Kind.PRINCIPAL_GROUP].values()),
        topics=tuple(kinds[Kind.TOPIC].values()),
        acls=tuple(kinds[Kind.ACL].values()),
        default=default,
    )


@given(wishes(), wishes())
def test_applying_twice_changes_nothing(first: Declared, second: Declared) -> None:
    there = applied(Present(), difference(first, Present()))
    assert difference(first, there, prune=True, prune_topics=True) == ()
    grown = {one.name: one.partitions for one in first.topics or ()}
    later = Declared(
        service_accounts=second.service_accounts,
        principal_groups=second.principal_groups,
        topics=tuple(
            DeclaredTopic(
                name=one.name, partitions=max(one.partitions, grown.get(one.name, 1)), settings=one.settings
            )
            for one in second.topics or ()
        ),
        acls=second.acls,
        default=second.default,
    )
    after = applied(there, difference(later, there, prune=True, prune_topics=True))
    assert difference(later, after, prune=True, prune_topics=True) == ()
    again = applied(there, difference(later, there))
    assert difference(later, again) == ()


@given(wishes())
def test_the_default_denies_last_and_allows_first(wanted: Declared) -> None:
    there = Present(default="allow" if wanted.default == "deny" else "deny")
    changes = difference(wanted, there)
    (at,) = (number for number, one in enumerate(changes) if one.kind is Kind.ACCESS)
    # New entries that deny are there before everyone may what no entry forbids.
    denying = [
        number
        for number, one in enumerate(changes)
        if isinstance(one.body, DeclaredAcl) and one.body.effect == "deny"
    ]
    assert at == (len(changes) - 1 if wanted.default == "deny" else max(denying, default=-1) + 1)


def test_groups_in_a_circle_are_refused_before_anything_is_made() -> None:
    new = Declared(principal_groups={"a": ("group:b",), "b": ("group:a",)})
    with pytest.raises(InvalidRequest, match="circle: group:"):
        difference(new, Present())
    there = Present(
        principal_groups=(
            {"id": "grp_1", "name": "b", "members": ["group:grp_2"]},
            {"id": "grp_2", "name": "a", "members": []},
        )
    )
    closing = Declared(principal_groups={"a": ("group:b",)})
    with pytest.raises(InvalidRequest, match="circle: group:"):
        difference(closing, there)
    opened = Declared(principal_groups={"a": ("group:b",), "b": ()})
    assert len(difference(opened, there)) == 2
