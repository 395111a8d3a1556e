"""What a dev cluster is and where it rests: ids, ports and file names of one data directory.

cluster.json        cluster id, tenant, brokers with their ports; grown by `dev up --brokers`
certificates/       of the brokers, the control plane and the operator, and their authority (local/certificates.py)
peppers/            those that the service makes later
pepper              what turns a key's secret into its stored form
metadata.sqlite     the metadata store of all brokers, unless it is etcd
etcd/               config.json, output.log and data/ of the etcd that is the metadata store, where it is
profile.toml        ready tenant, key and addresses, in the form of the user's profile file
wanted/             an empty file for each broker and process that is to run
supervisor.log      what the process prints that `dev up --detach` leaves behind
supervisor.lock     held by that process
lock                held by the command that is changing the cluster
brokers/<id>/       config.json, output.log and data/, the broker's log directory; <id>.removed once it was removed
"""

import fcntl
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Self

from local.certificates import Certificates
from local.free_ports import HOST, free_port
from penstock.contract.errors import ErrorCode, ErrorKind, InvalidRequest, NotFound, PenstockError
from penstock.contract.limits import MIN_INSYNC_DEFAULT, REPLICATION_DEFAULT
from penstock.private_file import write_private

DEFAULT_DIRECTORY = Path("var/penstock-dev")
BROKERS_DEFAULT = 3
BROKERS_MAX = 20
"""Each takes some 100 MB of memory; more would not be a dev cluster."""
SQLITE, ETCD = METADATA_STORES = ("sqlite", "etcd")
ETCD_NAME = "etcd"
_LOCKED_S = 2.0
"""So long a lock is waited for: what holds it may just be ending."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """One broker of the cluster: its id and the ports of its four listeners, all on the loopback address."""

    id: int
    client_port: int
    internal_port: int
    http_port: int
    peer_port: int = 0
    """0 in what a version before that listener wrote: `load_or_create` gives it one."""

    @property
    def client_address(self) -> str:
        return f"{HOST}:{self.client_port}"

    @property
    def internal_address(self) -> str:
        return f"{HOST}:{self.internal_port}"

    @property
    def peer_address(self) -> str:
        return f"{HOST}:{self.peer_port}"

    @property
    def http_address(self) -> str:
        return f"{HOST}:{self.http_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSpec:
    """The ports of the etcd that keeps a cluster's metadata, on the loopback address."""

    client_port: int
    peer_port: int
    tls: bool = False
    """False in what a version before TLS to etcd wrote: it stays in plain text, on the loopback address."""

    @property
    def client_address(self) -> str:
        return f"{HOST}:{self.client_port}"

    @property
    def peer_address(self) -> str:
        return f"{HOST}:{self.peer_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What is fixed of a dev cluster. `etcd` None = its metadata is in a SQLite file."""

    cluster_id: str
    tenant: str
    brokers: tuple[BrokerSpec, ...]
    """By id, ascending, from 1, with gaps where one was removed."""
    etcd: EtcdSpec | None = None

    @property
    def metadata(self) -> str:
        """Which kind of store keeps the metadata: one of METADATA_STORES."""
        return SQLITE if self.etcd is None else ETCD

    @property
    def replication(self) -> int:
        """Copies that a topic gets when none are asked for: three, or one a broker when there are fewer."""
        return min(REPLICATION_DEFAULT, len(self.brokers))

    @property
    def min_insync(self) -> int:
        return min(MIN_INSYNC_DEFAULT, self.replication)

    def broker(self, number: int) -> BrokerSpec:
        """The broker of that id. Raises `NotFound` naming those there are."""
        for broker in self.brokers:
            if broker.id == number:
                return broker
        raise NotFound(
            f"broker {number}: no such broker; there are {', '.join(str(b.id) for b in self.brokers)}"
        )

    def encode(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def decode(cls, text: str) -> Self:
        values: dict[str, Any] = json.loads(text)
        values["brokers"] = tuple(BrokerSpec(**broker) for broker in values["brokers"])
        if values.get("etcd") is not None:
            values["etcd"] = EtcdSpec(**values["etcd"])
        return cls(**values)


class NoCluster(NotFound):
    """There is no dev cluster in this directory."""

    remedy = "Make one with `penstock dev up`, or name another directory with --data."


class Busy(PenstockError):
    """Another command is changing this cluster. A compiled `Throttled` takes no interpreted class below it."""

    code = ErrorCode.THROTTLED
    kind = ErrorKind.RETRIABLE
    remedy = "Wait for the other `penstock dev` command to end."


class DataDirectory:
    """File names of one data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.cluster_file = self.path / "cluster.json"
        self.certificates = Certificates(self.path / "certificates")
        self.pepper_file = self.path / "pepper"
        self.pepper_folder = self.path / "peppers"
        self.metadata_file = self.path / "metadata.sqlite"
        self.profile_file = self.path / "profile.toml"
        self.etcd_config_file = self.path / "etcd" / "config.json"
        self.etcd_output_file = self.path / "etcd" / "output.log"
        self.etcd_data = self.path / "etcd" / "data"
        self.supervisor_output_file = self.path / "supervisor.log"
        self._wanted = self.path / "wanted"

    def config_file(self, broker: int) -> Path:
        return self._broker(broker) / "config.json"

    def output_file(self, broker: int) -> Path:
        return self._broker(broker) / "output.log"

    def log_directory(self, broker: int) -> Path:
        return self._broker(broker) / "data"

    def wanted(self) -> set[str]:
        """Names of the brokers and processes that are to run: what was started and not stopped by a command since."""
        return {file.name for file in self._wanted.iterdir()} if self._wanted.exists() else set()

    def want(self, *names: str) -> None:
        """These are to run from now on. Commands may do this at the same time: each name is a file."""
        self._wanted.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self._wanted / name).touch()

    def unwant(self, *names: str) -> None:
        """These are not to run, and are not started again when they have ended."""
        for name in names:
            (self._wanted / name).unlink(missing_ok=True)

    def _broker(self, broker: int) -> Path:
        return self.path / "brokers" / str(broker)

    def load(self) -> ClusterSpec:
        """The cluster that rests here. Raises `NoCluster`."""
        try:
            text = self.cluster_file.read_text()
        except FileNotFoundError:
            raise NoCluster(f"{self.path}: no dev cluster here") from None
        try:
            return ClusterSpec.decode(text)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidRequest(f"{self.cluster_file}: cannot be read: {error}") from error

    def load_or_create(self, brokers: int | None, metadata: str | None = None) -> ClusterSpec:
        """The cluster that rests here, made or grown to `brokers`; None = as it is, or three. `metadata` is one of
        METADATA_STORES; None = as it is, or SQLite.

        Refuses to shrink (the brokers that would go hold replicas) and to change the metadata store.
        """
        try:
            spec = self.load()
        except NoCluster:
            spec = ClusterSpec(cluster_id=f"dev-{secrets.token_hex(8)}", tenant="tn_dev", brokers=())
            if metadata == ETCD:
                taken: set[int] = set()
                spec = replace(
                    spec, etcd=EtcdSpec(client_port=free_port(taken), peer_port=free_port(taken), tls=True)
                )
        if metadata is not None and metadata != spec.metadata:
            raise InvalidRequest(
                f"--metadata: {self.path} keeps its metadata in {spec.metadata}; name another directory with --data"
            )
        have = len(spec.brokers)
        want = brokers if brokers is not None else have or BROKERS_DEFAULT
        if not 1 <= want <= BROKERS_MAX:
            raise InvalidRequest(f"--brokers: {want} is not within 1 to {BROKERS_MAX}")
        if want < have:
            raise InvalidRequest(
                f"--brokers: {self.path} has {have} brokers with replicas on them and cannot shrink to {want}"
            )
        spec = _with_peer_ports(spec)
        if want > have:
            spec = replace(spec, brokers=spec.brokers + tuple(_new_brokers(spec, want)))
        self._write_pepper()
        etcd_tls = spec.etcd is not None and spec.etcd.tls
        self.certificates.make(spec.cluster_id, (broker.id for broker in spec.brokers), etcd=etcd_tls)
        write_private(self.cluster_file, spec.encode())
        for broker in spec.brokers:
            self.log_directory(broker.id).mkdir(parents=True, exist_ok=True)
        if spec.etcd is not None:
            self.etcd_data.mkdir(parents=True, exist_ok=True, mode=0o700)
        return spec

    def remove_broker(self, number: int) -> Path:
        """Take a broker out of the cluster; returns where its files are from now on. Refuses the last one."""
        spec = self.load()
        spec.broker(number)
        if len(spec.brokers) == 1:
            raise InvalidRequest(f"broker {number}: it is the only one; `penstock dev down` stops it")
        left = tuple(broker for broker in spec.brokers if broker.id != number)
        write_private(self.cluster_file, replace(spec, brokers=left).encode())
        kept, tries = self._broker(number).with_name(f"{number}.removed"), 1
        while kept.exists():
            tries += 1
            kept = kept.with_name(f"{number}.removed-{tries}")
        return self._broker(number).rename(kept)

    def _write_pepper(self) -> None:
        if not self.pepper_file.exists():
            write_private(self.pepper_file, secrets.token_hex(32) + "\n")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the directory against other commands that start or stop brokers. Raises `Busy`, not for what takes a
        moment: a process that is started again.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            if not _locked(lock):
                raise Busy(f"{self.path}: another command is changing this cluster")
            yield

    @contextmanager
    def supervising(self) -> Iterator[bool]:
        """Hold the directory against other supervisors; False when another one holds it, and is not just ending."""
        with (self.path / "supervisor.lock").open("w") as lock:
            yield _locked(lock)


def broker_name(number: int) -> str:
    """What a broker is called among the names of all processes."""
    return f"broker-{number}"


def _locked(lock: IO[str]) -> bool:
    deadline = time.monotonic() + _LOCKED_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        time.sleep(_LOOK_S)


def _taken(spec: ClusterSpec) -> set[int]:
    taken = {
        port for b in spec.brokers for port in (b.client_port, b.internal_port, b.http_port, b.peer_port)
    }
    return taken if spec.etcd is None else taken | {spec.etcd.client_port, spec.etcd.peer_port}


def _with_peer_ports(spec: ClusterSpec) -> ClusterSpec:
    taken = _taken(spec)
    brokers = (
        broker if broker.peer_port else replace(broker, peer_port=free_port(taken)) for broker in spec.brokers
    )
    return replace(spec, brokers=tuple(brokers))


def _new_brokers(spec: ClusterSpec, want: int) -> Iterator[BrokerSpec]:
    taken = _taken(spec)
    newest = max((broker.id for broker in spec.brokers), default=0)
    for number in range(newest + 1, newest + 1 + want - len(spec.brokers)):
        client, internal, peer, http = (free_port(taken) for _ in range(4))
        yield BrokerSpec(
            id=number, client_port=client, internal_port=internal, http_port=http, peer_port=peer
        )
