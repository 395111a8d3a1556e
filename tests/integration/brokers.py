"""Broker processes that a test starts with settings of its own, hurts and heals; each known by its process.

They have no internal topics and meter nothing unless the test says so.
"""

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from daemon import authority
from daemon.identity import Role
from daemon.tls import OwnIdentity
from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import AdminClient
from data_plane.placement.planner import Assignment, PlacementRefused, plan
from local import etcd_process
from local.broker_config import write_broker_config
from local.certificates import LOOPBACK
from local.free_ports import HOST
from local.layout import SQLITE, BrokerSpec, DataDirectory, broker_name
from local.provisioning import broker_views, new_key, provision_internal_topics, put_key
from local.status import is_ready
from penstock import Client
from penstock.contract.api_keys import parse_api_key
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from tests.certificates import own
from tests.integration import forked
from tests.integration.forked import ForkedProcess
from tests.waiting import PATIENCE_S, wait_until

BROKER = "data_plane.broker"
_POLL_S = 0.02
_LAST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant with one key."""

    name: str
    api_key: str = field(repr=False)

    @property
    def key_id(self) -> str:
        return parse_api_key(self.api_key).key_id


class Brokers:
    """A cluster in a folder. `settings` go into every broker's configuration file above the usual ones; `metadata`
    is one of METADATA_STORES: with etcd, one of the cluster's own."""

    def __init__(
        self, path: Path, count: int, settings: Mapping[str, Any], module: str, metadata: str = SQLITE
    ) -> None:
        self.directory = DataDirectory(path)
        self.spec = self.directory.load_or_create(count, metadata)
        self.settings = {"metering": False, **settings}
        self.own: dict[int, dict[str, Any]] = {}
        """Settings of single brokers, above those of all; of a broker that runs, from its next start on."""
        self._module = module
        self._processes: dict[int, ForkedProcess] = {}
        self._etcd: subprocess.Popen[bytes] | None = None
        self.ids = [broker.id for broker in self.spec.brokers]
        self.bootstrap = [broker.client_address for broker in self.spec.brokers]
        self.operator = self.directory.certificates.operator()
        self.admin = AdminClient([broker.internal_address for broker in self.spec.brokers], self.operator)

    # -- processes -------------------------------------------------------------------------------------------

    def start(self, *numbers: int) -> None:
        """Start those that do not run (all when none is named) and wait until they are ready."""
        self.start_etcd()
        wanted = list(numbers) or self.ids
        for number in wanted:
            if not self.runs(number):
                self.launch(number)
        for number in wanted:
            spec = self.spec.broker(number)
            self.wait_until(f"broker {number} is ready", partial(self._has_started, spec))

    def _has_started(self, spec: BrokerSpec) -> bool:
        if not self.runs(spec.id):
            pytest.fail(f"broker {spec.id} ended with status {self.status(spec.id)}\n{self.last_words()}")
        return is_ready(spec)

    def launch(self, number: int) -> None:
        """Start one broker without waiting for it."""
        config = self.directory.config_file(number)
        write_broker_config(self.directory, self.spec, self.spec.broker(number))
        values = json.loads(config.read_text())
        timings = values["timings"] | self.settings.get("timings", {})
        config.write_text(
            json.dumps(values | self.settings | self.own.get(number, {}) | {"timings": timings})
        )
        self._processes[number] = forked.start(
            self._module,
            ["--config", str(config)],
            folder=config.parent,
            output=self.directory.output_file(number),
        )

    def start_etcd(self) -> None:
        """Where the metadata lies on etcd: start it unless it runs, and wait until it is ready."""
        spec = self.spec.etcd
        if spec is not None and (self._etcd is None or self._etcd.poll() is not None):
            self._etcd = etcd_process.start(self.directory, spec)
            self.wait_until("etcd is ready", lambda: etcd_process.serves(self.directory, spec))

    def kill_etcd(self) -> None:
        """SIGKILL, and wait for its end."""
        assert self._etcd is not None, "no etcd was started"
        self._etcd.kill()
        self._etcd.wait()

    def runs(self, number: int) -> bool:
        process = self._processes.get(number)
        return process is not None and process.poll() is None

    def pid(self, number: int) -> int:
        return self._processes[number].pid

    def pids(self) -> dict[int, int]:
        """Process ids of the brokers that run."""
        return {number: self.pid(number) for number in self.ids if self.runs(number)}

    def signal(self, what: signal.Signals, *numbers: int) -> None:
        """To all brokers when none is named."""
        for number in numbers or self.ids:
            os.kill(self.pid(number), what)

    def kill(self, *numbers: int) -> None:
        """SIGKILL, all as nearly at once as can be; all brokers when none is named."""
        self.signal(signal.SIGKILL, *numbers)
        for number in numbers or self.ids:
            self.status(number)

    def stop(self, *numbers: int) -> None:
        """SIGTERM: the brokers drain and end by themselves."""
        self.signal(signal.SIGTERM, *numbers)

    @contextmanager
    def paused(self, *numbers: int) -> Iterator[None]:
        """SIGSTOP within the block, SIGCONT behind it."""
        self.signal(signal.SIGSTOP, *numbers)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT, *numbers)

    def status(self, number: int, timeout_s: float = PATIENCE_S) -> int:
        """The exit status of a broker that ends, or has ended."""
        try:
            return self._processes[number].wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"broker {number} has not ended after {timeout_s:g} s\n{self.last_words()}")

    def end(self) -> None:
        """No process is left after this."""
        self.admin.close()
        _end(*self._processes.values())
        if self._etcd is not None:
            _end(self._etcd)

    def http(self, number: int, path: str) -> tuple[int, str]:
        """Status and body of a broker's answer to a GET."""
        spec = self.spec.broker(number)
        connection = http.client.HTTPConnection(HOST, spec.http_port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, number: int, name: str) -> float:
        """The value of a broker's metric without labels."""
        status, text = self.http(number, "/metrics")
        assert status == 200, f"{text}\n{self.last_words()}"
        return next(float(line.split()[1]) for line in text.splitlines() if line.split()[0] == name)

    # -- what they wrote -------------------------------------------------------------------------------------

    def output(self, number: int) -> str:
        """Everything that a broker wrote to its output."""
        file = self.directory.output_file(number)
        return file.read_text(errors="backslashreplace") if file.exists() else ""

    def last_words(self) -> str:
        """The cluster as it sees itself and the end of every broker's output, for the message of a failure."""
        outputs = (
            f"--- broker {number}\n" + "\n".join(self.output(number).splitlines()[-_LAST_LINES:])
            for number in self.ids
        )
        return "\n".join([self._description(), *outputs])

    def _description(self) -> str:
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

    def partition_directory(self, number: int, where: TopicPartition) -> Path:
        return self.directory.log_directory(number) / "topics" / str(where)

    def as_broker(self, number: int) -> OwnIdentity:
        """For a test that speaks as that broker would."""
        name = broker_name(number)
        return OwnIdentity(self.directory.certificates.files(name), Role.BROKER, broker_id=number)

    def issued(self, name: str) -> OwnIdentity:
        """Of a process with a certificate of this cluster's authority, which is made at the first use."""
        folder, files = self.directory.certificates.folder, self.directory.certificates.files(name)
        if not files.certificate_file.exists():
            authority.issue(folder, name, hosts=LOOPBACK, now=datetime.now(UTC))
        return own(files, name)

    # -- the cluster -----------------------------------------------------------------------------------------

    def tenant(self, name: str) -> Tenant:
        """Make a tenant and a key of it, known to every broker."""
        self.admin.put_tenant(name)
        return self.another_key(name)

    def another_key(self, tenant: str, owner: str = "") -> Tenant:
        key = new_key()
        put_key(self.directory, self.admin, key, tenant=tenant, name="test", owner=owner)
        return Tenant(name=tenant, api_key=key.reveal())

    def revoke(self, tenant: Tenant) -> None:
        """Revoke the key and wait until every broker knows."""
        self.admin.wait_until_seen(self.admin.revoke_key(tenant.key_id))

    def client(self, tenant: Tenant) -> Client:
        """With TLS when the brokers have a certificate, which is then its own authority."""
        certificate = self.settings.get("tls_certificate_file")
        return Client(bootstrap=self.bootstrap, api_key=tenant.api_key, ca_file=certificate)

    def create_topic(
        self,
        tenant: Tenant,
        name: str,
        partitions: int = 1,
        assignments: Sequence[Sequence[int]] | None = None,
        **settings: Any,
    ) -> TopicId:
        """A topic whose partitions all have a leader at work; placed by the planner when no assignments are given."""
        copies = min(3, len(self.ids))
        wanted = TopicSettings(**({"replication": copies, "min_insync_replicas": min(2, copies)} | settings))
        if assignments is None:
            assignments = self._planned(partitions, wanted.replication)
        made = self.admin.create_topic(tenant.name, name, wanted, assignments)
        self.admin.wait_until_seen(made.outcome)
        with self.client(tenant) as client, client.consumer([name]) as consumer:
            consumer.end_offsets()
        return TopicId(made.topic_id)

    def _planned(self, partitions: int, replication: int) -> tuple[Assignment, ...]:
        """On a loaded machine a broker may be suspected for a moment: then there are too few for a while."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return plan(partitions, replication, broker_views(self.admin))
            except PlacementRefused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    def partitions(self, topic_id: bytes) -> list[pb.DescribedPartition]:
        """The topic's partitions as the cluster sees them, by number."""
        described = self.admin.describe_cluster(partitions=True)
        found = [partition for partition in described.partitions if partition.topic_id == topic_id]
        return sorted(found, key=lambda partition: partition.partition)

    def leader(self, topic_id: bytes, partition: int = 0) -> int:
        """-1 = none now."""
        return self.partitions(topic_id)[partition].leader

    def whole(self, topic_id: bytes) -> bool:
        """Every partition has a leader and all of its replicas in sync."""
        found = self.partitions(topic_id)
        return bool(found) and all(p.leader >= 0 and len(p.in_sync) == len(p.replicas) for p in found)

    def wait_until(self, what: str, holds: Callable[[], bool]) -> float:
        """Seconds until `holds()`; fails with the brokers' last words when it never does."""
        return wait_until(what, holds, instead=self.last_words)


def _end(*processes: ForkedProcess | subprocess.Popen[bytes]) -> None:
    """SIGTERM to all of them, also to those that are paused, and SIGKILL to who does not end."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + PATIENCE_S
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def brokers(
    path: Path,
    count: int = 3,
    *,
    settings: Mapping[str, Any] | None = None,
    module: str = BROKER,
    metadata: str = SQLITE,
    internal_topics: bool = False,
    own: Mapping[int, Mapping[str, Any]] | None = None,
) -> Iterator[Brokers]:
    """Brokers that are ready at the start of the block; no process is left at its end."""
    cluster = Brokers(path, count, settings or {}, module, metadata)
    cluster.own = {number: dict(values) for number, values in (own or {}).items()}
    try:
        cluster.start()
        if internal_topics:
            provision_internal_topics(cluster.admin, count)
        yield cluster
    finally:
        cluster.end()
