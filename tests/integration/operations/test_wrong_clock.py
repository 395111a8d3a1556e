"""A broker whose clock is hours behind hands over what it leads: it would refuse messages for their time for good."""

from pathlib import Path

import pytest

from hosts.stepping_broker import FILE_VARIABLE, step
from tests.integration.brokers import brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TWO_HOURS_MS = 2 * 3600 * 1000


def test_a_broker_far_behind_leads_nothing_until_its_clock_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, right = tmp_path / "clock", tmp_path / "right"
    for file in (clock, right):
        step(file, 0)
    monkeypatch.setenv(FILE_VARIABLE, str(right))
    with brokers(tmp_path / "cluster", module="hosts.stepping_broker") as cluster:
        tenant = cluster.tenant("tn_clock")
        topic_id = cluster.create_topic(tenant, "orders", assignments=[[1, 2, 3]])
        cluster.kill(1)
        monkeypatch.setenv(FILE_VARIABLE, str(clock))
        cluster.start(1)
        cluster.wait_until("broker 1 leads again", lambda: cluster.leader(topic_id) == 1)
        step(clock, -TWO_HOURS_MS)
        cluster.wait_until("another one leads", lambda: cluster.leader(topic_id) in (2, 3))
        told = "leads nothing that another one can lead"
        cluster.wait_until("an operator is told", lambda: told in cluster.http(1, "/readyz")[1])
        with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:
            assert producer.send("orders", b"taken").result(PATIENCE_S).offset == 0
        cluster.wait_until("it is a replica in sync", lambda: cluster.whole(topic_id))
        step(clock, 0)
        cluster.wait_until("broker 1 leads again", lambda: cluster.leader(topic_id) == 1)
