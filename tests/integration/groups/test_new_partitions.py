"""Partitions that are added to a topic which a group reads already: nothing written to them is passed over."""

import pytest

from penstock import Message
from penstock.contract.topic_settings import TopicSettings
from tests.integration.brokers import Brokers, Tenant
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes


def read_at_latest(cluster: Brokers, tenant: Tenant, *topics: str, count: int) -> list[Message]:
    """What a member with the rule `latest` reads until it has all partitions and `count` messages."""
    read: list[Message] = []
    with (
        cluster.client(tenant) as client,
        client.consumer(list(topics), group="readers", auto_offset_reset="latest") as member,
    ):

        def enough() -> bool:
            read[len(read) :] = member.poll(timeout=0.2)
            return bool(member.assignment()) and len(read) >= count

        cluster.wait_until(f"{count} are read", enough)
        for place in member.assignment():
            # Where the rule lets it begin is known from then on, and committed at its end.
            member.position(*place, timeout=PATIENCE_S)
        read += member.poll(timeout=0.5)
    return read


def test_what_was_written_before_the_group_knew_of_a_partition_is_read(cluster: Brokers) -> None:
    tenant = cluster.tenant("growing")
    topic_id = cluster.create_topic(tenant, "orders")
    cluster.create_topic(tenant, "history")
    with cluster.client(tenant) as client, client.producer() as producer:
        for topic in ("orders", "history"):
            producer.send(topic, b"old").result(PATIENCE_S)
    assert read_at_latest(cluster, tenant, "orders", count=0) == []

    settings = TopicSettings(replication=3, min_insync_replicas=2)
    outcome = cluster.admin.update_topic(tenant.name, topic_id, settings, [cluster.ids], generation=2)
    cluster.admin.wait_until_seen(outcome)
    cluster.wait_until("the new partition is led", lambda: cluster.whole(topic_id))
    with cluster.client(tenant) as client, client.producer() as producer:
        for number in range(5):
            producer.send("orders", b"%d" % number, partition=1).result(PATIENCE_S)

    read = read_at_latest(cluster, tenant, "orders", "history", count=5)
    assert [(m.topic, m.partition, m.value) for m in read] == [
        ("orders", 1, b"%d" % number) for number in range(5)
    ], "and nothing of the topic that the group has never read"
