"""Objects of the metadata in pages: each comes once, in order, whatever the page's end."""

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.node.control import admin_calls
from data_plane.node.ports import CallFailed
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings


def image(tenants: int, topics: int, keys: int) -> ClusterImage:
    made = ClusterImage()
    for number in range(tenants):
        tenant = TenantId(f"tn_{number:03d}")
        made.tenants[tenant] = model.TenantRecord(tenant=tenant, generation=number)
    for number in range(topics):
        topic_id = TopicId(bytes([255 - number]) * 16)
        made.topics[topic_id] = model.TopicRecord(
            topic_id=topic_id, tenant=TenantId("t"), name="n", partitions=1, settings=TopicSettings()
        )
    for number in range(keys):
        made.keys[f"key{number:03d}"] = model.KeyRecord(
            key_id=f"key{number:03d}", tenant=TenantId("t"), name="", principal=number, pepper_version=1,
            secret_hmac="", scram={}, bindings=(model.Binding(topic_prefix="a"),),
        )  # fmt: skip
    return made


@pytest.mark.parametrize("page", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("counts", [(4, 5, 3), (0, 5, 0), (3, 0, 2), (0, 0, 0), (5, 5, 5)])
def test_pages_hold_every_object_once(
    monkeypatch: pytest.MonkeyPatch, page: int, counts: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(admin_calls, "OBJECTS_PER_ANSWER", page)
    wanted = image(*counts)
    tenants: list[str] = []
    topics: list[bytes] = []
    keys: list[str] = []
    after, pages = "", 0
    while True:
        answer = pb.DescribeClusterResponse()
        after = admin_calls._add_objects(answer, wanted, after)
        assert len(answer.tenants) + len(answer.topics) + len(answer.keys) <= page
        tenants += [each.tenant for each in answer.tenants]
        topics += [each.topic_id for each in answer.topics]
        keys += [each.key_id for each in answer.keys]
        pages += 1
        if not after:
            break
        assert pages < 100
    assert tenants == sorted(wanted.tenants)
    assert topics == sorted(wanted.topics)
    assert keys == sorted(wanted.keys)


def test_a_place_that_nobody_named_is_refused() -> None:
    with pytest.raises(CallFailed, match="not a place"):
        admin_calls._add_objects(pb.DescribeClusterResponse(), image(1, 1, 1), "brokers/1")
