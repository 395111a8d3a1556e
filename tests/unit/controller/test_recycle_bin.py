"""Topics in the recycle bin: what is compared and changed, and what is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from data_plane.controller.recycle_bin import bin_topic, restore_topic
from data_plane.controller.tenants import Transaction, put_tenant
from data_plane.controller.topics import create_topic, delete_topic, update_topic
from data_plane.metadata import model
from data_plane.metadata.features import FEATURES_KEY, FeaturesRecord
from data_plane.metadata.port import Put
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicId
from penstock.contract.topic_settings import UNLIMITED, TopicSettings

from .setup import ACME, Store

FIRST, SECOND = TopicId(b"1" * 16), TopicId(b"2" * 16)


@pytest.fixture
def store() -> Store:
    """At level 2, with a tenant that has the topic `orders`."""
    made = Store()
    made.txn((), (Put(FEATURES_KEY, FeaturesRecord(level=2).encode()),))
    apply(made, put_tenant(made.image, ACME))
    create(made, FIRST)
    return made


def apply(store: Store, change: Transaction) -> None:
    assert store.txn(change.compares, change.changes)


def create(store: Store, topic_id: TopicId, name: str = "orders") -> None:
    made = create_topic(store.image, topic_id, ACME, name, TopicSettings(), [(1, 2, 3)], generation=1)
    assert store.txn(made.compares, made.changes)


def test_a_topic_in_the_bin_keeps_all_but_its_name(store: Store) -> None:
    before, blocks = store.image.topics[FIRST], store.image.blocks[FIRST]
    apply(store, bin_topic(store.image, ACME, FIRST, generation=2))
    assert store.image.topics[FIRST] == replace(before, binned=True, generation=2)
    assert store.image.blocks[FIRST] == blocks
    assert (ACME, "orders") not in store.image.names
    assert not store.image.buried
    assert not bin_topic(store.image, ACME, FIRST, generation=2).changes, "a repetition changes nothing"


def test_retention_rests_in_the_bin(store: Store) -> None:
    settings = store.image.topics[FIRST].settings
    assert settings.retention_ms != UNLIMITED
    assert store.image.topics[FIRST].log_settings == settings
    apply(store, bin_topic(store.image, ACME, FIRST))
    binned = store.image.topics[FIRST]
    assert binned.settings == settings
    assert (binned.log_settings.retention_ms, binned.log_settings.retention_bytes) == (UNLIMITED, UNLIMITED)


def test_a_topic_comes_back_under_its_name(store: Store) -> None:
    before = store.image.topics[FIRST]
    apply(store, bin_topic(store.image, ACME, FIRST, generation=2))
    apply(store, restore_topic(store.image, ACME, FIRST, "orders", generation=3))
    assert store.image.topics[FIRST] == replace(before, generation=3)
    assert store.image.names[ACME, "orders"] == FIRST
    assert not restore_topic(store.image, ACME, FIRST, "orders", generation=3).changes


def test_a_name_that_is_taken_is_refused_and_another_one_does(store: Store) -> None:
    apply(store, bin_topic(store.image, ACME, FIRST))
    create(store, SECOND)
    with pytest.raises(AlreadyExists, match="restore 'orders' under another name"):
        restore_topic(store.image, ACME, FIRST, "orders")
    apply(store, restore_topic(store.image, ACME, FIRST, "orders-before"))
    assert store.image.names_of[ACME] == {"orders": SECOND, "orders-before": FIRST}
    with pytest.raises(InvalidRequest, match="not in the recycle bin"):
        restore_topic(store.image, ACME, FIRST, "third")


def test_a_name_taken_in_the_same_moment_fails_the_transaction(store: Store) -> None:
    apply(store, bin_topic(store.image, ACME, FIRST))
    decided = restore_topic(store.image, ACME, FIRST, "orders")
    create(store, SECOND)
    assert not store.txn(decided.compares, decided.changes)


def test_deleting_a_topic_in_the_bin_leaves_the_name_to_the_topic_that_took_it(store: Store) -> None:
    apply(store, bin_topic(store.image, ACME, FIRST, generation=2))
    create(store, SECOND)
    apply(store, delete_topic(store.image, ACME, "orders", topic_id=FIRST, generation=3, metered=True))
    assert store.image.names[ACME, "orders"] == SECOND
    assert set(store.image.topics) == {SECOND}
    assert store.image.buried[FIRST].metered
    with pytest.raises(NotFound):
        restore_topic(store.image, ACME, FIRST, "orders", generation=4)


def test_changes_that_come_late_change_nothing(store: Store) -> None:
    apply(store, bin_topic(store.image, ACME, FIRST, generation=5))
    assert restore_topic(store.image, ACME, FIRST, "orders", generation=4).ignored
    apply(store, restore_topic(store.image, ACME, FIRST, "orders", generation=6))
    assert bin_topic(store.image, ACME, FIRST, generation=5).ignored
    assert store.image.names[ACME, "orders"] == FIRST


def test_a_change_of_settings_leaves_a_topic_in_the_bin(store: Store) -> None:
    apply(store, bin_topic(store.image, ACME, FIRST, generation=2))
    longer = TopicSettings(retention_ms=9_000_000)
    change = update_topic(store.image, FIRST, ACME, longer, (), generation=3)
    assert store.txn(change.compares, change.changes)
    assert (store.image.topics[FIRST].binned, store.image.topics[FIRST].settings) == (True, longer)


def test_partitions_in_the_bin_count_against_the_limit(store: Store) -> None:
    apply(store, put_tenant(store.image, ACME, quotas=model.TenantQuotas(partitions_max=1)))
    apply(store, bin_topic(store.image, ACME, FIRST))
    with pytest.raises(LimitExceeded, match="1 are used"):
        create(store, SECOND)
    apply(store, delete_topic(store.image, ACME, "orders", topic_id=FIRST))
    create(store, SECOND)


def test_another_tenants_topic_is_not_found_and_the_services_own_stay(store: Store) -> None:
    other = TenantId("globex")
    acts: tuple[Callable[[], Transaction], ...] = (
        lambda: bin_topic(store.image, other, FIRST),
        lambda: restore_topic(store.image, other, FIRST, "orders"),
        lambda: bin_topic(store.image, ACME, SECOND),
    )
    for act in acts:
        with pytest.raises(NotFound):
            act()
    with pytest.raises(InvalidRequest, match="the service's own topics stay"):
        bin_topic(store.image, SYSTEM_TENANT, FIRST)


def test_below_feature_level_2_there_is_no_bin_and_no_broker_meets_the_field() -> None:
    store = Store()
    apply(store, put_tenant(store.image, ACME))
    create(store, FIRST)
    with pytest.raises(InvalidRequest, match="needs feature level 2: upgrade every broker"):
        bin_topic(store.image, ACME, FIRST)
    assert b"binned" not in store.items[model.topic_key(FIRST)].value, "brokers of 0.1 read exact fields"


def test_without_a_generation_the_bin_is_always_obeyed_and_the_topics_generation_stays(store: Store) -> None:
    for binned in (True, False):
        change = (
            bin_topic(store.image, ACME, FIRST)
            if binned
            else restore_topic(store.image, ACME, FIRST, "orders")
        )
        apply(store, change)
        topic = store.image.topics[FIRST]
        assert (topic.binned, topic.generation) == (binned, 1)


def test_the_services_own_topics_are_never_put_into_the_bin(store: Store) -> None:
    made = create_topic(store.image, SECOND, SYSTEM_TENANT, "__usage", TopicSettings(), [(1, 2, 3)])
    assert store.txn(made.compares, made.changes)
    with pytest.raises(InvalidRequest, match="the service's own topics stay"):
        bin_topic(store.image, SYSTEM_TENANT, SECOND)
