"""Retention by time deletes in running brokers whose clock is told to jump, and believes no clock that jumps alone."""

import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from penstock import Client, OffsetOutOfRange
from penstock.contract.ids import TopicId
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.retention.hurried_broker import HOUR_MS
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

TWO_HOURS_PASS = signal.SIGUSR1
WALL_CLOCK_SET_A_YEAR_AHEAD = signal.SIGUSR2


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    module = "tests.integration.retention.hurried_broker"
    path = tmp_path_factory.mktemp("cluster")
    with brokers(path, settings={"timings": TIMINGS}, module=module) as running:
        yield running


@pytest.fixture
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_retained")


@pytest.fixture
def client(cluster: Brokers, tenant: Tenant) -> Iterator[Client]:
    with cluster.client(tenant) as client:
        yield client


def wait_for_a_look(cluster: Brokers, tenant: Tenant, client: Client, topic: str) -> None:
    """Until every broker has looked at retention once more: each leads a topic too large, and has deleted of it."""
    for leader in cluster.ids:
        name = f"{topic}-seen-by-{leader}"
        others = [number for number in cluster.ids if number != leader]
        topic_id = cluster.create_topic(
            tenant, name, assignments=[[leader, *others]], segment_bytes=SEGMENT_BYTES, retention_bytes=1
        )
        produce(client, name, range(12))
        cluster.wait_until(f"broker {leader} has looked", partial(has_begun_later, cluster, topic_id))


def has_begun_later(cluster: Brokers, topic_id: TopicId) -> bool:
    return first_base(cluster, topic_id) > 0


def first_base(cluster: Brokers, topic_id: TopicId) -> int:
    """The lowest base offset of a segment on any disk."""
    return min(bases[0] for bases in segment_bases(cluster, topic_id).values())


@pytest.mark.slow
def test_what_is_too_old_is_deleted_everywhere_and_a_reader_at_the_start_is_told(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = cluster.create_topic(tenant, "aged", segment_ms=HOUR_MS, retention_ms=HOUR_MS)
    careful = client.consumer(["aged"], auto_offset_reset="error")
    careful.seek("aged", to="beginning")
    produce(client, "aged", range(5))
    assert [number_of(message.value) for message in careful.poll(max_messages=1, timeout=PATIENCE_S)] == [0]
    cluster.signal(TWO_HOURS_PASS)
    produce(client, "aged", range(5, 10))
    assert segment_bases(cluster, topic_id) == {number: [0, 5] for number in cluster.ids}
    wait_for_a_look(cluster, tenant, client, "closed-just-now")
    assert bounds(client, "aged") == (0, 10)

    cluster.signal(TWO_HOURS_PASS)
    cluster.wait_until("the old segment is gone", lambda: first_base(cluster, topic_id) == 5)
    assert bounds(client, "aged") == (5, 10)
    assert read_all(client, "aged") == [5, 6, 7, 8, 9]
    careful.seek("aged", offset=1)
    with pytest.raises(OffsetOutOfRange, match="aged-0: ") as told:
        careful.poll(timeout=PATIENCE_S)
    assert "is before the log's start 5" in told.value.message
    produce(client, "aged", range(10, 12))
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    replicas_are_equal(cluster, topic_id, 12)


@pytest.mark.slow
def test_a_wall_clock_that_is_set_a_year_ahead_deletes_nothing(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    topic_id = cluster.create_topic(
        tenant, "kept", segment_bytes=SEGMENT_BYTES, retention_ms=HOUR_MS, retention_bytes=-1
    )
    produce(client, "kept", range(12))
    before = segment_bases(cluster, topic_id)
    assert len(before[1]) > 2
    wait_for_a_look(cluster, tenant, client, "before")
    cluster.signal(WALL_CLOCK_SET_A_YEAR_AHEAD)
    wait_for_a_look(cluster, tenant, client, "after")
    assert segment_bases(cluster, topic_id) == before
    assert bounds(client, "kept") == (0, 12)
    assert read_all(client, "kept") == list(range(12))


@pytest.mark.slow
def test_a_broker_whose_clock_differs_from_the_others_says_so_and_deletes_nothing_for_its_age(
    cluster: Brokers, tenant: Tenant, client: Client
) -> None:
    by_age: dict[str, Any] = {"segment_ms": HOUR_MS, "retention_ms": HOUR_MS}
    one_copy: dict[str, Any] = {"assignments": [[1]], "replication": 1, "min_insync_replicas": 1}
    topic_id = cluster.create_topic(tenant, "odd", assignments=[[1, 2, 3]], **by_age)
    alone = cluster.create_topic(tenant, "alone", **one_copy, **by_age)
    for topic in ("odd", "alone"):
        produce(client, topic, range(5))
    cluster.signal(TWO_HOURS_PASS)
    for topic in ("odd", "alone"):
        produce(client, topic, range(5, 10))
    assert segment_bases(cluster, topic_id) == {number: [0, 5] for number in cluster.ids}
    assert segment_bases(cluster, alone)[1] == [0, 5]
    wait_for_a_look(cluster, tenant, client, "closed")
    cluster.signal(TWO_HOURS_PASS, 1)

    def told(number: int) -> bool:
        return '"clock"' in cluster.http(number, "/readyz")[1]

    cluster.wait_until("broker 1 is told that its clock is off", lambda: told(1))
    assert cluster.metric(1, "penstock_clock_trusted") == 0
    assert abs(cluster.metric(1, "penstock_clock_off_ms") - 2 * HOUR_MS) < 60_000
    cluster.wait_until("the others are not", lambda: not told(2) and not told(3))
    cluster.wait_until("broker 1 leads only what nobody else can", lambda: cluster.leader(topic_id) != 1)
    assert cluster.leader(alone) == 1
    looked = cluster.create_topic(
        tenant, "looked", **one_copy, segment_bytes=SEGMENT_BYTES, retention_bytes=1
    )
    produce(client, "looked", range(12))
    cluster.wait_until("broker 1 has looked", lambda: segment_bases(cluster, looked)[1][0] > 0)
    assert segment_bases(cluster, topic_id) == {number: [0, 5] for number in cluster.ids}
    assert segment_bases(cluster, alone)[1] == [0, 5]
    assert bounds(client, "odd") == bounds(client, "alone") == (0, 10)

    cluster.signal(TWO_HOURS_PASS, 2, 3)
    cluster.wait_until("the clocks agree", lambda: not any(told(number) for number in cluster.ids))
    cluster.wait_until("the old segment is gone", lambda: first_base(cluster, topic_id) == 5)
    cluster.wait_until("the other one too", lambda: segment_bases(cluster, alone)[1] == [5])
    assert read_all(client, "odd") == read_all(client, "alone") == [5, 6, 7, 8, 9]
