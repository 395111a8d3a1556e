"""A cluster over three zones: hosts with brokers and etcd nodes, certificates, and what can be asked of it."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import CHANGE_S, AdminClient
from data_plane.placement.planner import plan
from hosts.broker import Broker
from hosts.certificates import Certificates
from hosts.disks import MIB
from hosts.etcd import Etcd
from hosts.ground import BROKER, ETCD, ZONES, Ground
from hosts.host import Host
from hosts.switch import Switch
from local.broker_config import PEPPER_VERSION
from local.layout import DataDirectory
from local.provisioning import broker_views, new_key, provision_internal_topics, put_key
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings
from penstock.private_file import write_private
from penstock.rules.domains import ACTIVE

TENANT = "tn_hosts"
_BOOT_S = 120.0
_POLL_S = 0.1
_ETCD_DISK_BYTES = 320 * MIB
"""The least that mkfs.xfs takes, and some more."""
JOURNAL_BYTES = 4 * MIB
SOFT_FREE_BYTES = 64 * MIB
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a cluster is made of: one host with brokers in each zone, and in each of them an etcd node or in none."""

    disks: tuple[str | None, ...] = (None,) * len(ZONES)
    """File system of the disks of each zone's hosts; None: no disks of their own."""
    brokers_per_host: int = 1
    stepping_clocks: bool = False
    etcd: bool = True
    limits: Mapping[str, int] | None = None

    @property
    def brokers(self) -> tuple[int, ...]:
        """Their ids; those of a host follow each other."""
        return tuple(range(1, len(ZONES) * self.brokers_per_host + 1))


