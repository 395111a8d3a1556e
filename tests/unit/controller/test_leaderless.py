"""Partitions without a leader, as the controller counts them: those of tenants' topics that are in use."""

from dataclasses import replace

from data_plane.controller.leaderless import Leaderless
from data_plane.metadata import model
from penstock.contract.ids import NO_BROKER, SYSTEM_TENANT, TopicPartition
from penstock.contract.topic_settings import TopicSettings

from .setup import ACME, LOGS, ORDERS, Store, record


def test_the_controller_looks_at_tenants_partitions_that_nobody_leads() -> None:
    store = Store()
    store.topic(record(), record((), partition=1, leader=NO_BROKER, eligible=(2,)))
    leaderless = Leaderless(store.image)
    assert leaderless.partitions() == {TopicPartition(ORDERS, 1): store.image.topics[ORDERS]}
    internal = model.TopicRecord(
        topic_id=LOGS, tenant=SYSTEM_TENANT, name="__usage", partitions=1, settings=TopicSettings()
    )
    store.put(model.topic_key(LOGS), internal.encode())
    store.put(model.block_key(LOGS, 0), model.encode_block({0: record((), leader=NO_BROKER)}))
    assert leaderless.partitions() == {TopicPartition(ORDERS, 1): store.image.topics[ORDERS]}
    store.topic(record(), record(partition=1, leader=2))
    assert leaderless.partitions() == {}


def test_a_topic_in_the_recycle_bin_serves_nobody_and_counts_as_nothing() -> None:
    store = Store()
    store.topic(record((), leader=NO_BROKER, eligible=(2,)))
    leaderless = Leaderless(store.image)
    assert set(leaderless.partitions()) == {TopicPartition(ORDERS, 0)}
    binned = replace(store.image.topics[ORDERS], binned=True)
    store.put(model.topic_key(ORDERS), binned.encode())
    assert leaderless.partitions() == {}


def test_a_suspended_tenants_partitions_count_as_nothing_until_it_is_let_in_again() -> None:
    store = Store()
    store.topic(record((), leader=NO_BROKER, eligible=(2,)))
    leaderless = Leaderless(store.image)
    for suspended, counted in ((True, set()), (False, {TopicPartition(ORDERS, 0)})):
        store.put(model.tenant_key(ACME), model.TenantRecord(tenant=ACME, suspended=suspended).encode())
        assert set(leaderless.partitions()) == counted


def test_a_partition_counts_from_the_loss_of_its_leader_until_it_has_another() -> None:
    store = Store()
    leaderless = Leaderless(store.image)
    for leader in (1, NO_BROKER, NO_BROKER, 2, NO_BROKER):
        store.topic(record((), leader=leader, eligible=(2,)))
        assert len(leaderless.partitions()) == (leader == NO_BROKER)
