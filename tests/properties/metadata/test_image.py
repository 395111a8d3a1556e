"""Stored records survive their encoding, and an image fed by the watch equals one listed at that revision."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from data_plane.metadata import broker_records, model
from data_plane.metadata.access_lists import AccessListRecord, access_list_key
from data_plane.metadata.features import FEATURES_KEY, FeaturesRecord, VersionRecord, version_key
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.losses import LossKind, LossRecord
from data_plane.metadata.port import Event, KeyValue, WatchBatch
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access import AccessList, Acl

brokers = st.integers(0, 4).map(BrokerId)
topics = st.integers(0, 3).map(lambda n: TopicId(bytes([n]) * 16))
tenants = st.sampled_from(["tn_a", "tn_b"]).map(TenantId)
names = st.sampled_from(["orders", "orders-eu", "a/b", "ä"])
hexes = st.binary(min_size=2, max_size=4).map(bytes.hex)


@st.composite
def partitions(draw: st.DrawFn, number: int = 0) -> model.PartitionRecord:
    replicas = tuple(draw(st.lists(brokers, min_size=1, max_size=3, unique=True)))
    return model.PartitionRecord(
        partition=number,
        replicas=replicas,
        replica_generations=tuple(draw(st.integers(1, 9)) for _ in replicas),
        leader=draw(st.sampled_from([BrokerId(-1), *replicas])),
        leader_epoch=draw(st.integers(0, 2**31)),
        in_sync=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        eligible=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        last_known=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        partition_epoch=draw(st.integers(1, 2**31)),
        log_generation=draw(st.integers(1, 9)),
    )


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, bytes]:
    topic, block = draw(topics), draw(st.integers(0, 2))
    numbers = draw(
        st.lists(st.integers(0, model.PARTITIONS_PER_BLOCK - 1), unique=True, min_size=1, max_size=3)
    )
    first = block * model.PARTITIONS_PER_BLOCK
    records = {first + number: draw(partitions(first + number)) for number in numbers}
    return model.block_key(topic, first), model.encode_block(records)


topic_records = st.builds(
    lambda topic_id, tenant, name, count, settings, generation, floor: model.TopicRecord(
        topic_id=topic_id,
        tenant=tenant,
        name=name,
        partitions=count,
        settings=settings,
        generation=generation,
        accepted_floor_ms=floor,
    ),
    topics, tenants, names, st.integers(1, 300),
    st.builds(TopicSettings, retention_ms=st.integers(3_600_000, 2**40), replication=st.integers(2, 5)),
    st.integers(1, 9), st.integers(0, 2**45),
)  # fmt: skip
registered_brokers = st.builds(
    lambda broker_id, directory, draining, zone: broker_records.BrokerRecord(
        broker_id=broker_id,
        directory_id=directory,
        client_address=f"10.0.0.{broker_id}:7400",
        internal_address="",
        zone=zone,
        draining=draining,
    ),
    brokers, hexes, st.booleans(), st.sampled_from(["", "a"]),
)  # fmt: skip
live_records = st.builds(
    lambda incarnation, directory: broker_records.LiveRecord(incarnation=incarnation, directory_id=directory),
    hexes,
    hexes,
)
key_records = st.builds(
    lambda key_id, tenant, principal, revoked, owner, bindings: model.KeyRecord(
        key_id=key_id,
        tenant=tenant,
        name="k",
        principal=principal,
        pepper_version=1,
        secret_hmac="00",
        scram={"sha256": {"iterations": 4096}},
        revoked=revoked,
        owner=owner,
        bindings=bindings,
    ),
    st.sampled_from(["k1", "k2"]), tenants, st.integers(1, 2**32 - 1), st.booleans(),
    st.sampled_from(["", "person:usr_1"]),
    st.sampled_from([(), (model.Binding(topic_prefix="a", resource="topic", literal=True),)]),
)  # fmt: skip

puts = st.one_of(
    blocks(),
    topic_records.map(lambda r: (model.topic_key(r.topic_id), r.encode())),
    registered_brokers.map(lambda r: (broker_records.broker_key(r.broker_id), r.encode())),
    st.tuples(brokers.map(broker_records.live_key), live_records.map(lambda r: r.encode())),
    key_records.map(lambda r: (model.credential_key(r.key_id), r.encode())),
    st.builds(
        lambda t, acls, generation: (
            access_list_key(t),
            AccessListRecord.of(
                AccessList(acls=acls, members=(("group:g", ("person:usr_1",)),)), generation
            ).encode(),
        ),
        tenants,
        st.sampled_from([(), (Acl(effect="deny", principal="group:g", resource="group", name="a"),)]),
        st.integers(1, 9),
    ),
    st.builds(lambda t: (model.tenant_key(t), model.TenantRecord(tenant=t).encode()), tenants),
    st.builds(lambda t, n, i: (model.name_key(t, n), i.hex().encode()), tenants, names, topics),
    st.builds(lambda t, n: (model.tombstone_key(t), model.Tombstone(name=n).encode()), topics, names),
    st.builds(lambda t, n: (model.tombstone_key(t), n.encode()), topics, names),
    st.builds(
        lambda t, tenant, by: (
            model.tombstone_key(t),
            model.Tombstone(name="n", tenant=tenant, partitions=2, metered=True, closed_by=by).encode(),
        ),
        topics,
        tenants,
        st.sampled_from(["", "cut_1"]),
    ),
    st.builds(
        lambda t, p, end: (
            model.final_key(t, p),
            model.FinalRecord(
                log_generation=1, end_offset=end, accepted_ms=-1, totals=(end, 0, 0, 0, 0, 0)
            ).encode(),
        ),
        topics,
        st.integers(0, 3),
        st.integers(0, 9),
    ),
    st.builds(
        lambda key, end: (
            key,
            model.CutRecord(
                cut_id="c", start_ms=0, end_ms=end, sha256="0" * 64, billing_sequence=0, billing_hash=""
            ).encode(),
        ),
        st.one_of(tenants.map(model.cut_key), tenants.map(lambda t: model.kept_cut_key(t, 5))),
        st.integers(1, 9),
    ),
    st.builds(
        lambda t, end: (
            model.begun_cut_key(t),
            model.BegunCut(cut_id="c", start_ms=0, end_ms=end).encode(),
        ),
        tenants,
        st.integers(1, 9),
    ),
    st.builds(
        lambda t, p, g, kind: (
            model.loss_key(t, p, g),
            LossRecord(
                tenant="tn",
                topic="orders",
                kind=kind,
                log_generation=g,
                leader=BrokerId(1),
                leader_epoch=g,
                offset=7,
                known_end_offset=9,
                last_known=(BrokerId(1),),
                ends=((BrokerId(1), 3, 7),),
                asked_by="",
                declared_ms=5,
            ).encode(),
        ),
        topics,
        st.integers(0, 3),
        st.integers(2, 4),
        st.sampled_from(LossKind),
    ),
    st.builds(
        lambda b, i: (
            broker_records.CONTROLLER_KEY,
            broker_records.ControllerRecord(broker_id=b, incarnation=i).encode(),
        ),
        brokers,
        hexes,
    ),
    st.sampled_from(["", "0.2"]).map(
        lambda needs: (
            broker_records.CLUSTER_KEY,
            broker_records.ClusterRecord(cluster_id="c", needs=needs).encode(),
        )
    ),
    st.integers(1, 3).map(lambda level: (FEATURES_KEY, FeaturesRecord(level=level).encode())),
    st.builds(
        lambda b, i, level: (
            version_key(b),
            VersionRecord(incarnation=i, version="0.2.0", level_min=1, level_max=level).encode(),
        ),
        brokers,
        hexes,
        st.integers(1, 3),
    ),
    st.just((model.NEXT_PRINCIPAL_KEY, b"7")),
)
revisions = st.lists(
    st.lists(st.tuples(puts, st.booleans()), min_size=1, max_size=4, unique_by=lambda change: change[0][0]),
    max_size=30,
)


def contents(image: ClusterImage) -> dict[str, Any]:
    """All that the store said, without what the image notes of how it heard of it."""
    noted = ("revision", "objects_revision", "cluster_id", "loaded_at", "brokers_changed_at", "_changed_at")
    said = {name: getattr(image, name) for name in dir(image) if name not in noted and name[:2] != "__"}
    return {name: value for name, value in said.items() if not callable(value)}


@given(revisions, st.integers(0, 30))
def test_an_image_that_followed_the_watch_equals_one_listed_at_the_same_revision(
    history: list[list[tuple[tuple[str, bytes], bool]]], listed_at: int
) -> None:
    stored: dict[str, KeyValue] = {}
    followed, joined = ClusterImage(), ClusterImage()
    for revision, changes in enumerate(history, start=1):
        events = []
        for (key, value), delete in changes:
            if not delete:
                stored[key] = KeyValue(key, value, revision)
                events.append(Event(key, value, revision))
            elif stored.pop(key, None) is not None:
                events.append(Event(key, None, revision))
        batch = WatchBatch(revision, tuple(events))
        followed.apply(batch)
        joined.apply(batch)
        if revision == listed_at:
            joined.load([stored[key] for key in sorted(stored)], revision)
    whole = ClusterImage()
    whole.load([stored[key] for key in sorted(stored)], len(history))
    assert contents(followed) == contents(whole)
    assert contents(joined) == contents(whole)
    assert followed.revision == len(history)


@given(revisions)
def test_a_revision_that_was_applied_already_changes_nothing(
    history: list[list[tuple[tuple[str, bytes], bool]]],
) -> None:
    once, twice = ClusterImage(), ClusterImage()
    batches = [
        WatchBatch(
            revision,
            tuple(Event(key, None if delete else value, revision) for (key, value), delete in changes),
        )
        for revision, changes in enumerate(history, start=1)
    ]
    for batch in batches:
        once.apply(batch)
        twice.apply(batch)
        for earlier in batches[: batch.revision]:
            twice.apply(earlier)
    assert contents(once) == contents(twice)


@given(topic_records)
def test_a_topic_record_survives_its_encoding(record: model.TopicRecord) -> None:
    assert model.TopicRecord.decode(record.encode()) == record


@given(st.one_of(registered_brokers, live_records, key_records))
def test_plain_records_survive_their_encoding(record: Any) -> None:
    assert type(record).decode(record.encode()) == record


@given(st.dictionaries(st.integers(0, 99), st.none(), max_size=5).flatmap(
    lambda numbers: st.fixed_dictionaries({number: partitions(number) for number in numbers})
))  # fmt: skip
def test_a_cell_survives_its_encoding(records: dict[int, model.PartitionRecord]) -> None:
    assert model.decode_block(model.encode_block(records)) == records


@given(partitions())
def test_every_change_of_a_partition_raises_its_epoch(record: model.PartitionRecord) -> None:
    assert record.changed(leader=BrokerId(9)).partition_epoch == record.partition_epoch + 1
