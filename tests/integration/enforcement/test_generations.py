"""Admin calls on real brokers: late ones change nothing, repeated ones are answered alike, limits are exact."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_calls import Outrun
from penstock.contract.errors import AlreadyExists, ErrorCode, LimitExceeded, NotFound
from penstock.contract.topic_settings import TopicSettings
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import Refused, call

pytestmark = pytest.mark.processes

SETTINGS = TopicSettings(replication=3, min_insync_replicas=2)
WIDER = TopicSettings(replication=3, min_insync_replicas=1, retention_ms=3_600_000, max_message_bytes=1000)
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def test_a_topic_goes_through_its_life_and_nothing_late_or_repeated_changes_it(
    cluster: Brokers, tenant: Tenant
) -> None:
    admin, name = cluster.admin, tenant.name
    chosen = os.urandom(16)
    first = admin.create_topic(name, "orders", SETTINGS, PLACES[:2], generation=3, topic_id=chosen)
    again = admin.create_topic(name, "orders", SETTINGS, PLACES[:2], generation=3, topic_id=chosen)
    assert first.topic_id == again.topic_id == chosen
    with pytest.raises(AlreadyExists, match="'orders' exists"):
        admin.create_topic(name, "orders", SETTINGS, PLACES[:2], generation=1, topic_id=os.urandom(16))

    with pytest.raises(Outrun):
        admin.update_topic(name, chosen, SETTINGS, generation=2)
    outcome = admin.update_topic(name, chosen, WIDER, PLACES[2:], generation=4)
    admin.update_topic(name, chosen, WIDER, PLACES[2:], generation=4)
    admin.wait_until_seen(outcome)
    topic = admin.describe_topic(topic_id=chosen)
    assert admin.describe_topic(tenant=name, name="orders") == topic
    assert (topic.partitions, topic.generation) == (3, 4)
    assert TopicSettings.from_dict(json.loads(topic.settings_json)) == WIDER
    with cluster.client(tenant) as client, client.consumer(["orders"]) as consumer:
        assert len(consumer.end_offsets()) == 3

    admin.delete_topic(name, "orders", generation=5, topic_id=chosen)
    admin.delete_topic(name, "orders", generation=5, topic_id=chosen)
    late = pb.CreateTopicRequest(
        tenant=name,
        name="orders",
        settings_json=json.dumps(SETTINGS.to_dict()),
        assignments=[pb.Assignment(brokers=PLACES[0])],
        generation=4,
        topic_id=chosen,
    )
    for broker in cluster.spec.brokers:
        answer = call(
            broker.internal_address,
            methods.CREATE_TOPIC,
            late,
            pb.CreateTopicResponse,
            cluster.operator,
        )
        assert (answer.outcome.error, answer.outcome.ignored) == (0, True)
    for named in ({"topic_id": chosen}, {"tenant": name, "name": "orders"}):
        with pytest.raises(NotFound, match="does not exist"):
            admin.describe_topic(**named)

    other = admin.create_topic(name, "orders", SETTINGS, PLACES[:1], generation=1).topic_id
    assert other != chosen
    admin.delete_topic(name, "orders", generation=6, topic_id=chosen)
    assert admin.describe_topic(topic_id=other).name == "orders", (
        "a deletion holds for the topic of its id alone"
    )


def test_a_deletion_and_a_revocation_that_come_first_hold(cluster: Brokers, tenant: Tenant) -> None:
    admin, chosen = cluster.admin, os.urandom(16)
    admin.delete_topic(tenant.name, "never", generation=2, topic_id=chosen)
    request = pb.CreateTopicRequest(
        tenant=tenant.name, name="never", settings_json="{}", generation=1, topic_id=chosen,
        assignments=[pb.Assignment(brokers=PLACES[0])],
    )  # fmt: skip
    address = cluster.spec.brokers[0].internal_address
    answer = call(address, methods.CREATE_TOPIC, request, pb.CreateTopicResponse, cluster.operator)
    assert answer.outcome.ignored
    admin.revoke_key("Z" * 12, generation=2)
    put = pb.PutKeyRequest(
        key_id="Z" * 12,
        tenant=tenant.name,
        name="late",
        pepper_version=1,
        secret_hmac=bytes(32),
        generation=1,
    )
    key = call(address, methods.PUT_KEY, put, pb.PutKeyResponse, cluster.operator)
    assert (key.outcome.error, key.outcome.ignored, key.principal) == (0, True, 0)


def test_another_tenants_topic_cannot_be_changed(cluster: Brokers, tenant: Tenant) -> None:
    stranger = cluster.tenant(f"{tenant.name}x")
    topic_id = cluster.create_topic(tenant, "mine")
    with pytest.raises(NotFound):
        cluster.admin.update_topic(stranger.name, topic_id, WIDER, generation=9)
    with pytest.raises(NotFound):
        cluster.admin.delete_topic(stranger.name, "mine", topic_id=topic_id, generation=9)


def test_many_topics_at_once_over_all_brokers_never_pass_the_partition_limit(
    cluster: Brokers, tenant: Tenant
) -> None:
    limit = 10
    cluster.admin.wait_until_seen(cluster.admin.put_tenant(tenant.name, generation=1, partitions_max=limit))

    def create(number: int) -> int:
        broker = cluster.spec.brokers[number % 3]
        with AdminClient([broker.internal_address], cluster.operator) as admin:
            try:
                admin.create_topic(tenant.name, f"t{number}", SETTINGS, PLACES[:2])
            except LimitExceeded as refusal:
                assert f"partitions_max of the tenant is {limit}" in refusal.message
                return 0
        return 2

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(create, range(24))) == limit
    with pytest.raises(LimitExceeded, match="10 are used and 1 more"):
        cluster.admin.create_topic(tenant.name, "one-more", SETTINGS, PLACES[:1])
    cluster.admin.put_tenant(tenant.name, generation=2, partitions_max=limit + 1)
    cluster.admin.create_topic(tenant.name, "one-more", SETTINGS, PLACES[:1])
    cluster.admin.delete_topic(tenant.name, "one-more")
    cluster.admin.create_topic(tenant.name, "instead", SETTINGS, PLACES[:1])


def test_objects_are_described_with_their_generations(cluster: Brokers, tenant: Tenant) -> None:
    admin = cluster.admin
    admin.put_tenant(tenant.name, generation=7, produce_bytes_per_s=5, partitions_max=6)
    with pytest.raises(Outrun):
        admin.put_tenant(tenant.name, generation=6, produce_bytes_per_s=1)
    objects = admin.describe_cluster(objects=True)
    (known,) = [each for each in objects.tenants if each.tenant == tenant.name]
    assert (known.generation, known.quotas.produce_bytes_per_s, known.quotas.partitions_max) == (7, 5, 6)
    assert [key.tenant for key in objects.keys if key.key_id == tenant.key_id] == [tenant.name]
    admin.put_tenant(tenant.name)
    assert known in admin.describe_cluster(objects=True).tenants


def test_a_broker_asked_for_a_revision_that_it_has_not_seen_waits_and_then_answers_retriable(
    cluster: Brokers,
) -> None:
    seen = cluster.admin.describe_cluster().revision
    request = pb.DescribeClusterRequest(min_revision=seen + 1_000_000)
    began = time.monotonic()
    with pytest.raises(Refused, match="was asked for") as refused:
        call(
            cluster.spec.brokers[0].internal_address,
            methods.DESCRIBE_CLUSTER,
            request,
            pb.DescribeClusterResponse,
            cluster.operator,
        )
    assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE
    assert 1.5 < time.monotonic() - began < 60
