"""Whose callers a change of the metadata may tell something new: brokers' are everybody's, topics' their tenant's."""

import pytest

from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

MINE, OTHER = TenantId("tn_a"), TenantId("tn_b")
OWN, FOREIGN, GONE = (TopicId(bytes([number]) * 16) for number in (1, 2, 3))


@pytest.fixture
def image() -> ClusterImage:
    made = ClusterImage()
    for topic_id, tenant in ((OWN, MINE), (FOREIGN, OTHER)):
        made.topics[topic_id] = model.TopicRecord(
            topic_id=topic_id, tenant=tenant, name="orders", partitions=1, settings=TopicSettings()
        )
    for key_id, tenant in (("own", MINE), ("foreign", OTHER)):
        made.keys[key_id] = model.KeyRecord(
            key_id=key_id, tenant=tenant, name="app", principal=1, pepper_version=1, secret_hmac="", scram={}
        )
    return made


@pytest.mark.parametrize(
    "key",
    [
        broker_records.live_key(1),
        broker_records.broker_key(1),
        broker_records.cordon_key(1),
        broker_records.CONTROLLER_KEY,
        broker_records.CLUSTER_KEY,
        model.topic_key(OWN),
        model.block_key(OWN, 250),
        model.tenant_key(MINE),
        model.name_key(MINE, "orders"),
        model.name_key(MINE, "tn_b"),
        model.credential_key("own"),
        model.credential_key("gone"),
    ],
)
def test_what_may_be_of_a_tenant_concerns_it(image: ClusterImage, key: str) -> None:
    assert image.concerns(key, MINE)


@pytest.mark.parametrize(
    "key",
    [
        model.topic_key(FOREIGN),
        model.block_key(FOREIGN, 0),
        model.tombstone_key(GONE),
        model.final_key(FOREIGN, 7),
        model.loss_key(FOREIGN, 0, 1),
        model.tenant_key(OTHER),
        model.tenant_key("tn_a2"),
        model.name_key(OTHER, "tn_a"),
        model.cut_key(OTHER),
        model.kept_cut_key(OTHER, 5),
        model.use_key(OTHER),
        model.credential_key("foreign"),
    ],
)
def test_what_is_another_tenants_concerns_nobody_else(image: ClusterImage, key: str) -> None:
    assert not image.concerns(key, MINE)
    assert image.concerns(key, OTHER) or key in (model.tombstone_key(GONE), model.tenant_key("tn_a2"))
