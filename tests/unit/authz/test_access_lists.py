"""A tenant's access list at a broker: beside scopes, for a key's owner, from where it calls, on what is open."""

import pytest

from data_plane.authz.access import Operation
from data_plane.metadata import model
from data_plane.metadata.access_lists import AccessListRecord, access_list_key
from penstock.contract.errors import Forbidden, NotFound
from penstock.rules.access import AccessList, Acl

from .setup import ACME, GLOBEX, Tenants, key_number

OWNER = "service_account:sa_billing"
ONE, TWO = key_number(1), key_number(2)


def entry(effect: str, *operations: str, resource: str = "topic", name: str = "", **more: object) -> Acl:
    values: dict[str, object] = {"principal": OWNER, **more}
    return Acl(effect=effect, resource=resource, name=name, operations=operations, **values)  # type: ignore[arg-type]


def with_list(*acls: Acl, default: str = "allow", owner: str = OWNER, **rest: object) -> Tenants:
    tenants = Tenants()
    tenants.change_key(1, owner=owner)
    put_list(tenants, AccessList(default=default, acls=acls, **rest))  # type: ignore[arg-type]
    return tenants


def put_list(tenants: Tenants, rules: AccessList, tenant: str = ACME) -> None:
    tenants.put(access_list_key(tenant), AccessListRecord.of(rules, 1).encode())


def test_a_denied_operation_is_forbidden_and_the_others_go_on() -> None:
    tenants = with_list(entry("deny", "consume", name="ord"))
    principal = tenants.enter(ONE)
    tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")
    with pytest.raises(Forbidden, match=f"'orders': the access list .* consume to {OWNER}"):
        tenants.authenticator.topic(principal, Operation.CONSUME, "orders")
    tenants.authenticator.authorize_group(principal, Operation.CONSUME, "orders")


def test_what_may_not_be_described_does_not_exist() -> None:
    tenants = with_list(entry("allow", "consume", name="other"), default="deny")
    principal = tenants.enter(ONE)
    with pytest.raises(NotFound, match="'orders' does not exist"):
        tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")
    assert tenants.authenticator.topics(principal) == []
    with pytest.raises(NotFound):
        tenants.authenticator.authorize_group(principal, Operation.CONSUME, "readers")


def test_a_key_may_only_what_its_scope_and_its_principal_may() -> None:
    tenants = with_list(entry("allow", "consume", name="orders"), default="deny")
    principal = tenants.enter(ONE)
    tenants.authenticator.topic(principal, Operation.CONSUME, "orders")
    tenants.change_key(1, bindings=(model.Binding(topic_prefix="orders", operations=("produce",)),))
    for operation, words in ((Operation.CONSUME, "no scope of the key"), (Operation.PRODUCE, "access list")):
        with pytest.raises(Forbidden, match=words):
            tenants.authenticator.topic(principal, operation, "orders")


def test_a_changed_list_counts_for_who_has_entered_before() -> None:
    tenants = with_list()
    principal = tenants.enter(ONE)
    tenants.authenticator.topic(principal, Operation.CONSUME, "orders")
    put_list(tenants, AccessList(acls=(entry("deny", "consume"),)))
    with pytest.raises(Forbidden):
        tenants.authenticator.topic(principal, Operation.CONSUME, "orders")
    tenants.put(access_list_key(ACME), None)
    tenants.authenticator.topic(principal, Operation.CONSUME, "orders")


def test_changed_scopes_count_for_who_has_entered_before() -> None:
    tenants = with_list()
    tenants.change_key(1, bindings=(model.Binding(topic_prefix="orders", operations=("produce",)),))
    principal = tenants.enter(ONE)
    tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")
    tenants.change_key(1, bindings=(model.Binding(topic_prefix="orders", operations=("consume",)),))
    with pytest.raises(Forbidden, match="no scope of the key"):
        tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")


def test_the_address_of_the_caller_counts() -> None:
    tenants = with_list(entry("deny", addresses=("10.0.0.0/8",)))
    inside, outside = tenants.enter(ONE, peer="10.1.2.3"), tenants.enter(ONE, peer="192.0.2.1")
    tenants.authenticator.topic(outside, Operation.CONSUME, "orders")
    with pytest.raises(NotFound):
        tenants.authenticator.topic(inside, Operation.CONSUME, "orders")


def test_groups_of_principals_are_followed() -> None:
    tenants = with_list(
        entry("deny", "produce", principal="group:all"),
        members=(("group:all", ("group:robots",)), ("group:robots", (OWNER,))),
    )
    with pytest.raises(Forbidden):
        tenants.authenticator.topic(tenants.enter(ONE), Operation.PRODUCE, "orders")


def test_a_key_whose_owner_is_not_known_has_what_everyone_has() -> None:
    tenants = with_list(entry("allow", "describe", "consume", principal="everyone"), default="deny", owner="")
    principal = tenants.enter(ONE)
    tenants.authenticator.topic(principal, Operation.CONSUME, "orders")
    with pytest.raises(Forbidden, match=f"produce to the key {ONE.key_id}"):
        tenants.authenticator.topic(principal, Operation.PRODUCE, "orders")


def test_the_list_of_one_tenant_says_nothing_about_another() -> None:
    tenants = with_list(entry("deny", principal="everyone"), default="deny")
    assert tenants.authenticator.topic(tenants.enter(TWO), Operation.PRODUCE, "orders").tenant == GLOBEX


def test_more_answers_than_are_remembered_are_still_right() -> None:
    tenants = with_list(entry("deny", "consume", resource="group", name="no-"))
    principal = tenants.enter(ONE)
    for number in range(5_000):
        tenants.authenticator.authorize_group(principal, Operation.CONSUME, f"group-{number}")
    for number in (0, 4_999):
        tenants.authenticator.authorize_group(principal, Operation.CONSUME, f"group-{number}")
        with pytest.raises(Forbidden):
            tenants.authenticator.authorize_group(principal, Operation.CONSUME, f"no-{number}")


def test_a_persons_key_is_told_what_hides_a_name_whether_or_not_there_is_such_a_topic() -> None:
    tenants = with_list(default="deny", owner="person:usr_ann")
    principal = tenants.enter(ONE)
    texts = []
    for name in ("orders", "nothing"):
        with pytest.raises(NotFound) as raised:
            tenants.authenticator.topic(principal, Operation.PRODUCE, name)
        texts.append(raised.value.message.replace(name, "NAME"))
    assert (
        texts
        == [
            "topic 'NAME' does not exist, or the access list hides it from person:usr_ann: no entry allows describe to"
            " person:usr_ann, and the access list denies what no entry allows"
        ]
        * 2
    )
    with pytest.raises(NotFound, match="group 'readers' does not exist, or the access list hides it"):
        tenants.authenticator.authorize_group(principal, Operation.CONSUME, "readers")


def test_a_service_accounts_key_and_one_with_scopes_learn_nothing_of_the_list() -> None:
    tenants = with_list(default="deny")
    with pytest.raises(NotFound) as raised:
        tenants.authenticator.topic(tenants.enter(ONE), Operation.PRODUCE, "orders")
    assert raised.value.message == "topic 'orders' does not exist"
    scope = model.Binding(topic_prefix="orders", operations=("produce",))
    tenants.change_key(1, owner="person:usr_ann", bindings=(scope,))
    with pytest.raises(NotFound) as raised:
        tenants.authenticator.topic(tenants.enter(ONE), Operation.PRODUCE, "orders")
    assert raised.value.message == "topic 'orders' does not exist"
