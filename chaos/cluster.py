"""The cluster of a run: three hosts with a broker each, its metadata store, a tenant, and what can be asked of it."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from chaos.broker_host import BrokerHost
from chaos.commands import run
from chaos.disks import MIB, Disk
from chaos.etcd_hosts import EtcdHosts, etcd_addresses
from chaos.faults import BROKERS
from chaos.switch import Switch, address_of
from daemon.tls import OwnIdentity
from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import CHANGE_S, AdminClient
from data_plane.placement.planner import plan
from local.broker_config import PEPPER_VERSION
from local.certificates import LOOPBACK
from local.layout import DataDirectory, broker_name
from local.provisioning import broker_views, new_key, provision_internal_topics, put_key
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings
from penstock.private_file import write_private
from penstock.rules.domains import ACTIVE

TENANT = "tn_chaos"
_BOOT_S = 120.0
_POLL_S = 0.1
JOURNAL_BYTES = 4 * MIB
SOFT_FREE_BYTES = 64 * MIB
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a run's machine allows: the file system of each broker; and what its brokers are."""

    disks: tuple[str, ...]
    stepping_clocks: bool = False
    etcd: bool = False


class Desk:
    """Admin calls from the loop, one after the other. A task that may wait for long has a desk of its own."""

    def __init__(self, addresses: Sequence[str], identity: OwnIdentity) -> None:
        self.admin = AdminClient(addresses, identity)
        self._lock = asyncio.Lock()

    async def ask(self, question: Callable[[AdminClient], _T]) -> _T:
        """A blocking call, in a thread."""
        async with self._lock:
            return await asyncio.to_thread(question, self.admin)


class Cluster:
    """Made, provisioned and ended by the run. What takes an `AdminClient` blocks, and is asked at a desk."""

    def __init__(self, folder: Path, shape: Shape, switch: Switch) -> None:
        self.folder, self.shape, self.switch = folder, shape, switch
        self.directory = DataDirectory(folder / "cluster")
        write_private(self.directory.pepper_file, secrets.token_hex(32) + "\n")
        self.certificate = self._make_certificate()
        self.etcd = EtcdHosts(folder / "etcd", switch, self.certificate) if shape.etcd else None
        cluster_id = f"chaos-{secrets.token_hex(6)}"
        hosts = [*LOOPBACK, *(address_of(number) for number in BROKERS)]
        self.directory.certificates.make(cluster_id, BROKERS, hosts)
        self.hosts = {number: self._host(number, cluster_id) for number in BROKERS}
        self.bootstrap = [host.client_address for host in self.hosts.values()]
        self._desks: list[Desk] = []
        self.desk = self.open_desk()
        self.api_key = ""

    def _host(self, number: int, cluster_id: str) -> BrokerHost:
        folder = self.folder / "brokers" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        kind = self.shape.disks[number - 1]
        disk = Disk(kind, self.folder / "disks" / f"{number}.{kind}", folder / "disk")
        store: Mapping[str, Any] = {"metadata": str(self.directory.metadata_file)}
        if self.etcd is not None:
            store = self.etcd.settings
        settings = {
            "cluster_id": cluster_id,
            **store,
            "identity": self.directory.certificates.settings(broker_name(number)),
            "pepper_files": {str(PEPPER_VERSION): str(self.directory.pepper_file)},
            "tls_certificate_file": str(self.certificate),
            "tls_key_file": str(self.certificate.with_suffix(".key")),
            "limits": {"journal_bytes": JOURNAL_BYTES, "disk_soft_free_bytes": SOFT_FREE_BYTES},
            "timings": {"drain_ms": 3_000},
        }
        return BrokerHost(
            number,
            folder,
            self.switch.connect(f"b{number}", number),
            disk,
            settings,
            stepping=self.shape.stepping_clocks,
        )

    def _make_certificate(self) -> Path:
        """One for servers that listen on a host's address, and for brokers that ask etcd; its own authority."""
        certificate = self.folder / "brokers.pem"
        certificate.parent.mkdir(parents=True, exist_ok=True)
        addresses = [*(address_of(number) for number in BROKERS), *etcd_addresses()]
        names = ",".join(f"IP:{address}" for address in addresses)
        run(
            *(
                "openssl",
                "req",
                "-x509",
                "-nodes",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-days", "1", "-subj", "/CN=chaos", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)),
        )
        return certificate

    def open_desk(self) -> Desk:
        """Closed with the cluster."""
        addresses = [host.internal_address for host in self.hosts.values()]
        self._desks.append(Desk(addresses, self.directory.certificates.operator()))
        return self._desks[-1]

    # -- from nothing to a tenant with topics -------------------------------------------------------------------

    def boot(self) -> None:
        """Start all brokers, and make the tenant, its key and the internal topics. Raises `TimeoutError`."""
        if self.etcd is not None:
            self.etcd.start()
        for host in self.hosts.values():
            host.start()
        admin = self.desk.admin
        self._wait_until_active(admin)
        admin.put_tenant(TENANT)
        self.api_key = self.make_key(admin, "chaos")
        provision_internal_topics(admin, len(BROKERS))

    def make_key(self, admin: AdminClient, name: str) -> str:
        """A new key of the tenant, valid on every active broker. Raises `PenstockError`."""
        key = new_key()
        put_key(self.directory, admin, key, tenant=TENANT, name=name)
        return key.reveal()

    def create_topic(
        self,
        admin: AdminClient,
        name: str,
        partitions: int,
        settings: TopicSettings,
        topic_id: bytes = b"",
        timeout_s: float = CHANGE_S,
    ) -> bytes:
        """Known to every active broker on return. Raises `PenstockError`."""
        made = admin.create_topic(
            TENANT,
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

    def _wait_until_active(self, admin: AdminClient) -> None:
        """Raises `TimeoutError`."""
        deadline = time.monotonic() + _BOOT_S
        while (active := self._active(admin)) < len(BROKERS):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{active} brokers are active {_BOOT_S:g} s after their start")
            time.sleep(_POLL_S)

    def _active(self, admin: AdminClient) -> int:
        try:
            return sum(broker.state == ACTIVE for broker in admin.describe_cluster().brokers)
        except PenstockError:
            return 0

    def last_words(self) -> str:
        return "\n".join(f"--- broker {number}\n{host.last_words()}" for number, host in self.hosts.items())

    # -- the end ------------------------------------------------------------------------------------------------

    def end(self) -> list[int]:
        """Stop all brokers; those that had to be killed."""
        for desk in self._desks:
            desk.admin.close()
        threads: list[threading.Thread] = []
        killed: list[int] = []

        def stop(host: BrokerHost) -> None:
            host.wire.heal()
            if not host.end():
                killed.append(host.number)

        for host in self.hosts.values():
            host.kept_down = True
            threads.append(threading.Thread(target=stop, args=(host,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if self.etcd is not None:
            self.etcd.end()
        return sorted(killed)

    def unmount(self) -> None:
        """Once all brokers have ended, and their disks were looked at."""
        for host in self.hosts.values():
            host.disk.unmount()
