"""Three brokers whose metadata lies on etcd: they serve, fail over, and outlive the end of their etcd."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import penstock
from data_plane.contract import admin_pb2 as pb
from data_plane.dev import etcd_process
from data_plane.dev.layout import ETCD
from penstock.contract.topic_settings import TopicSettings
from tests.integration.dev_cluster import RunningCluster, running_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("etcd") / "cluster", metadata=ETCD) as running:
        yield running


def wait_for(what: str, holds: Callable[[], bool], cluster: RunningCluster) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"after {WITHIN_S:g} s still not: {what}\n{cluster.last_words()}")
        time.sleep(0.02)


def only(cluster: RunningCluster, topic_id: bytes) -> pb.DescribedPartition:
    (partition,) = cluster.partitions(topic_id)
    return partition


def send(cluster: RunningCluster, topic: str, values: range) -> None:
    with (
        penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client,
        client.producer() as producer,
    ):
        for delivery in [producer.send(topic, b"%d" % value) for value in values]:
            delivery.result(WITHIN_S)


def read(cluster: RunningCluster, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with (
        penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client,
        client.consumer(topic) as consumer,
    ):
        while len(found) < count and (messages := consumer.poll(max_messages=1_000, timeout=30)):
            found += [message.value for message in messages]
    return found


def test_what_was_acknowledged_outlives_the_leader_and_the_etcd(cluster: RunningCluster) -> None:
    topic_id = cluster.create_topic("kept", 1, TopicSettings())
    send(cluster, "kept", range(100))

    first = only(cluster, topic_id).leader
    cluster.kill([first])
    wait_for("another leader", lambda: only(cluster, topic_id).leader not in (0, -1, first), cluster)
    send(cluster, "kept", range(100, 200))

    assert cluster.cluster.kill_etcd() is not None
    assert etcd_process.find(cluster.directory) is None
    cluster.start_missing()
    assert etcd_process.find(cluster.directory) is not None
    wait_for("all in sync", lambda: len(only(cluster, topic_id).in_sync) == 3, cluster)
    send(cluster, "kept", range(200, 300))
    second = only(cluster, topic_id).leader
    cluster.kill([second])
    wait_for("a third leader", lambda: only(cluster, topic_id).leader not in (0, -1, second), cluster)

    assert read(cluster, "kept", 300) == [b"%d" % value for value in range(300)]
    cluster.start_missing()


def test_the_etcd_is_listed_and_another_store_is_refused(cluster: RunningCluster) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli", *arguments, "--data", str(cluster.directory.path)],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )

    seen = json.loads(command("--json", "dev", "status").stdout)["metadata"]
    process = etcd_process.find(cluster.directory)
    assert process is not None
    assert (seen["kind"], seen["state"], seen["pid"]) == ("etcd", "ready", process.pid)
    refused = command("dev", "up", "--bare", "--detach", "--metadata", "sqlite")
    assert refused.returncode != 0
    assert "keeps its metadata in etcd" in refused.stderr
