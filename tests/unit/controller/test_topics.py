"""Tenants, topics, keys and producer ids: what is created, compared and refused."""

from typing import Any

import pytest

from data_plane.controller.tenants import PRINCIPAL_MAX, NewKey, put_key, put_tenant, revoke_key
from data_plane.controller.topics import PRODUCER_ID_MAX, create_topic, delete_topic, take_producer_ids
from data_plane.metadata import model
from data_plane.metadata.features import ACCESS_LISTS, FEATURES_KEY, FeaturesRecord
from data_plane.metadata.port import KeyValue
from penstock.contract import limits
from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    InvalidRequest,
    LimitExceeded,
    NotFound,
)
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.names import AUDIT_TOPIC

from .setup import ACME, Store, record

OTHER = TenantId("globex")
NEW = TopicId(b"n" * 16)


def fresh_store() -> Store:
    """With two tenants."""
    made = Store()
    for tenant in (ACME, OTHER):
        tenant_put = put_tenant(made.image, tenant)
        assert made.txn(tenant_put.compares, tenant_put.changes)
    return made


@pytest.fixture
def store() -> Store:
    return fresh_store()


def create(store: Store, name: str = "orders", tenant: TenantId = ACME, **changes: Any) -> model.TopicRecord:
    values: dict[str, Any] = {
        "topic_id": NEW,
        "settings": TopicSettings(),
        "assignments": [(1, 2, 3), (2, 3, 1)],
        **changes,
    }
    made = create_topic(store.image, tenant=tenant, name=name, **values)
    assert store.txn(made.compares, made.changes)
    return made.record


def test_a_new_topic_is_led_by_first_replicas_and_all_active_ones_are_in_sync(store: Store) -> None:
    topic = create(store)
    assert store.image.topics[NEW] == topic
    assert store.image.names[ACME, "orders"] == NEW
    assert {p.replica_generations for p in store.image.partitions_of(NEW)} == {(1, 1, 1)}
    assert [(p.leader, p.in_sync, p.leader_epoch) for p in store.image.partitions_of(NEW)] == [
        (1, (1, 2, 3), 1),
        (2, (2, 3, 1), 1),
    ]


def test_replicas_that_are_not_active_are_neither_leader_nor_in_sync(store: Store) -> None:
    store.broker(1, draining=True)
    create(store)
    assert [(p.leader, p.in_sync) for p in store.image.partitions_of(NEW)] == [(2, (2, 3)), (2, (2, 3))]


def test_a_creation_fails_when_a_member_was_fenced_meanwhile(store: Store) -> None:
    made = create_topic(store.image, NEW, ACME, "orders", TopicSettings(), [(1, 2, 3)])
    store.register(3, "anew")
    assert not store.txn(made.compares, made.changes)


def test_of_two_creations_of_one_name_one_succeeds(store: Store) -> None:
    one = create_topic(store.image, NEW, ACME, "orders", TopicSettings(), [(1, 2, 3)])
    two = create_topic(store.image, TopicId(b"m" * 16), ACME, "orders", TopicSettings(), [(1, 2, 3)])
    assert store.txn(one.compares, one.changes)
    assert not store.txn(two.compares, two.changes)


def test_many_partitions_are_stored_in_cells_within_one_transaction(store: Store) -> None:
    made = create_topic(store.image, NEW, ACME, "big", TopicSettings(), [(1, 2, 3)] * 10_000)
    assert len(made.changes) == 102
    assert len(made.compares) == 7
    assert store.txn(made.compares, made.changes)
    assert len(store.image.partitions_of(NEW)) == 10_000


def test_two_tenants_have_topics_of_the_same_name(store: Store) -> None:
    create(store)
    create(store, tenant=OTHER, topic_id=TopicId(b"o" * 16))
    assert store.image.names[ACME, "orders"] != store.image.names[OTHER, "orders"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "a\n", "x" * 250, "__usage"])
def test_bad_topic_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^name: "):
        create(store, name)


@pytest.mark.parametrize("name", ["a", "...", "_a", "A-b.c_9", "x" * 249])
def test_good_topic_names_are_taken(store: Store, name: str) -> None:
    assert create(store, name).name == name


