"""In which order the access list becomes what a file says: a run that stops on its way leaves no gap. And what is known
to be refused before it begins.
"""

from itertools import product
from typing import Any

import pytest

from penstock import InvalidRequest
from penstock.admin.declaration import Declared, DeclaredAcl, DeclaredTopic
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Change, Kind, Present, Sign
from penstock.rules.access import Access, AccessList, Acl, Question

GROUP = {"id": "grp_1", "name": "g", "members": []}
ALL_BUT_SECRETS = ("allow *", "deny secrets")


def entry(text: str, principal: str = "everyone") -> DeclaredAcl:
    effect, name = text.split()
    return DeclaredAcl(
        effect=effect,
        principal=principal,
        resource="topic",
        name=name.rstrip("*"),
        pattern="prefix" if name.endswith("*") else "literal",
        operations=(),
        addresses=(),
    )


def row(text: str, principal: str = "everyone") -> dict[str, Any]:
    acl = entry(text, principal)
    return {"id": text, **{name: getattr(acl, name) for name in acl.__dataclass_fields__}}


def may_read_secrets(default: str, entries: set[str]) -> bool:
    acls = tuple(
        Acl(
            effect=one.effect,
            principal=one.principal,
            resource=one.resource,
            name=one.name,
            literal=one.pattern == "literal",
        )
        for one in map(entry, sorted(entries))
    )
    asked = Question(
        principal="person:p", operation="consume", resource="topic", name="secrets", address="192.0.2.1"
    )
    return Access(AccessList(default=default, acls=acls)).decide(asked).allowed


@pytest.mark.parametrize(
    ("before", "after"),
    list(
        product(
            [("allow", ()), ("allow", ("deny secrets",)), ("deny", ()), ("deny", ALL_BUT_SECRETS)],
            [
                ("allow", ("deny secrets",)),
                ("deny", ()),
                ("deny", ALL_BUT_SECRETS),
                ("deny", ("allow orders",)),
            ],
        )
    ),
)
def test_what_neither_allows_is_allowed_at_no_step_between(
    before: tuple[str, tuple[str, ...]], after: tuple[str, tuple[str, ...]]
) -> None:
    default, entries = before[0], set(before[1])
    wanted = Declared(default=after[0], acls=tuple(entry(one) for one in after[1]))
    present = Present(default=default, acls=tuple(row(one) for one in before[1]))
    allowed = may_read_secrets(default, entries)
    for change in difference(wanted, present, prune=True):
        if change.kind is Kind.ACCESS:
            default = change.body
        elif change.sign is Sign.ADD:
            entries.add(f"{change.body.effect} {change.body.name or '*'}")
        else:
            entries.remove(change.id)
        now = may_read_secrets(default, entries)
        assert allowed or not now, f"opened by {change.sign} {change.name}"
        allowed = now
    assert (default, entries) == (after[0], set(after[1])), "all of it is done"
    assert not allowed


def test_an_entry_that_denies_goes_before_the_group_that_it_names() -> None:
    wanted = Declared(default="deny", acls=(), principal_groups={}, topics=())
    held = Present(
        default="allow",
        principal_groups=(GROUP,),
        acls=(row("deny secrets", "group:grp_1"), row("allow *")),
        topics=({"id": "t", "name": "orders", "partitions": 1, "settings": {}},),
    )
    found = difference(wanted, held, prune=True, prune_topics=True)
    assert [(one.kind, one.sign) for one in found] == [
        (Kind.ACL, Sign.REMOVE),
        (Kind.ACCESS, Sign.CHANGE),
        (Kind.ACL, Sign.REMOVE),
        (Kind.PRINCIPAL_GROUP, Sign.REMOVE),
        (Kind.TOPIC, Sign.REMOVE),
    ]


def test_a_default_that_allows_is_first_where_nothing_new_denies() -> None:
    found = difference(Declared(default="allow", acls=(entry("allow *"),)), Present(default="deny"))
    assert [one.kind for one in found] == [Kind.ACCESS, Kind.ACL]


def test_what_a_topic_keeps_is_refused_and_what_it_may_change_is_a_change() -> None:
    there = {
        "id": "top_1",
        "name": "t",
        "partitions": 1,
        "settings": {"durability": "fsync", "replication": 1},
    }
    before = Present(topics=(there,))

    def changes(**settings: int | str | None) -> tuple[Change, ...]:
        topic = DeclaredTopic(name="t", partitions=1, settings=settings)
        return difference(Declared(topics=(topic,)), before)

    with pytest.raises(InvalidRequest, match="durability is fsync, the file says replicated"):
        changes(durability="replicated")
    assert [change.fields for change in changes(replication=3)] == [(("settings.replication", 1, 3),)]


@pytest.mark.parametrize(
    ("name", "why"),
    [("b\u0456lling", "look alike"), ("cafe\u0301", "NFKC"), ("\uff47", "NFKC"), ("billing ", "no space")],
)
def test_a_new_name_that_looks_like_another_is_refused_before_anything_is_done(name: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=f"service_accounts: .*{why}"):
        difference(Declared(service_accounts=("billing", name)), Present())
    with pytest.raises(InvalidRequest, match=f"principal_groups: .*{why}"):
        difference(Declared(principal_groups={name: ()}), Present())
    # One from before such names were refused stays.
    there = ({"id": "sa_1", "name": name},)
    assert difference(Declared(service_accounts=(name,)), Present(service_accounts=there)) == ()