class Desk:
    """Admin calls from the loop, one after the other. A task that may wait for long has a desk of its own."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin
        self._lock = asyncio.Lock()

    async def ask(self, question: Callable[[AdminClient], _T]) -> _T:
        """A blocking call, in a thread."""
        async with self._lock:
            return await asyncio.to_thread(question, self.admin)


class Cluster:
    """Made, provisioned and ended by the run. What takes an `AdminClient` blocks, and is asked at a desk."""

    def __init__(self, folder: Path, shape: Shape, switch: Switch) -> None:
        self.folder = folder
        self.shape = shape
        self.ground = Ground(folder, switch)
        self.directory = DataDirectory(folder / "cluster")
        write_private(self.directory.pepper_file, secrets.token_hex(32) + "\n")
        self.cluster_id = f"hosts-{secrets.token_hex(6)}"
        self.certificates = Certificates(folder / "certificates", self.cluster_id)
        self._operator = self.certificates.operator()
        self.etcd = self._make_etcd() if shape.etcd else None
        self.brokers: dict[int, Broker] = {}
        for index, zone in enumerate(ZONES):
            host = self.ground.host(f"b{index + 1}", zone, BROKER, index + 1, shape.disks[index])
            for _ in range(shape.brokers_per_host):
                number = len(self.brokers) + 1
                settings = self._settings(number, host)
                self.brokers[number] = Broker(number, host, settings, stepping=shape.stepping_clocks)
        self.bootstrap = [broker.client_address for broker in self.brokers.values()]
        self._desks: list[Desk] = []
        self.desk = self.open_desk()
        self.api_key = ""

    def _make_etcd(self) -> Etcd:
        hosts = [
            self.ground.host(
                f"e{index + 1}", zone, ETCD, index + 1, self.shape.disks[index], _ETCD_DISK_BYTES
            )
            for index, zone in enumerate(ZONES)
        ]
        identities = {
            host.name: self.certificates.issue(f"etcd-{index + 1}", [host.address])
            for index, host in enumerate(hosts)
        }
        return Etcd(hosts, identities)

    def _settings(self, number: int, host: Host) -> Mapping[str, Any]:
        inside = self.certificates.issue(f"broker-{number}", [host.address])
        clients = self.certificates.issue_for_clients(number, [host.address])
        store: Mapping[str, Any] = {"metadata": str(self.directory.metadata_file)}
        if self.etcd is not None:
            store = self.etcd.settings(inside)
        return {
            "cluster_id": self.cluster_id,
            **store,
            "identity": inside.settings,
            "pepper_files": {str(PEPPER_VERSION): str(self.directory.pepper_file)},
            "pepper_folder": str(self.directory.pepper_folder),
            "tls_certificate_file": str(clients.certificate_file),
            "tls_key_file": str(clients.key_file),
            "limits": dict(self.shape.limits or {}),
            "timings": {"drain_ms": 3_000},
        }

    @property
    def ca_file(self) -> Path:
        """Whom clients trust."""
        return self.certificates.clients_ca_file

    @property
    def broker_hosts(self) -> list[Host]:
        return list({broker.host.name: broker.host for broker in self.brokers.values()}.values())

    def open_desk(self) -> Desk:
        """Closed with the cluster."""
        self._desks.append(Desk(self.new_admin()))
        return self._desks[-1]

    def new_admin(self) -> AdminClient:
        """To be closed by who asks for it."""
        addresses = [broker.internal_address for broker in self.brokers.values()]
        return AdminClient(addresses, self._operator)

    def for_control_plane(self) -> Mapping[str, Any]:
        """What a control plane's configuration says of these brokers."""
        return {
            "bootstrap": list(self.bootstrap),
            "internal": [broker.internal_address for broker in self.brokers.values()],
            "pepper_file": str(self.directory.pepper_file),
            "pepper_version": PEPPER_VERSION,
            "pepper_folder": str(self.directory.pepper_folder),
        }

    # -- from nothing to a tenant with topics -------------------------------------------------------------------

    def boot(self) -> None:
        """Start everything, and wait until all brokers are active. Raises `TimeoutError`."""
        if self.etcd is not None:
            self.etcd.start()
        for broker in self.brokers.values():
            broker.start()
        self.wait_until_active()

    def provision(self) -> None:
        """Make a tenant, its key and the internal topics, where no control plane does. Raises `PenstockError`."""
        admin = self.desk.admin
        admin.put_tenant(TENANT)
        self.api_key = self.make_key(admin, "hosts")
        provision_internal_topics(admin, len(self.brokers))

    def make_key(self, admin: AdminClient, name: str, *, tenant: str = TENANT) -> str:
        """A new key of the tenant, valid on every active broker. Raises `PenstockError`."""
        key = new_key()
        put_key(self.directory, admin, key, tenant=tenant, name=name)
        return key.reveal()

    def create_topic(
        self,
        admin: AdminClient,
        name: str,
        partitions: int,
        settings: TopicSettings,
        topic_id: bytes = b"",
        timeout_s: float = CHANGE_S,
        tenant: str = TENANT,
    ) -> bytes:
        """Known to every active broker on return. Raises `PenstockError`."""
        made = admin.create_topic(
            tenant,
            name,
            settings,
            self.assignments(admin, partitions, settings),
            timeout_s=timeout_s,
            topic_id=topic_id,
        )
        admin.wait_until_seen(made.outcome)
        return made.topic_id

    def assignments(self, admin: AdminClient, partitions: int, settings: TopicSettings) -> list[list[int]]:
        """By the planner. Raises `PenstockError` when too few brokers are active."""
        return [list(brokers) for brokers in plan(partitions, settings.replication, broker_views(admin))]

    # -- what it is like now ------------------------------------------------------------------------------------

    def describe(self, admin: AdminClient) -> pb.DescribeClusterResponse | None:
        """With all partitions; None when no broker answers."""
        try:
            return admin.describe_cluster(partitions=True)
        except PenstockError:
            return None

    def not_whole(self, admin: AdminClient, topics: Sequence[str]) -> list[str]:
        """What keeps these topics from having a leader and every replica in sync; nothing when they have."""
        described = self.describe(admin)
        if described is None:
            return ["no broker answers"]
        found = [
            f"broker {broker.id} is {broker.state}" for broker in described.brokers if broker.state != ACTIVE
        ]
        for p in described.partitions:
            if (
                p.tenant == TENANT
                and p.topic in topics
                and (p.leader < 0 or len(p.in_sync) < len(p.replicas))
            ):
                found.append(f"{p.topic}/{p.partition}: leader {p.leader}, in sync {list(p.in_sync)}")
        return found

    def wait_until_active(self) -> None:
        """All brokers. Raises `TimeoutError`."""
        admin, deadline = self.desk.admin, time.monotonic() + _BOOT_S
        while (active := self._active(admin)) < len(self.brokers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{active} brokers are active {_BOOT_S:g} s after their start")
            time.sleep(_POLL_S)

    def _active(self, admin: AdminClient) -> int:
        try:
            return sum(broker.state == ACTIVE for broker in admin.describe_cluster().brokers)
        except PenstockError:
            return 0

    def last_words(self) -> str:
        return "\n".join(
            f"--- {program.name} on {program.host.name}\n{program.last_words()}"
            for program in (*self.brokers.values(), *(self.etcd.nodes if self.etcd is not None else ()))
        )

    def metadata_files(self) -> list[Path]:
        """What the metadata store keeps on its disks."""
        if self.etcd is None:
            file = self.directory.metadata_file
            return sorted(file.parent.glob(f"{file.name}*"))
        return [
            file
            for node in self.etcd.nodes
            if node.data.is_dir()
            for file in sorted(node.data.rglob("*"))
            if file.is_file()
        ]

    # -- the end ------------------------------------------------------------------------------------------------

    def end(self) -> list[int]:
        """Stop all brokers, then etcd; those that did not drain and end in time."""
        for desk in self._desks:
            desk.admin.close()
        threads: list[threading.Thread] = []
        killed: list[int] = []

        def stop(broker: Broker) -> None:
            broker.host.wire.heal()
            if not broker.end() or broker.status not in (0, None):
                killed.append(broker.number)

        for broker in self.brokers.values():
            broker.kept_down = True
            threads.append(threading.Thread(target=stop, args=(broker,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if self.etcd is not None:
            self.etcd.end()
        return sorted(killed)

    def unmount(self) -> None:
        """Once all brokers have ended, and their disks were looked at."""
        self.ground.unmount()
