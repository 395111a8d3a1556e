"""Records and topics deleted on metered brokers: metered first, gone everywhere, never mixed with what comes after."""

from collections.abc import Iterator

import pytest

from penstock import Client, NotFound, OffsetOutOfRange
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import Tenant
from tests.integration.metering.usage import Metered, metered, totals_of
from tests.integration.raw_wire import call, with_key
from tests.integration.retention.logs import bounds, produce, read_all, segment_bases

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    """Brokers that read by themselves once an hour: what is deleted sooner was read because of that."""
    with metered(tmp_path_factory.mktemp("cluster"), reading_ms=3_600_000) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(usage: Metered) -> Tenant:
    return usage.cluster.tenant("tn_deleting")


@pytest.fixture(scope="module")
def client(usage: Metered, tenant: Tenant) -> Iterator[Client]:
    with usage.cluster.client(tenant) as client:
        yield client


def test_records_are_metered_then_gone_on_every_replica(
    usage: Metered, tenant: Tenant, client: Client
) -> None:
    topic_id = usage.cluster.create_topic(tenant, "shortened", segment_bytes=4_096)
    produce(client, "shortened", range(30))
    assert client.delete_records({("shortened", 0): 17}) == {("shortened", 0): 17}
    assert bounds(client, "shortened") == (17, 30)
    assert read_all(client, "shortened") == list(range(17, 30))
    readings = usage.readings(topic_id)
    assert readings[-1].end_offset >= 17
    assert totals_of(readings[-1]).committed_messages == readings[-1].end_offset
    usage.cluster.wait_until(
        "whole segments below it are gone everywhere",
        lambda: all(
            0 < bases[0] <= 17 < bases[1] for bases in segment_bases(usage.cluster, topic_id).values()
        ),
    )
    assert client.delete_records({("shortened", 0): 5}) == {("shortened", 0): 17}, "it never goes back"
    with pytest.raises(OffsetOutOfRange, match="at most those before 30 are committed"):
        client.delete_records({("shortened", 0): 31})
    assert client.delete_records({("shortened", 0): -1}) == {("shortened", 0): 30}
    assert bounds(client, "shortened") == (30, 30)
    produce(client, "shortened", range(30, 32))
    assert read_all(client, "shortened") == [30, 31]


def test_who_may_not_delete_is_told_so_and_learns_nothing(
    usage: Metered, tenant: Tenant, client: Client
) -> None:
    topic_id = usage.cluster.create_topic(tenant, "guarded")
    produce(client, "guarded", range(2))
    stranger = usage.cluster.tenant("tn_stranger")
    leader = usage.cluster.spec.broker(usage.cluster.leader(topic_id))
    request = pb.DeleteRecordsRequest()
    request.partitions.add(topic_id=topic_id, partition=0, leader_epoch=-1, before_offset=1)
    (told,) = call(
        leader.client_address,
        methods.DELETE_RECORDS,
        request,
        pb.DeleteRecordsResponse,
        with_key(stranger.api_key),
    ).partitions
    assert ErrorCode(told.error) is ErrorCode.NOT_FOUND
    with pytest.raises(NotFound), usage.cluster.client(stranger) as other:
        other.delete_records({("guarded", 0): 1})
    assert bounds(client, "guarded") == (0, 2)


def left_of(usage: Metered, topic_id: TopicId) -> list[str]:
    """Every file or directory with the topic's id in its name, on any broker."""
    return [
        str(path)
        for number in usage.cluster.ids
        for path in usage.cluster.directory.log_directory(number).rglob(f"*{topic_id.hex()}*")
    ]


def test_a_topic_made_again_under_its_name_holds_nothing_of_the_old_one_also_where_a_broker_was_down(
    usage: Metered, tenant: Tenant, client: Client
) -> None:
    cluster = usage.cluster
    old_id = cluster.create_topic(tenant, "again", segment_bytes=4_096)
    produce(client, "again", range(20))
    absent = next(number for number in cluster.ids if number != cluster.leader(old_id))
    present = [number for number in cluster.ids if number != absent]
    cluster.kill(absent)
    cluster.admin.delete_topic(tenant.name, "again")
    new_id = cluster.create_topic(tenant, "again", assignments=[[*present, absent]], segment_bytes=4_096)
    assert new_id != old_id
    produce(client, "again", range(6))
    cluster.start(absent)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(new_id))
    cluster.wait_until("nothing is left of the old one", lambda: not left_of(usage, old_id))
    assert bounds(client, "again") == (0, 6)
    assert read_all(client, "again") == list(range(6))
    for number in cluster.ids:
        files = cluster.partition_directory(number, TopicPartition(new_id, 0)).glob("*.log")
        assert 6_000 <= sum(file.stat().st_size for file in files) < 8_000, (
            "the same on the broker that was down"
        )
