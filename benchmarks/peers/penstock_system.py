"""Penstock as the comparison sees it: three brokers of a benchmark's cluster, everything synced before the answer."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.cluster import BenchCluster
from benchmarks.peers.system import SERVERS, ClientProgram, Kind
from data_plane.contract.admin_client import new_topic
from data_plane.placement.planner import plan
from local.provisioning import broker_views
from penstock.contract.topic_settings import TopicSettings

_MADE_S = 60.0
_A_CALL = 200
"""Topics that one call makes: with their partitions well within what a call may take."""
_LOOK_S = 0.1


class Penstock:
    """Three brokers in one folder."""

    def __init__(self, folder: Path) -> None:
        self._cluster = BenchCluster(folder, SERVERS)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def client(self) -> ClientProgram:
        return ClientProgram(
            command=[sys.executable, "-m", "benchmarks.peers.penstock_client"],
            environment={"PENSTOCK_API_KEY": self._cluster.api_key},
        )

    def make_topics(self, name: str, partitions: int, count: int = 1) -> float:
        began = time.perf_counter()
        if count == 1:
            self._cluster.topic(name, partitions)
        else:
            self._make_many(name, partitions, count)
        return time.perf_counter() - began

    def _make_many(self, name: str, partitions: int, count: int) -> None:
        cluster = self._cluster
        settings = TopicSettings()
        assignments = plan(partitions, settings.replication, broker_views(cluster.admin))

        for first in range(0, count, _A_CALL):
            names = [f"{name}-{number}" for number in range(first, min(first + _A_CALL, count))]
            asked = [
                # With an id a call whose answer is late may be repeated.
                new_topic(cluster.spec.tenant, one, settings, assignments, topic_id=os.urandom(16))
                for one in names
            ]
            answer = cluster.admin.create_topics(asked, timeout_s=_MADE_S)
            refused = [one.outcome.message for one in answer.topics if one.outcome.error]
            if refused:
                raise RuntimeError(f"{name}: {len(refused)} topics were refused: {refused[0]}")
        deadline = time.monotonic() + _MADE_S
        while self._led() < partitions * count:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{name}: {self._led()} partitions have a leader, {partitions * count} required"
                )
            time.sleep(_LOOK_S)

    def _led(self) -> int:
        """Partitions of the tenant that have a leader."""
        cluster = self._cluster
        described = cluster.admin.describe_cluster(partitions=True).partitions
        return sum(one.leader > 0 and one.tenant == cluster.spec.tenant for one in described)

    def leader_of(self, topic: str) -> psutil.Process:
        described = self._cluster.admin.describe_cluster(partitions=True).partitions
        leader = next(one.leader for one in described if one.topic == topic and one.partition == 0)
        found = self._cluster.dev.process_of(leader)
        if found is None:
            raise RuntimeError(f"broker {leader} does not run")
        return found.process

    def servers(self) -> list[psutil.Process]:
        running = [self._cluster.dev.process_of(broker.id) for broker in self._cluster.spec.brokers]
        return [found.process for found in running if found is not None]


def _prepare(cache: Path) -> Callable[[Path], Penstock]:
    return Penstock


PENSTOCK = Kind(
    key="penstock",
    title="Penstock",
    synced="before each acknowledgement",
    codecs=("none", "zstd"),
    programs=lambda cache: None,
    prepare=_prepare,
)
