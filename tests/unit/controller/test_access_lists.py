"""Access lists, owners and scopes as transactions: generations, feature levels, refusals, and what is stored."""

from collections.abc import Sequence

import pytest

from data_plane.controller.tenants import put_access_list, put_key, put_tenant
from data_plane.metadata import model
from data_plane.metadata.access_lists import AccessListRecord
from data_plane.metadata.features import FEATURES_KEY, FeaturesRecord
from data_plane.metadata.model import Binding
from data_plane.metadata.port import Put
from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TenantId
from penstock.rules.access import AccessList, Acl
from penstock.rules.access_document import access_list_json, access_list_of

from .setup import ACME, Store

KEY = "k" * 12
DENY = Acl(effect="deny", principal="everyone", resource="topic", name="secret.")


@pytest.fixture
def store() -> Store:
    made = Store()
    made.txn((), (Put(FEATURES_KEY, FeaturesRecord(level=2).encode()),))
    for tenant in (ACME, SYSTEM_TENANT):
        change = put_tenant(made.image, tenant, generation=1)
        assert made.txn(change.compares, change.changes)
    return made


def put(store: Store, rules: AccessList, generation: int) -> bool:
    """Whether something changed."""
    change = put_access_list(store.image, ACME, rules, generation=generation)
    return bool(change.changes) and store.txn(change.compares, change.changes)


def put_a_key(store: Store, **given: object) -> model.KeyRecord:
    counter = store.items.get(model.NEXT_PRINCIPAL_KEY)
    change = put_key(
        store.image, counter, key_id=KEY, tenant=ACME, name="", pepper_version=1,
        secret_hmac="ab" * 32, scram={}, **given,  # type: ignore[arg-type]
    )  # fmt: skip
    assert store.txn(change.compares, change.changes)
    return store.image.keys[KEY]


def test_the_newest_generation_is_what_holds(store: Store) -> None:
    assert put(store, AccessList(acls=(DENY,)), 2)
    assert store.image.access_lists[ACME].rules.acls == (DENY,)
    assert not put(store, AccessList(acls=(DENY,)), 2), "a repetition"
    assert put_access_list(store.image, ACME, AccessList(), generation=1).ignored
    assert put(store, AccessList(default="deny"), 3)
    assert store.image.access_lists[ACME].rules == AccessList(default="deny")


def test_the_same_list_has_one_written_form_whatever_its_order() -> None:
    other = Acl(effect="allow", principal="group:b", resource="tenant", addresses=("10.0.0.0/8", "::1/128"))
    one = AccessList(acls=(DENY, other), members=(("group:b", ("person:2", "person:1")), ("group:a", ())))
    two = AccessList(
        acls=(other, DENY, other), members=(("group:a", ()), ("group:b", ("person:1", "person:2")))
    )
    assert access_list_json(one) == access_list_json(two)
    assert access_list_json(access_list_of(access_list_json(one))) == access_list_json(one)
    record = AccessListRecord.of(one, 7)
    again = AccessListRecord.decode(record.encode())
    assert (again.digest, again.generation) == (record.digest, 7)
    assert set(again.rules.acls) == set(one.acls)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "[" * 100_000, '{"acl":[]}', '{"acls":{}}', '{"acls":[1]}', '{"acls":[{"effect":"deny"}]}',
        '{"acls":[{"effect":"deny","principal":"everyone","resource":"topic","until":1}]}',
        '{"acls":[{"effect":"deny","principal":"everyone","resource":"topic","literal":1}]}',
        '{"groups":{"group:a":"person:1"}}', '{"default":null}',
    ],
)  # fmt: skip
def test_what_is_no_access_list_is_refused_whole(text: str) -> None:
    with pytest.raises(InvalidRequest):
        access_list_of(text)


def test_a_cluster_below_the_level_takes_no_list_and_no_new_kind_of_scope() -> None:
    store = Store()
    change = put_tenant(store.image, ACME, generation=1)
    store.txn(change.compares, change.changes)
    assert store.image.level == 1
    with pytest.raises(InvalidRequest, match="access lists need feature level 2: upgrade every broker"):
        put_access_list(store.image, ACME, AccessList())
    for binding in (Binding(topic_prefix="a", literal=True), Binding(topic_prefix="a", resource="topic")):
        with pytest.raises(InvalidRequest, match="need feature level 2"):
            put_a_key(store, bindings=[binding])
    put_a_key(store, bindings=[Binding(topic_prefix="a")], owner="person:1")
    stored = store.items[model.credential_key(KEY)].value
    assert b"owner" not in stored and b"literal" not in stored, "brokers of 0.1 read exact fields"


def test_an_owner_and_scopes_are_stored_and_change(store: Store) -> None:
    scopes = (Binding(topic_prefix="a", resource="transactional_id", literal=True),)
    made = put_a_key(store, bindings=scopes, owner="person:1", generation=1)
    assert (made.owner, made.bindings) == ("person:1", scopes)
    changed = put_a_key(store, bindings=scopes, owner="service_account:2", generation=2)
    assert (changed.owner, changed.principal) == ("service_account:2", made.principal)
    with pytest.raises(InvalidRequest, match="principal"):
        put_a_key(store, owner="group:1", generation=3)


@pytest.mark.parametrize(("tenant", "error"), [("globex", NotFound), (SYSTEM_TENANT, InvalidRequest)])
def test_only_a_known_tenant_of_others_has_a_list(store: Store, tenant: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        put_access_list(store.image, TenantId(tenant), AccessList())


def test_a_list_that_is_too_long_to_store_is_refused(store: Store) -> None:
    acls: Sequence[Acl] = [
        Acl(effect="deny", principal="everyone", resource="topic", name=f"{n:03}{'é' * 246}")
        for n in range(limits.ACLS_PER_TENANT_MAX)
    ]
    with pytest.raises(LimitExceeded, match=r"access list has .* bytes, at most 524288"):
        put_access_list(store.image, ACME, AccessList(acls=tuple(acls)))
