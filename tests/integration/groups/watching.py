"""Load on a topic, and a watch on what a group commits, while a test hurts the cluster."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock import Client, GroupNotFound, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.partitioner import partition_of
from tests.integration.brokers import Brokers, Tenant

Place = tuple[str, int]


def until(what: str, holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"after {timeout_s:g} s still not: {what}"
        time.sleep(0.02)


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

    highest: dict[Place, int] = field(default_factory=dict)
    back: list[tuple[Place, int, int]] = field(default_factory=list)
    looks: int = 0

    def look(self, client: Client, group: str) -> None:
        try:
            offsets = client.group(group, timeout=5).offsets
        except PenstockError as error:
            if not isinstance(error, GroupNotFound) and not error.retriable:
                raise
            return
        self.looks += 1
        for place, offset in offsets.items():
            if offset < self.highest.get(place, 0):
                self.back.append((place, self.highest[place], offset))
            self.highest[place] = max(offset, self.highest.get(place, 0))


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
        thread.join(20)


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
                receipt = delivery.result(60)
                end = load.ends.get(receipt.partition, 0)
                load.ends[receipt.partition] = max(end, receipt.offset + 1)
                load.acknowledged += 1

    thread = threading.Thread(target=send_on, daemon=True)
    thread.start()
    try:
        yield load
    finally:
        ended.set()
        thread.join(90)
        assert not thread.is_alive()


class MemberProcess:
    """One member in its own process, and all that it told."""

    def __init__(self, cluster: Brokers, tenant: Tenant, topic: str, group: str) -> None:
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
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if told["event"] == "read":
                for partition, offsets in told["offsets"].items():
                    self.read.setdefault(int(partition), set()).update(offsets)
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
        self._wait(20)

    def end(self) -> None:
        """It commits and leaves."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._wait(30)

    def _wait(self, timeout_s: float) -> None:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._reader.join(20)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
