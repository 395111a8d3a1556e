"""Load on a topic, and a watch on what a group commits, while a test hurts the cluster."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock import Client, GroupNotFound, PenstockError
from penstock.contract.ids import SYSTEM_TENANT, NamedPartition
from penstock.rules.partitioner import partition_of
from tests.integration.brokers import Brokers, Tenant
from tests.waiting import PATIENCE_S


def coordinator_of(cluster: Brokers, tenant: str, group: str) -> int:
    """The broker that leads the group's partition of `__groups`."""
    described = cluster.admin.describe_cluster(partitions=True)
    leaders = {
        partition.partition: partition.leader
        for partition in described.partitions
        if partition.topic == "__groups" and partition.tenant == SYSTEM_TENANT
    }
    return leaders[partition_of(f"{tenant}/{group}".encode(), len(leaders))]


@dataclass
class CommitWatch:
    """Looks at a group's committed offsets all the time; `back` lists every one that was lower than before."""

    highest: dict[NamedPartition, int] = field(default_factory=dict)
    back: list[tuple[NamedPartition, int, int]] = field(default_factory=list)
    looks: int = 0

    def look(self, client: Client, group: str) -> None:
        try:
            offsets = client.group(group, timeout=PATIENCE_S).offsets
        except PenstockError as error:
            if not isinstance(error, GroupNotFound) and not error.retriable:
                raise
            return
        self.looks += 1
        for tp, offset in offsets.items():
            if offset < self.highest.get(tp, 0):
                self.back.append((tp, self.highest[tp], offset))
            self.highest[tp] = max(offset, self.highest.get(tp, 0))


@contextmanager
def watched(cluster: Brokers, tenant: Tenant, group: str) -> Iterator[CommitWatch]:
    watch, ended = CommitWatch(), threading.Event()

    def look_on() -> None:
        with cluster.client(tenant) as client:
            while not ended.wait(0.05):
                watch.look(client, group)

    thread = threading.Thread(target=look_on, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join(PATIENCE_S)


@dataclass
class Load:
    """What was acknowledged: next offset by partition."""

    ends: dict[int, int] = field(default_factory=dict)
    acknowledged: int = 0


@contextmanager
def produced(cluster: Brokers, tenant: Tenant, topic: str, per_s: int = 400) -> Iterator[Load]:
    """Messages all the time within the block; all of them are acknowledged behind it."""
    load, ended = Load(), threading.Event()

    def send_on() -> None:
        with cluster.client(tenant) as client, client.producer(batch_messages=10) as producer:
            number, deliveries = 0, []
            while not ended.wait(10 / per_s):
                for _ in range(10):
                    deliveries.append(producer.send(topic, b"%d" % number, key=b"k%d" % number))
                    number += 1
            for delivery in deliveries:
                receipt = delivery.result(PATIENCE_S)
                end = load.ends.get(receipt.partition, 0)
                load.ends[receipt.partition] = max(end, receipt.offset + 1)
                load.acknowledged += 1

    thread = threading.Thread(target=send_on, daemon=True)
    thread.start()
    try:
        yield load
    finally:
        ended.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class MemberProcess:
    """One member in its own process, and all that it told."""

    def __init__(
        self, cluster: Brokers, tenant: Tenant, topic: str, group: str, session_timeout_ms: int
    ) -> None:
        self.events: list[tuple[str, tuple[int, ...]]] = []
        self.read: dict[int, set[int]] = {}
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.integration.groups.member",
                ",".join(cluster.bootstrap),
                tenant.api_key,
                topic,
                group,
                str(session_timeout_ms),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if told["event"] == "read":
                for partition, offsets in told["offsets"].items():
                    self.read.setdefault(int(partition), set()).update(offsets)
            elif told["event"] == "ready":
                self._ready.set()
            else:
                self.events.append((told["event"], tuple(told["partitions"])))

    @property
    def owned(self) -> set[int]:
        """What its events so far leave it with."""
        owned: set[int] = set()
        for event, partitions in list(self.events):
            owned = owned | set(partitions) if event == "assigned" else owned - set(partitions)
        return owned

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def end(self) -> None:
        """It commits and leaves, by SIGTERM in a poll that waits without end."""
        if self._process.poll() is None:
            assert self._ready.wait(PATIENCE_S)
            self._process.terminate()
        self._wait()

    def _wait(self) -> None:
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()
