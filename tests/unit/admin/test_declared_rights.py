"""A key applies what the access list allows it, as each change of a declarative file finds the list."""

from typing import Any

import pytest

from penstock.admin.declaration import Declared, DeclaredAcl, DeclaredKey, DeclaredTopic
from penstock.admin.declared import difference
from penstock.admin.declared_changes import Present
from penstock.admin.declared_rights import ActingKey, check_rights
from penstock.contract.errors import Forbidden

KEY = ActingKey(id="key_1", principal="person:usr_1")


def declared(effect: str, principal: str, resource: str = "tenant", **more: Any) -> DeclaredAcl:
    named = {"name": "", "pattern": "prefix", "operations": (), "addresses": ()}
    return DeclaredAcl(effect=effect, principal=principal, resource=resource, **{**named, **more})


def entry(effect: str, principal: str, resource: str = "tenant", **more: Any) -> dict[str, Any]:
    named = {"name": "", "pattern": "prefix", "operations": [], "addresses": []}
    return {
        "id": f"acl_{effect}",
        "effect": effect,
        "principal": principal,
        "resource": resource,
        **named,
        **more,
    }


def check(file: Declared, present: Present | None = None, key: ActingKey = KEY, **more: bool) -> None:
    present = present or Present()
    check_rights(difference(file, present, **more), present, key)


def test_a_default_that_denies_is_refused_where_no_entry_lets_the_key_in() -> None:
    topics = (DeclaredTopic(name="orders", partitions=1, settings={}),)
    with pytest.raises(
        Forbidden, match=r"~ access default: the list would lock the key key_1 out.*person:usr_1"
    ):
        check(Declared(default="deny", topics=topics))
    let_in = Present(acls=(entry("allow", KEY.principal),))
    check(Declared(default="deny", topics=topics), let_in)
    check(Declared(default="deny"), key=ActingKey(id="key_2", principal="service"))


def test_a_new_entry_a_new_group_and_a_removed_entry_can_lock_the_key_out() -> None:
    with pytest.raises(Forbidden, match=r"\+ acl deny everyone.*lock the key"):
        check(Declared(acls=(declared("deny", "everyone"),)))
    people = ({"id": "usr_1", "email": "a@b.c"},)
    groups = {"away": ("person:a@b.c",)}
    with pytest.raises(Forbidden, match="lock the key"):
        check(
            Declared(principal_groups=groups, acls=(declared("deny", "group:away"),)), Present(people=people)
        )
    let_in = Present(default="deny", acls=(entry("allow", KEY.principal),))
    with pytest.raises(Forbidden, match=r"- acl allow.*lock the key"):
        check(Declared(acls=()), let_in, prune=True)


def test_what_hangs_on_the_callers_address_is_left_to_the_service() -> None:
    check(Declared(acls=(declared("deny", "everyone", addresses=("192.0.2.0/24",)),)))
    inside = Present(acls=(entry("allow", KEY.principal, addresses=["10.0.0.0/8"]),))
    check(Declared(default="deny"), inside)


def test_topics_are_asked_for_by_name_as_the_list_is_by_then() -> None:
    topics = tuple(DeclaredTopic(name=name, partitions=1, settings={}) for name in ("open", "secrets"))
    closed = Present(acls=(entry("deny", "everyone", "topic", name="secrets", operations=["create"]),))
    with pytest.raises(Forbidden, match=r"\+ topic secrets: the access list does not allow create"):
        check(Declared(topics=topics), closed)
    check(Declared(topics=topics[:1]), closed)


def test_a_key_gives_no_one_what_its_principal_may_not() -> None:
    bound = Present(
        acls=(entry("deny", KEY.principal, "topic", name="secrets"),),
        service_accounts=({"id": "sa_1", "name": "billing"},),
    )
    with pytest.raises(Forbidden, match=r"- acl deny.*gives no right that it does not have"):
        check(Declared(acls=()), bound, prune=True)
    with pytest.raises(Forbidden, match=r"\+ key till of billing: service account billing may do"):
        check(Declared(keys=(DeclaredKey(name="till", service_account="billing"),)), bound)
