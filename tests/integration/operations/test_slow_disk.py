"""A disk whose syncs do not end: its broker steps aside before anybody's time is up, and comes back (RL133)."""

import signal
from collections.abc import Iterator

import pytest

from tests.integration.brokers import Brokers, brokers
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

SLOW, FAST, HANGING = signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP
TIMINGS = {"slow_sync_ms": 500, "replica_lag_ms_max": 600_000}
"""Nobody is dropped for lagging: who leaves does so by itself."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    path, module = tmp_path_factory.mktemp("cluster"), "tests.integration.operations.slow_broker"
    with brokers(path, settings={"timings": TIMINGS}, module=module) as running:
        yield running


def test_a_broker_with_a_slow_disk_hands_over_leaves_and_comes_back(cluster: Brokers) -> None:
    tenant = cluster.tenant("tn_slow")
    topic_id = cluster.create_topic(tenant, "slowed", 2, assignments=[[1, 2, 3], [2, 1, 3]])
    cluster.wait_until("broker 1 leads one", lambda: cluster.leader(topic_id, 0) == 1)
    pids = cluster.pids()
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        for partition in (0, 1):
            producer.send("slowed", b"before", partition=partition).result(PATIENCE_S)
        cluster.signal(SLOW, 1)
        # The first slow sync may end after a moment, and what comes together with it needs no sync of its own.
        assert producer.send("slowed", b"first", partition=0).result(PATIENCE_S).offset == 1
        late = [producer.send("slowed", b"late", partition=partition) for partition in (0, 1)]
        cluster.wait_until(
            "broker 1 is neither leader nor in sync",
            lambda: all(1 not in (p.leader, *p.in_sync) for p in cluster.partitions(topic_id)),
        )
        assert [delivery.result(PATIENCE_S).offset for delivery in late] == [2, 1]
        cluster.wait_until("it says so", lambda: "slow disk" in cluster.http(1, "/readyz")[1])
        assert cluster.metric(1, "penstock_stepped_aside_total") >= 2
        cluster.signal(FAST, 1)
        cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
        cluster.wait_until("it is no longer told", lambda: "slow disk" not in cluster.http(1, "/readyz")[1])
        after = [producer.send("slowed", b"after", partition=partition) for partition in (0, 1)]
        assert [delivery.result(PATIENCE_S).offset for delivery in after] == [3, 2]
    assert cluster.pids() == pids


def test_a_broker_whose_disk_hangs_from_one_sync_to_the_next_is_left_out_and_comes_back(
    cluster: Brokers,
) -> None:
    """Its event loop stands still for that sync, so the others count it as dead (RL137)."""
    tenant = cluster.tenant("tn_hangs")
    topic_id = cluster.create_topic(tenant, "hung", 2, assignments=[[1, 2, 3], [2, 1, 3]])
    cluster.wait_until("broker 1 leads one", lambda: cluster.leader(topic_id, 0) == 1)
    pids = cluster.pids()
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
        for partition in (0, 1):
            producer.send("hung", b"before", partition=partition).result(PATIENCE_S)
        cluster.signal(HANGING, 1)
        late = [producer.send("hung", b"late", partition=partition) for partition in (0, 1)]
        assert [delivery.result(PATIENCE_S).offset for delivery in late] == [1, 1]
        assert all(1 not in (one.leader, *one.in_sync) for one in cluster.partitions(topic_id))
        cluster.signal(FAST, 1)
        cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
        for partition in (0, 1):
            assert producer.send("hung", b"after", partition=partition).result(PATIENCE_S).offset == 2
    assert cluster.pids() == pids
