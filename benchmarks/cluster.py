"""A cluster of three broker processes for one benchmark, and its topics."""

import os
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.metrics import Durations, counted
from data_plane.contract.admin_client import AdminClient
from data_plane.placement.planner import plan
from local.cluster import DevCluster
from local.layout import ClusterSpec, DataDirectory
from local.provisioning import broker_views
from penstock.contract.ids import TopicId
from penstock.contract.topic_settings import TopicSettings

_SCHEDULED = 2
"""CPUCLOCK_SCHED of Linux: clock ids of processes are made as clock_getcpuclockid(3) does."""


class BenchCluster:
    """Up within the block; everything is stopped at its end. The processes see a profile file of their own."""

    def __init__(self, folder: Path, brokers: int = 3, **settings: Any) -> None:
        """`settings` of every broker."""
        os.environ["PENSTOCK_PROFILE_FILE"] = str(folder / "profiles.toml")
        self.directory = DataDirectory(folder / "cluster")
        self.dev = DevCluster(self.directory, settings)
        self._brokers = brokers
        self.spec: ClusterSpec
        self.api_key = ""

    def __enter__(self) -> Self:
        self.spec = self.dev.up(self._brokers, lambda done, of, note: None).spec
        self.api_key = tomllib.loads(self.directory.profile_file.read_text())["dev"]["api_key"]
        addresses = [broker.internal_address for broker in self.spec.brokers]
        self.admin = AdminClient(addresses, self.directory.certificates.operator())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()
        self.dev.down()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.client_address for broker in self.spec.brokers)

    def client_address(self, broker: int) -> str:
        return self.spec.broker(broker).client_address

    def durations(self, name: str) -> Durations:
        """A histogram of all brokers together, as counted since they started."""
        return Durations.of([broker.http_address for broker in self.spec.brokers], name)

    def counted(self, name: str) -> int:
        """A counter of all brokers together, since they started."""
        return counted([broker.http_address for broker in self.spec.brokers], name)

    def cpu_s(self) -> float:
        """Processor time that all brokers that run have used since they started."""
        return sum(map(cpu_s, self.processes()))

    def processes(self) -> list[psutil.Process]:
        """Of the brokers that run, by id."""
        found = [self.dev.process_of(broker.id) for broker in self.spec.brokers]
        return [one.process for one in found if one is not None]

    def topic(
        self,
        name: str,
        partitions: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        **settings: Any,
    ) -> TopicId:
        """Create a topic, planned over all brokers unless assignments are given; known to every broker on return."""
        wanted = TopicSettings.from_dict({"max_batch_bytes": 12 << 20, **settings})
        if assignments is None:
            assignments = plan(partitions, wanted.replication, broker_views(self.admin))
        made = self.admin.create_topic(self.spec.tenant, name, wanted, assignments)
        self.admin.wait_until_seen(made.outcome)
        return TopicId(made.topic_id)


def cpu_s(process: psutil.Process) -> float:
    """User and system time of a process, its threads together, to a microsecond: `/proc` has hundredths of a second."""
    return time.clock_gettime(~process.pid << 3 | _SCHEDULED)
