"""What is to be seen of a dev cluster: its processes, whether they serve, and how the cluster itself counts
them.
"""

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from data_plane.contract import admin_pb2 as pb
from data_plane.contract.admin_client import AdminClient
from local import cores, etcd_process, processes
from local.etcd_process import EtcdStatus
from local.free_ports import HOST
from local.layout import BrokerSpec, ClusterSpec, DataDirectory
from local.processes import RunningProcess
from local.profile import PROFILE
from local.supervision import Health
from penstock.contract.errors import PenstockError

_READY_S = 1.0
_DESCRIBE_S = 2.0
_ANSWER_BYTES_MAX = 500


class BrokerState(Enum):
    """What a broker's process is doing."""

    DOWN = "down"
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    """Stopped by a signal: there, but not serving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker as seen from outside; `membership` (active, draining, fenced, unknown) is what the cluster
    says.
    """

    spec: BrokerSpec
    pid: int | None
    cores: str | None
    """Which it runs; None while it does not run."""
    state: BrokerState
    membership: str
    leaders: int
    replicas: int
    is_controller: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.spec.id,
            "pid": self.pid,
            "cores": self.cores,
            "address": self.spec.client_address,
            "internal_address": self.spec.internal_address,
            "http_address": self.spec.http_address,
            "state": self.state.value,
            "membership": self.membership,
            "leaders": self.leaders,
            "replicas": self.replicas,
            "controller": self.is_controller,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A dev cluster at one moment."""

    directory: DataDirectory
    spec: ClusterSpec
    brokers: tuple[BrokerStatus, ...]
    etcd: EtcdStatus | None
    """None: the metadata is a SQLite file."""

    @property
    def running(self) -> bool:
        """At least one broker, or the etcd, has a process."""
        return any(broker.pid is not None for broker in self.brokers) or (
            self.etcd is not None and self.etcd.pid is not None
        )

    def to_json(self) -> dict[str, Any]:
        """The document of `penstock dev status --json`."""
        controllers = [broker.spec.id for broker in self.brokers if broker.is_controller]
        return {
            "cluster_id": self.spec.cluster_id,
            "data": str(self.directory.path),
            "profile": PROFILE,
            "profile_file": str(self.directory.profile_file),
            "tenant": self.spec.tenant,
            "bootstrap": [broker.client_address for broker in self.spec.brokers],
            "certificates": str(self.directory.certificates.folder),
            "replication": self.spec.replication,
            "min_insync": self.spec.min_insync,
            "running": self.running,
            "metadata": {"kind": "sqlite"} if self.etcd is None else self.etcd.to_json(),
            "controller": controllers[0] if controllers else None,
            "brokers": [broker.to_json() for broker in self.brokers],
        }


def state_of(directory: DataDirectory, spec: BrokerSpec) -> tuple[BrokerState, RunningProcess | None]:
    """What the broker's process does, and the process while there is one."""
    process = processes.find(directory.config_file(spec.id))
    if process is None:
        return BrokerState.DOWN, None
    if process.paused:
        return BrokerState.PAUSED, process
    return (BrokerState.READY if is_ready(spec) else BrokerState.STARTING), process


def is_ready(spec: BrokerSpec) -> bool:
    """Whether the broker's /readyz says yes."""
    return says_ready(spec.http_port)


def says_ready(port: int) -> bool:
    """Whether the /readyz of what listens on this port says yes."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_READY_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reason_at(port: int) -> str | None:
    """Why the /readyz of what listens on this port says no; None when it says yes, or is only starting."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_READY_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        if answer.status == http.client.OK:
            return None
        reason = str(json.loads(answer.read(_ANSWER_BYTES_MAX)).get("reason", ""))
        return None if reason in ("", "starting") else reason
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return None
    finally:
        connection.close()


def health_at(port: int) -> Health:
    """What the /healthz of what listens on this port says."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_READY_S)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        if answer.status == http.client.OK:
            return Health()
        return Health(reason=answer.read(_ANSWER_BYTES_MAX).decode(errors="replace").strip())
    except (OSError, http.client.HTTPException) as error:
        said = str(error)
        return Health(reason=f"no answer: {said or type(error).__name__}", answered=False)
    finally:
        connection.close()


def look(directory: DataDirectory) -> ClusterStatus:
    """The cluster that rests in `directory` as it is now. Raises `NoCluster`."""
    spec = directory.load()
    states = [(broker, *state_of(directory, broker)) for broker in spec.brokers]
    ready = [broker for broker, state, _ in states if state is BrokerState.READY]
    described = _describe(directory, ready)
    members = {broker.id: broker for broker in described.brokers}
    brokers = []
    for broker, state, process in states:
        member = members.get(broker.id)
        brokers.append(
            BrokerStatus(
                spec=broker,
                pid=None if process is None else process.pid,
                cores=None if process is None else cores.cores_of(process.process),
                state=state,
                membership=member.state if member else "unknown",
                leaders=member.leaders if member else 0,
                replicas=member.replicas if member else 0,
                is_controller=bool(members) and described.controller == broker.id,
            )
        )
    return ClusterStatus(
        directory=directory, spec=spec, brokers=tuple(brokers), etcd=etcd_process.look(directory, spec)
    )


def _describe(directory: DataDirectory, brokers: Sequence[BrokerSpec]) -> pb.DescribeClusterResponse:
    """What the first of the brokers that answers says; nothing when none does, or none can be asked."""
    addresses = [broker.internal_address for broker in brokers]
    try:
        with AdminClient(addresses, directory.certificates.operator()) as admin:
            return admin.describe_cluster(timeout_s=_DESCRIBE_S)
    except PenstockError:
        return pb.DescribeClusterResponse()
