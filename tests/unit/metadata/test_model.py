"""Stored values: what is written is read back, and what earlier versions wrote still means the same."""

import json
from dataclasses import replace

from data_plane.metadata import broker_records, model
from data_plane.metadata.budget_use import BudgetUseRecord, budget_use_key
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Event, WatchBatch
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

ACME = TenantId("acme")
TOPIC = TopicId(b"t" * 16)


def test_a_consume_rate_that_is_not_set_is_not_written_so_that_earlier_versions_read_the_rest() -> None:
    plain = model.TenantRecord(tenant=ACME, quotas=model.TenantQuotas(produce_bytes_per_s=7))
    assert json.loads(plain.encode())["quotas"] == {"produce_bytes_per_s": 7, "partitions_max": 0}
    rated = replace(plain, quotas=replace(plain.quotas, consume_bytes_per_s=8))
    assert json.loads(rated.encode())["quotas"]["consume_bytes_per_s"] == 8
    for record in (plain, rated):
        assert model.TenantRecord.decode(record.encode()) == record


def test_tenants_keys_and_tombstones_are_read_back() -> None:
    tenant = model.TenantRecord(
        tenant=ACME,
        generation=3,
        quotas=model.TenantQuotas(produce_bytes_per_s=7, partitions_max=9),
        suspended=True,
    )
    assert model.TenantRecord.decode(tenant.encode()) == tenant
    key = model.KeyRecord(
        key_id="k", tenant=ACME, name="n", principal=4, pepper_version=1, secret_hmac="00", scram={"a": 1},
        generation=2,
        bindings=(model.Binding(topic_prefix="a", operations=("produce",)), model.Binding(topic_prefix="")),
    )  # fmt: skip
    assert model.KeyRecord.decode(key.encode()) == key
    tombstone = model.Tombstone(name="orders", tenant=ACME, partitions=3, generation=8)
    assert model.Tombstone.decode(tombstone.encode()) == tombstone
    closed = replace(tombstone, metered=True, closed_by="cut_1")
    assert model.Tombstone.decode(closed.encode()) == closed


def test_last_readings_and_cuts_are_read_back() -> None:
    final = model.FinalRecord(log_generation=2, end_offset=9, accepted_ms=-1, totals=(1, 2, 3, 4, 5, 6))
    assert model.FinalRecord.decode(final.encode()) == final
    cut = model.CutRecord(
        cut_id="cut_1", start_ms=0, end_ms=5, sha256="a" * 64, billing_sequence=3, billing_hash="b" * 64
    )
    assert model.CutRecord.decode(cut.encode()) == cut


def test_values_of_before_generations_are_read() -> None:
    assert model.TenantRecord.decode(b'{"tenant":"acme"}') == model.TenantRecord(tenant=ACME)
    old = {"key_id": "k", "tenant": "acme", "name": "n", "principal": 4, "pepper_version": 1, "secret_hmac": "00",
           "scram": {}, "expires_at_ms": 0, "revoked": True}  # fmt: skip
    key = model.KeyRecord.decode(json.dumps(old).encode())
    assert (key.generation, key.bindings, key.revoked) == (0, (), True)
    topic = {"topic_id": TOPIC.hex(), "tenant": "acme", "name": "orders", "partitions": 1,
             "settings": TopicSettings().to_dict(), "generation": 1, "accepted_floor_ms": 0}  # fmt: skip
    assert model.TopicRecord.decode(json.dumps(topic).encode()).generation == 1
    assert model.Tombstone.decode(b"orders") == model.Tombstone(name="orders")
    unmetered = model.Tombstone.decode(b'{"name":"orders","tenant":"acme","partitions":3,"generation":8}')
    assert (unmetered.metered, unmetered.closed_by) == (False, "")


def test_a_broker_of_before_hosts_is_read_and_one_without_host_is_written_as_then() -> None:
    old = {"broker_id": 3, "directory_id": "d", "client_address": "c:1", "internal_address": "i:1", "zone": "a",
           "draining": False, "peer_address": "p:1"}  # fmt: skip
    broker = broker_records.BrokerRecord.decode(json.dumps(old).encode())
    assert (broker.zone, broker.host) == ("a", "")
    assert json.loads(broker.encode()) == old
    on_a_host = replace(broker, host="rack-7")
    assert broker_records.BrokerRecord.decode(on_a_host.encode()) == on_a_host


def test_names_are_found_by_tenant_and_a_tenant_without_any_is_forgotten() -> None:
    image = ClusterImage()

    def put(key: str, value: bytes | None) -> None:
        revision = image.revision + 1
        image.apply(WatchBatch(revision, (Event(key, value, revision),)))

    topic = model.TopicRecord(
        topic_id=TOPIC, tenant=ACME, name="orders", partitions=3, settings=TopicSettings()
    )
    put(model.topic_key(TOPIC), topic.encode())
    put(model.name_key(ACME, "orders"), TOPIC.hex().encode())
    assert image.names_of == {ACME: {"orders": TOPIC}}
    assert image.partitions_used(ACME) == 3
    put(model.name_key(ACME, "orders"), None)
    put(model.topic_key(TOPIC), None)
    assert image.names_of == {} and image.names == {}
    assert image.partitions_used(ACME) == 0


def test_a_partitions_record_is_read_back_and_says_where_no_log_begins_before_only_if_any_does() -> None:
    ids = (BrokerId(1), BrokerId(2))
    plain = model.PartitionRecord(partition=3, replicas=ids, replica_generations=(1, 1), in_sync=ids)
    changed = [
        plain,
        replace(plain, log_start=70),
        replace(plain, generation_epoch=2, log_generation=2, log_start=70),
        replace(plain, target=ids, adding=ids[1:]),
        replace(plain, target=ids, adding=ids[1:], log_start=70),
    ]
    for record in changed:
        assert model.PartitionRecord.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert plain.to_json() == [3, [1, 2], [1, 1], -1, 0, [1, 2], [], [], 1, 1]


def test_quotas_that_are_not_set_are_left_out_so_that_earlier_brokers_read_the_tenant() -> None:
    plain = model.TenantRecord(
        tenant=ACME, quotas=model.TenantQuotas(produce_bytes_per_s=7, partitions_max=9)
    )
    assert json.loads(plain.encode())["quotas"] == {"produce_bytes_per_s": 7, "partitions_max": 9}
    more = replace(plain, quotas=replace(plain.quotas, connections_max=3, groups_max=4))
    assert json.loads(more.encode())["quotas"] == {
        "produce_bytes_per_s": 7, "partitions_max": 9, "connections_max": 3, "groups_max": 4,
    }  # fmt: skip
    assert model.TenantRecord.decode(more.encode()) == more


def test_what_budgets_count_changes_no_object() -> None:
    image, record = ClusterImage(), BudgetUseRecord().encode()
    image.load((), 5)
    assert image.objects_revision == 5
    image.apply(WatchBatch(6, (Event(budget_use_key("acme"), record, 6),)))
    assert (image.revision, image.objects_revision) == (6, 5)
    both = (Event(budget_use_key("acme"), None, 7), Event(broker_records.cordon_key(1), None, 7))
    image.apply(WatchBatch(7, both))
    assert (image.revision, image.objects_revision) == (7, 7)
