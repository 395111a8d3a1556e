"""A running cluster of real broker processes in a folder of the test's own, and what tests ask of it."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from control_plane.placement.planner import BrokerView, plan
from data_plane.contract import admin_pb2 as pb
from data_plane.dev import processes
from data_plane.dev.admin_client import AdminClient
from data_plane.dev.cluster import DevCluster
from data_plane.dev.layout import ClusterSpec, DataDirectory
from data_plane.dev.profile import read_api_key
from data_plane.dev.provisioning import admin_of
from penstock.contract.topic_settings import TopicSettings


class RunningCluster:
    """Brokers, their addresses and a tenant's key. Times in seconds."""

    def __init__(self, cluster: DevCluster, spec: ClusterSpec, admin: AdminClient) -> None:
        self.cluster, self.spec, self.admin = cluster, spec, admin
        self.directory = cluster.directory
        self.bootstrap = [broker.client_address for broker in spec.brokers]
        self.api_key = read_api_key(cluster.directory) or ""

    def create_topic(self, name: str, partitions: int, settings: TopicSettings) -> bytes:
        """Create a topic on the planner's assignment; returns its id."""
        brokers = [
            BrokerView(id=b.id, zone=b.zone, replicas=b.replicas, leaders=b.leaders, state=b.state)
            for b in self.admin.describe_cluster().brokers
        ]
        assignments = plan(partitions, settings.replication, brokers)
        topic_id, revision = self.admin.create_topic(self.spec.tenant, name, settings, assignments)
        self.admin.wait_until_seen(revision)
        return topic_id

    def partitions(self, topic_id: bytes) -> list[pb.DescribedPartition]:
        """The topic's partitions as the cluster sees them."""
        described = self.admin.describe_cluster(partitions=True)
        return [partition for partition in described.partitions if partition.topic_id == topic_id]

    def kill(self, brokers: Sequence[int]) -> None:
        """SIGKILL, all as nearly at once as can be."""
        for number in brokers:
            self._signal(number, signal.SIGKILL)
        processes.wait_gone([self.directory.config_file(number) for number in brokers], 10)

    def pause(self, brokers: Sequence[int]) -> None:
        """SIGSTOP."""
        for number in brokers:
            self._signal(number, signal.SIGSTOP)

    def resume(self, brokers: Sequence[int]) -> None:
        """SIGCONT."""
        for number in brokers:
            self._signal(number, signal.SIGCONT)

    def start_missing(self) -> None:
        """Start every broker that does not run, and wait until all are ready."""
        self.cluster.up(None, _silent)

    def _signal(self, number: int, what: signal.Signals) -> None:
        process = processes.find(self.directory.config_file(number))
        if process is None:
            raise AssertionError(f"broker {number} does not run\n{self.last_words()}")
        os.kill(process.pid, what)

    def last_words(self, lines: int = 20) -> str:
        """The last lines of every broker's output, for the message of a failure."""
        parts = []
        for broker in self.spec.brokers:
            file = self.directory.output_file(broker.id)
            text = file.read_text(errors="backslashreplace") if file.exists() else ""
            parts.append(f"--- broker {broker.id}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(parts)


def _silent(done: int, steps: int, note: str) -> None:
    """Report to nobody."""


@contextmanager
def running_cluster(path: Path, brokers: int = 3) -> Iterator[RunningCluster]:
    """A cluster in `path` that is ready at the start of the block; no process is left at its end."""
    cluster = DevCluster(DataDirectory(path))
    try:
        result = cluster.up(brokers, _silent)
        with admin_of(cluster.directory) as admin:
            yield RunningCluster(cluster, result.spec, admin)
    finally:
        cluster.down(timeout_s=5)
