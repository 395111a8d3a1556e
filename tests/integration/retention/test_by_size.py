"""Retention by size deletes in running brokers while readers sit at the start of the log."""

from collections.abc import Iterator

import pytest

from penstock import Client, OffsetOutOfRange
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.raw_wire import ConsumeWire
from tests.integration.retention.logs import (
    SEGMENT_BYTES,
    TIMINGS,
    bounds,
    number_of,
    produce,
    read_all,
    replicas_are_equal,
    segment_bases,
)
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

RETENTION_BYTES = 4 * SEGMENT_BYTES
KEPT_BYTES_MAX = RETENTION_BYTES + 2 * SEGMENT_BYTES
"""Whole segments go, and only while the rest is enough; the one being written never goes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    settings = {"timings": {**TIMINGS, "replica_lag_ms_max": 1_000}}
    with brokers(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_retained")


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def create(cluster: Brokers, tenant: Tenant, topic: str) -> TopicId:
    return cluster.create_topic(tenant, topic, segment_bytes=SEGMENT_BYTES, retention_bytes=RETENTION_BYTES)


def wait_until_trimmed(cluster: Brokers, topic_id: TopicId, beyond: int) -> None:
    """Until no broker's disk has a segment that begins at or below `beyond`, and all have the same ones."""

    def trimmed() -> bool:
        bases = list(segment_bases(cluster, topic_id).values())
        return all(found and found[0] > beyond and found == bases[0] for found in bases)

    cluster.wait_until(f"nothing is left below {beyond}", trimmed)


def segment_sizes(cluster: Brokers, topic_id: TopicId) -> list[list[int]]:
    """Sizes of the partition's log files on each broker's disk, oldest first. Raises `FileNotFoundError`."""
    places = [cluster.partition_directory(number, TopicPartition(topic_id, 0)) for number in cluster.ids]
    return [[file.stat().st_size for file in sorted(place.glob("*.log"))] for place in places]


def wait_until_ended(cluster: Brokers, topic_id: TopicId) -> None:
    """Until retention has nothing more to delete on any broker. It goes by steps, and each broker deletes by itself:
    what is seen before is neither the log's start nor what is kept for good.
    """

    def ended() -> bool:
        try:
            found = segment_sizes(cluster, topic_id)
        except FileNotFoundError:
            return False  # deleted between its listing and its reading
        return all(sum(sizes) - sizes[0] < RETENTION_BYTES for sizes in found)

    cluster.wait_until("retention has ended on every broker", ended)


def test_old_segments_are_deleted_everywhere_and_readers_at_the_start_are_told(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = create(cluster, tenant, "sized")
    produce(client, "sized", range(8))
    careful = client.consumer(["sized"], auto_offset_reset="error", partition_fetch_bytes=1)
    careful.seek("sized", to="beginning")
    lenient = client.consumer(["sized"], auto_offset_reset="earliest", partition_fetch_bytes=1)
    for reader in (careful, lenient):
        assert [number_of(message.value) for message in reader.poll(max_messages=1, timeout=PATIENCE_S)] == [
            0
        ]
    leader = cluster.spec.broker(cluster.leader(topic_id))
    with ConsumeWire(leader.client_address, tenant.api_key) as raw:
        raw.open(topic_id, 0, credit=1)
        (first,), _ = raw.pushes()
        assert (first.error, first.log_start_offset) == (ErrorCode.OK, 0)

        produce(client, "sized", range(8, 108))
        wait_until_ended(cluster, topic_id)

        raw.give_credit(1 << 20)
        pushes, batches = raw.pushes()
        while not pushes[0].error:
            assert batches == b""
            pushes, batches = raw.pushes()
    start, end = bounds(client, "sized")
    assert end == 108
    assert start > 60
    assert pushes[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert pushes[0].message == f"sized-0: offset 1, {start} to 108 are stored"

    # What was pushed before the deletion may still be handed out.
    told = None
    for _ in range(8):
        try:
            careful.poll(max_messages=1, timeout=PATIENCE_S)
        except OffsetOutOfRange as error:
            told = error
            break
    assert told is not None
    assert told.message.startswith("sized-0: ")
    assert "auto_offset_reset" in told.remedy
    careful.seek("sized", to="beginning")
    for reader in (careful, lenient):
        read: list[int] = []
        while not read or read[-1] < 107:
            read += [number_of(message.value) for message in reader.poll(timeout=5)]
        jumped = read[next(at for at, number in enumerate(read) if number >= start) :]
        assert jumped == list(range(start, 108))
        assert len(read) - len(jumped) < 8
    assert read_all(client, "sized") == list(range(start, 108))
    replicas_are_equal(cluster, topic_id, 108)

    for sizes in segment_sizes(cluster, topic_id):
        assert RETENTION_BYTES <= sum(sizes) <= KEPT_BYTES_MAX


@pytest.mark.slow
def test_what_was_deleted_stays_deleted_when_all_brokers_are_killed(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = create(cluster, tenant, "killed")
    produce(client, "killed", range(60))
    wait_until_ended(cluster, topic_id)
    start, _ = bounds(client, "killed")
    assert start > 20
    cluster.kill()
    cluster.start()
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    wait_until_ended(cluster, topic_id)
    again, end = bounds(client, "killed")
    assert (again >= start, end) == (True, 60)
    assert read_all(client, "killed") == list(range(again, 60))
    produce(client, "killed", range(60, 64))
    wait_until_ended(cluster, topic_id)
    replicas_are_equal(cluster, topic_id, 64)


@pytest.mark.slow
def test_a_follower_that_missed_the_deletion_starts_over_at_the_leaders_start(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = create(cluster, tenant, "missed")
    produce(client, "missed", range(8))
    absent = next(number for number in cluster.ids if number != cluster.leader(topic_id))
    cluster.kill(absent)
    produce(client, "missed", range(8, 108))
    present = [number for number in cluster.ids if number != absent]
    cluster.wait_until(
        "those present have deleted",
        lambda: all(segment_bases(cluster, topic_id)[number][0] > 60 for number in present),
    )
    assert segment_bases(cluster, topic_id)[absent][0] == 0
    cluster.start(absent)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    wait_until_ended(cluster, topic_id)
    start, end = bounds(client, "missed")
    assert read_all(client, "missed") == list(range(start, end))
    wait_until_trimmed(cluster, topic_id, 60)
    produce(client, "missed", range(108, 110))
    replicas_are_equal(cluster, topic_id, 110)
