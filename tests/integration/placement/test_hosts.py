"""Brokers that share a host: no two copies of a partition there, and an operator hears of a host in two zones."""

from pathlib import Path

import pytest

from tests.integration.brokers import brokers

pytestmark = [pytest.mark.processes, pytest.mark.slow]

WARNING = "host y is in zone a by broker 2 and in zone b by broker 3"
GAUGE = "penstock_failure_domain_wrong"


def test_brokers_of_one_host_share_no_partition_and_a_host_in_two_zones_is_reported(tmp_path: Path) -> None:
    own = {
        1: {"zone": "a", "host": "x"},
        2: {"zone": "a", "host": "y"},
        3: {"zone": "b", "host": "y"},
    }
    with brokers(tmp_path, own=own) as cluster:
        seen = {b.id: (b.zone, b.host) for b in cluster.admin.describe_cluster().brokers}
        assert seen == {1: ("a", "x"), 2: ("a", "y"), 3: ("b", "y")}
        tenant = cluster.tenant("tn_hosts")
        topic_id = cluster.create_topic(tenant, "orders", partitions=6, replication=2)
        assert all(not {2, 3} <= set(found.replicas) for found in cluster.partitions(topic_id))
        cluster.wait_until("broker 3 warns", lambda: WARNING in cluster.http(3, "/readyz")[1])
        assert [cluster.metric(number, GAUGE) for number in (1, 2, 3)] == [0, 0, 1]
        with cluster.client(tenant) as client:
            assert {b.broker: b.host for b in client.brokers()} == {1: "x", 2: "y", 3: "y"}
        cluster.kill(3)
        cluster.own[3] = {"zone": "a", "host": "y"}
        cluster.start(3)
        cluster.wait_until("the warning is gone", lambda: cluster.metric(3, GAUGE) == 0)
        cluster.wait_until("and on its health", lambda: "host y" not in cluster.http(3, "/readyz")[1])
