"""A running cluster of real broker processes in a folder of the test's own, and what tests ask of it."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from control_plane.placement.planner import ACTIVE, BrokerView, plan
from data_plane.contract import admin_pb2 as pb
from data_plane.dev import processes
from data_plane.dev.admin_client import AdminClient
from data_plane.dev.cluster import DevCluster
from data_plane.dev.layout import ClusterSpec, DataDirectory
from data_plane.dev.profile import read_api_key
from data_plane.dev.provisioning import admin_of
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings

_ACTIVE_S = 20.0
"""A broker that was suspected wrongly registers anew within a second or two."""


class RunningCluster:
    """Brokers, their addresses and a tenant's key. Times in seconds."""

    def __init__(self, cluster: DevCluster, spec: ClusterSpec, admin: AdminClient) -> None:
        self.cluster, self.spec, self.admin = cluster, spec, admin
        self.directory = cluster.directory
        self.bootstrap = [broker.client_address for broker in spec.brokers]
        self.api_key = read_api_key(cluster.directory) or ""

    def create_topic(self, name: str, partitions: int, settings: TopicSettings) -> bytes:
        """Create a topic on the planner's assignment; returns its id.

        On a loaded machine a broker may be suspected for a moment: all have to be back before a topic is planned.
        """
        deadline = time.monotonic() + _ACTIVE_S
        while True:
            brokers = [
                BrokerView(id=b.id, zone=b.zone, replicas=b.replicas, leaders=b.leaders, state=b.state)
                for b in self.admin.describe_cluster().brokers
            ]
            if all(broker.state == ACTIVE for broker in brokers) or time.monotonic() > deadline:
                break
        assignments = plan(partitions, settings.replication, brokers)
        topic_id, revision = self.admin.create_topic(self.spec.tenant, name, settings, assignments)
        self.admin.wait_until_seen(revision)
        return topic_id

    def partitions(self, topic_id: bytes) -> list[pb.DescribedPartition]:
        """The topic's partitions as the cluster sees them."""
        described = self.admin.describe_cluster(partitions=True)
        return [partition for partition in described.partitions if partition.topic_id == topic_id]

    def kill(self, brokers: Sequence[int]) -> None:
        """SIGKILL, all as nearly at once as can be; returns when they are gone."""
        processes.wait_gone(self._signal(brokers, signal.SIGKILL), 10)

    def pause(self, brokers: Sequence[int]) -> None:
        """SIGSTOP."""
        self._signal(brokers, signal.SIGSTOP)

    def resume(self, brokers: Sequence[int]) -> None:
        """SIGCONT."""
        self._signal(brokers, signal.SIGCONT)

    def start_missing(self) -> None:
        """Start every broker that does not run, and wait until all are ready."""
        self.cluster.up(None, _silent)

    def _signal(self, brokers: Sequence[int], what: signal.Signals) -> list[processes.BrokerProcess]:
        found = [(number, self.cluster.process_of(number)) for number in brokers]
        running = [process for _, process in found if process is not None]
        missing = [number for number, process in found if process is None]
        if missing:
            raise AssertionError(f"brokers {missing} do not run\n{self.last_words()}")
        for process in running:
            os.kill(process.pid, what)
        return running

    def describe(self) -> str:
        """Brokers and partitions as the cluster sees them, for the message of a failure."""
        try:
            seen = self.admin.describe_cluster(partitions=True)
        except PenstockError as error:
            return f"the cluster does not answer: {error}"
        brokers = [f"broker {b.id} {b.state} epoch {b.broker_epoch}" for b in seen.brokers]
        partitions = [
            f"{p.topic}-{p.partition}: leader {p.leader} epoch {p.leader_epoch} in sync {list(p.in_sync)} "
            f"of {list(p.replicas)} eligible {list(p.eligible)}"
            for p in seen.partitions
        ]
        return "\n".join([f"controller {seen.controller}", *brokers, *partitions])

    def last_words(self, lines: int = 20) -> str:
        """The last lines of every broker's output, for the message of a failure."""
        parts = [self.describe()]
        for broker in self.spec.brokers:
            file = self.directory.output_file(broker.id)
            text = file.read_text(errors="backslashreplace") if file.exists() else ""
            parts.append(f"--- broker {broker.id}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(parts)


def _silent(done: int, steps: int, note: str) -> None:
    """Report to nobody."""


@contextmanager
def running_cluster(path: Path, brokers: int = 3, metadata: str | None = None) -> Iterator[RunningCluster]:
    """A cluster in `path` that is ready at the start of the block; no process is left at its end."""
    cluster = DevCluster(DataDirectory(path))
    try:
        result = cluster.up(brokers, _silent, metadata=metadata)
        with admin_of(cluster.directory) as admin:
            yield RunningCluster(cluster, result.spec, admin)
    finally:
        cluster.down(timeout_s=5)
