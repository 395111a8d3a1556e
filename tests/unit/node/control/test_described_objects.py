"""The cluster in pages: each object and partition comes once, in order, wherever a page ends."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Event, KeyValue, WatchBatch
from data_plane.node.control import cluster_pages
from data_plane.node.ports import CallFailed
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.principal_limits import PrincipalLimits, limits_digest


def image(tenants: int, topics: int, keys: int, partitions: int = 1) -> ClusterImage:
    made = ClusterImage()
    items = []
    for number in range(tenants):
        tenant = model.TenantRecord(tenant=TenantId(f"tn_{number:03d}"), generation=number)
        items.append((model.tenant_key(tenant.tenant), tenant.encode()))
    for number in range(topics):
        topic = model.TopicRecord(
            topic_id=TopicId(bytes([255 - number]) * 16), tenant=TenantId("t"), name="n", partitions=1,
            settings=TopicSettings(),
        )  # fmt: skip
        items.append((model.topic_key(topic.topic_id), topic.encode()))
        records = {
            partition: model.PartitionRecord(
                partition=partition, replicas=(BrokerId(1),), replica_generations=(1,), leader=BrokerId(1)
            )
            for partition in range(partitions)
        }
        items.append((model.block_key(topic.topic_id, 0), model.encode_block(records)))
    for number in range(keys):
        key = model.KeyRecord(
            key_id=f"key{number:03d}", tenant=TenantId("t"), name="", principal=number, pepper_version=1,
            secret_hmac="", scram={}, bindings=(model.Binding(topic_prefix="a"),),
        )  # fmt: skip
        items.append((model.credential_key(key.key_id), key.encode()))
    made.load([KeyValue(key, value, 1) for key, value in items], 1)
    return made


@pytest.mark.parametrize("page", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("counts", [(4, 5, 3), (0, 5, 0), (3, 0, 2), (0, 0, 0), (5, 5, 5)])
def test_pages_hold_every_object_and_partition_once(
    monkeypatch: pytest.MonkeyPatch, page: int, counts: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(cluster_pages, "PAGE_ITEMS", page)
    wanted = image(*counts, partitions=2)
    whole = pb.DescribeClusterResponse()
    after, pages = "", 0
    while True:
        answer = pb.DescribeClusterResponse()
        after = cluster_pages.add_page(answer, wanted, after, objects=True, partitions=True)
        objects = len(answer.tenants) + len(answer.topics) + len(answer.keys)
        assert objects + len(answer.partitions) <= page + 1, "two partitions of a topic stay together"
        whole.MergeFrom(answer)
        pages += 1
        if not after:
            break
        assert pages < 100
    assert [each.tenant for each in whole.tenants] == sorted(wanted.tenants)
    assert [each.topic_id for each in whole.topics] == sorted(wanted.topics)
    assert [each.key_id for each in whole.keys] == sorted(wanted.keys)
    assert [(each.topic_id, each.partition) for each in whole.partitions] == [
        (topic_id, partition) for topic_id in sorted(wanted.topics) for partition in (0, 1)
    ]


def test_what_is_not_asked_for_is_not_listed() -> None:
    for objects, partitions in ((True, False), (False, True), (False, False)):
        answer = pb.DescribeClusterResponse()
        assert (
            cluster_pages.add_page(answer, image(2, 2, 2), "", objects=objects, partitions=partitions) == ""
        )
        assert (bool(answer.topics), bool(answer.partitions)) == (objects, partitions)


@pytest.mark.parametrize("after", ["brokers/1", "partitions/", "x"])
def test_a_place_where_no_page_ends_is_refused(after: str) -> None:
    with pytest.raises(CallFailed, match="no page of this service ends there"):
        cluster_pages.add_page(pb.DescribeClusterResponse(), image(1, 1, 1), after, objects=True)


def test_what_comes_and_goes_between_two_pages_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_pages, "PAGE_ITEMS", 2)
    wanted = image(0, 0, 5)
    first = pb.DescribeClusterResponse()
    after = cluster_pages.add_page(first, wanted, "", objects=True)
    wanted.apply(WatchBatch(2, (Event(model.credential_key("key001"), None, 2),)))
    rest = pb.DescribeClusterResponse()
    while after:
        after = cluster_pages.add_page(rest, wanted, after, objects=True)
    assert [key.key_id for key in first.keys] == ["key000", "key001"]
    assert [key.key_id for key in rest.keys] == ["key002", "key003", "key004"]


@pytest.mark.pure  # a function is replaced
def test_limits_of_accounts_are_digested_once_and_fill_a_page_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {f"service_account:sa_{n:04d}": PrincipalLimits(requests_per_s=n + 1) for n in range(1_000)}
    made = ClusterImage()
    records = [model.TenantRecord(tenant=TenantId(f"tn_{n:03d}"), principals=limits) for n in range(40)]
    made.load([KeyValue(model.tenant_key(one.tenant), one.encode(), 1) for one in records], 1)
    made_digests: list[int] = []

    def counted(asked: Mapping[str, PrincipalLimits]) -> str:
        made_digests.append(len(asked))
        return limits_digest(asked)

    monkeypatch.setattr(model, "limits_digest", counted)
    for _ in range(2):
        answer = pb.DescribeClusterResponse()
        assert cluster_pages.add_page(answer, made, "", objects=True)
        assert {one.principal_limits_digest for one in answer.tenants} == {limits_digest(limits)}
        assert len(answer.tenants) == -(-cluster_pages.PAGE_ITEMS // 21)
    assert made_digests == [1_000] * -(-cluster_pages.PAGE_ITEMS // 21)


def test_a_record_with_other_limits_has_another_digest_and_keeps_none_in_the_store() -> None:
    one = model.TenantRecord(tenant=TenantId("t"), principals={"a": PrincipalLimits(requests_per_s=1)})
    before, stored = one.principals_digest, one.encode()
    other = replace(one, principals={"a": PrincipalLimits(requests_per_s=2)})
    assert other.principals_digest == limits_digest(other.principals) != before
    assert b"digest" not in stored and model.TenantRecord.decode(stored) == one
    assert replace(one, principals={}).principals_digest == ""


def test_the_digest_of_limits_is_the_one_that_control_planes_of_before_know() -> None:
    limits = {
        "b": PrincipalLimits(requests_per_s=3),
        "a": PrincipalLimits(produce_bytes_per_s=1, consume_bytes_per_s=2),
    }
    assert limits_digest(limits) == hashlib.sha256(b'[["a",1,2,0],["b",0,0,3]]').hexdigest()