def test_the_topic_with_the_audit_log_is_made_at_a_level_whose_brokers_guard_it(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="the service's own"):
        create(store, AUDIT_TOPIC)
    store.put(FEATURES_KEY, FeaturesRecord(level=ACCESS_LISTS).encode())
    made = create(store, AUDIT_TOPIC)
    with pytest.raises(InvalidRequest, match="the service's own"):
        create(store, "__other", topic_id=TopicId(b"o" * 16))
    gone = delete_topic(store.image, ACME, AUDIT_TOPIC, topic_id=made.topic_id, metered=True)
    assert store.txn(gone.compares, gone.changes)
    assert not store.image.buried[made.topic_id].metered, "no cut waits for what is not billed"


def test_internal_names_are_the_services_own(store: Store) -> None:
    assert create(store, "__usage", SYSTEM_TENANT).tenant == SYSTEM_TENANT


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"tenant": TenantId("nobody")}, NotFound, "tenant 'nobody' does not exist"),
        ({"assignments": []}, LimitExceeded, "0 partitions"),
        ({"assignments": [(1, 2, 3)] * (limits.PARTITIONS_PER_TOPIC_MAX + 1)}, LimitExceeded, "10001 partitions"),
        ({"assignments": [(1, 2)]}, InvalidRequest, "orders-0: 2 brokers assigned, replication is 3"),
        ({"assignments": [(1, 2, 3), (1, 1, 2)]}, InvalidRequest, "orders-1: broker 1 is assigned twice"),
        ({"assignments": [(1, 2, 9)]}, InvalidRequest, "broker 9 is not known"),
        ({"topic_id": TopicId(b"short")}, InvalidRequest, "5 bytes, 16 required"),
    ],
)  # fmt: skip
def test_a_wrong_creation_is_refused_by_name(
    store: Store, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        create(store, **changes)


def test_a_partition_with_no_active_broker_is_refused(store: Store) -> None:
    for broker in (1, 2, 3):
        store.broker(broker, draining=True)
    with pytest.raises(BrokerUnavailable, match="none of brokers 1, 2, 3 is active"):
        create(store)


def test_a_taken_name_and_a_used_topic_id_are_refused(store: Store) -> None:
    create(store)
    with pytest.raises(AlreadyExists, match="'orders' exists"):
        create(store, topic_id=TopicId(b"p" * 16))
    with pytest.raises(AlreadyExists, match="was used before"):
        create(store, "another")
    gone = delete_topic(store.image, ACME, "orders")
    assert store.txn(gone.compares, gone.changes)
    with pytest.raises(AlreadyExists, match="was used before"):
        create(store, "another")


def test_a_deleted_topic_leaves_its_tombstone_alone(store: Store) -> None:
    create(store)
    gone = delete_topic(store.image, ACME, "orders")
    assert store.txn(gone.compares, gone.changes)
    assert NEW in store.image.tombstones
    assert NEW not in store.image.topics
    assert (ACME, "orders") not in store.image.names
    assert store.image.partitions_of(NEW) == []
    assert not [key for key in store.items if NEW.hex() in key and not key.startswith("/tombstones/")]


def test_a_deletion_does_not_race_with_an_election(store: Store) -> None:
    create(store)
    gone = delete_topic(store.image, ACME, "orders")
    store.put(model.block_key(NEW, 0), model.encode_block({0: record()}))
    assert not store.txn(gone.compares, gone.changes)


def test_another_tenants_topic_cannot_be_deleted(store: Store) -> None:
    create(store)
    with pytest.raises(NotFound):
        delete_topic(store.image, OTHER, "orders")


@pytest.mark.parametrize("tenant", ["", "a/b", "-a", "x" * 64, "a b", "A\n"])
def test_bad_tenants_are_refused(store: Store, tenant: str) -> None:
    with pytest.raises(InvalidRequest):
        put_tenant(store.image, tenant)


def test_putting_a_tenant_again_changes_nothing(store: Store) -> None:
    assert put_tenant(store.image, ACME).changes == ()


# -- keys -----------------------------------------------------------------------------------------------


def key(store: Store, key_id: str = "A" * 12, **changes: Any) -> NewKey:
    values: dict[str, Any] = {
        "tenant": ACME,
        "name": "ci",
        "pepper_version": 1,
        "secret_hmac": "ab" * 32,
        "scram": {},
        **changes,
    }
    return put_key(store.image, store.items.get(model.NEXT_PRINCIPAL_KEY), key_id=key_id, **values)


def test_each_key_gets_the_next_principal_number(store: Store) -> None:
    for number, key_id in enumerate(("A" * 12, "B" * 12, "C" * 12), start=1):
        made = key(store, key_id)
        assert store.txn(made.compares, made.changes)
        assert store.image.keys[key_id].principal == number


def test_of_two_keys_made_at_once_one_must_ask_again(store: Store) -> None:
    one, two = key(store, "A" * 12), key(store, "B" * 12)
    assert store.txn(one.compares, one.changes)
    assert not store.txn(two.compares, two.changes)


def test_a_retried_key_keeps_its_number_and_stays_revoked(store: Store) -> None:
    made = key(store)
    store.txn(made.compares, made.changes)
    gone = revoke_key(store.image, "A" * 12)
    assert store.txn(gone.compares, gone.changes)
    again = key(store)
    assert again.changes == ()
    assert again.record.principal == made.record.principal
    assert again.record.revoked


def test_another_credential_under_the_same_id_is_refused(store: Store) -> None:
    made = key(store)
    store.txn(made.compares, made.changes)
    with pytest.raises(AlreadyExists):
        key(store, secret_hmac="cd" * 32)


@pytest.mark.parametrize(
    "changes",
    [
        {"key_id": "short"}, {"key_id": "a/b456789012"}, {"secret_hmac": "xyz"}, {"secret_hmac": "AB" * 32},
        {"pepper_version": 0}, {"expires_at_ms": -1}, {"name": "n" * 101},
    ],
)  # fmt: skip
def test_a_wrong_key_is_refused(store: Store, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        key(store, **changes)


def test_a_key_of_an_unknown_tenant_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        key(store, tenant=TenantId("nobody"))


def test_principal_numbers_end_at_uint32(store: Store) -> None:
    assert PRINCIPAL_MAX == 2**32 - 1
    store.put(model.NEXT_PRINCIPAL_KEY, str(PRINCIPAL_MAX).encode())
    made = key(store)
    assert made.record.principal == PRINCIPAL_MAX
    assert store.txn(made.compares, made.changes)
    with pytest.raises(LimitExceeded):
        key(store, "B" * 12)


def test_revoking_is_seen_once_and_an_unknown_key_is_not_found(store: Store) -> None:
    made = key(store)
    store.txn(made.compares, made.changes)
    gone = revoke_key(store.image, "A" * 12)
    assert store.txn(gone.compares, gone.changes)
    assert store.image.keys["A" * 12].revoked
    assert revoke_key(store.image, "A" * 12).changes == ()
    with pytest.raises(NotFound):
        revoke_key(store.image, "Z" * 12)


# -- producer ids ---------------------------------------------------------------------------------------


def test_blocks_of_producer_ids_never_overlap(store: Store) -> None:
    counter = store.items.get(model.NEXT_PRODUCER_ID_KEY)
    one, two = take_producer_ids(counter), take_producer_ids(counter)
    assert store.txn(one.compares, one.changes)
    assert not store.txn(two.compares, two.changes)
    next_one = take_producer_ids(store.items.get(model.NEXT_PRODUCER_ID_KEY))
    assert (one.first, one.end) == (1, 1 + limits.PRODUCER_ID_BLOCK)
    assert next_one.first == one.end


def test_producer_ids_end_at_their_bound() -> None:
    counter = KeyValue(model.NEXT_PRODUCER_ID_KEY, str(PRODUCER_ID_MAX).encode(), 4)
    with pytest.raises(LimitExceeded):
        take_producer_ids(counter)
