"""The etcd of a dev cluster: one member, its configuration, and its process found, started and ended.

Like a broker it is known by its exact command line, never by a noted process id.
"""

import http.client
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from local import processes
from local.certificates import ETCD
from local.free_ports import HOST, require_free
from local.layout import ClusterSpec, DataDirectory, EtcdSpec
from penstock.contract.errors import PenstockError
from penstock.private_file import write_private

PROGRAM = "etcd"
COMPACTION_RETENTION = "1h"
"""A broker that was away for longer lists all its metadata again."""
_HEALTH_S = 1.0


class EtcdMissing(PenstockError):
    """The program is not installed."""

    remedy: ClassVar[str] = "Install it (Debian: apt install etcd-server), or leave --metadata etcd away."


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdStatus:
    """The member as seen from outside; `state` is down, starting, ready or paused."""

    spec: EtcdSpec
    pid: int | None
    state: str
    output: Path

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "etcd",
            "pid": self.pid,
            "state": self.state,
            "address": self.spec.client_address,
            "output": str(self.output),
        }


def find(directory: DataDirectory) -> processes.RunningProcess | None:
    """The process of this directory's etcd, from wherever it was started."""
    return processes.find_by(_arguments(directory))


def start(directory: DataDirectory, spec: EtcdSpec) -> subprocess.Popen[bytes]:
    """Start it with the data that it has. Raises `EtcdMissing`, `PortTaken`."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise EtcdMissing(f"{PROGRAM}: no such program on this machine")
    for port in (spec.client_port, spec.peer_port):
        require_free("etcd", port)
    _write_config(directory, spec)
    output = directory.etcd_output_file
    return processes.start_command([program, *_arguments(directory)], output)


def look(directory: DataDirectory, cluster: ClusterSpec) -> EtcdStatus | None:
    """None where the metadata is a SQLite file."""
    spec = cluster.etcd
    if spec is None:
        return None
    process = find(directory)
    if process is None:
        state = "down"
    elif process.paused:
        state = "paused"
    else:
        state = "ready" if serves(directory, spec) else "starting"
    pid = None if process is None else process.pid
    return EtcdStatus(spec=spec, pid=pid, state=state, output=directory.etcd_output_file)


def _arguments(directory: DataDirectory) -> list[str]:
    return ["--config-file", str(directory.etcd_config_file)]


def _write_config(directory: DataDirectory, spec: EtcdSpec) -> None:
    scheme = "https" if spec.tls else "http"
    client, peer = f"{scheme}://{spec.client_address}", f"{scheme}://{spec.peer_address}"
    values: dict[str, Any] = {
        "name": "dev",
        "data-dir": str(directory.etcd_data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"dev={peer}",
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": COMPACTION_RETENTION,
        "logger": "zap",
        "log-level": "warn",
    }
    if spec.tls:
        files = directory.certificates.files(ETCD)
        security = {
            "cert-file": str(files.certificate_file),
            "key-file": str(files.key_file),
            "trusted-ca-file": str(files.ca_file),
            "client-cert-auth": True,
        }
        values |= {"client-transport-security": security, "peer-transport-security": security}
    write_private(directory.etcd_config_file, json.dumps(values, indent=2) + "\n")


def serves(directory: DataDirectory, spec: EtcdSpec) -> bool:
    """Whether it says that it takes part in a cluster with a leader."""
    connection = http.client.HTTPConnection(HOST, spec.client_port, timeout=_HEALTH_S)
    if spec.tls:
        context = directory.certificates.operator().current.client
        connection = http.client.HTTPSConnection(HOST, spec.client_port, timeout=_HEALTH_S, context=context)
    try:
        connection.request("GET", "/health")
        return bool(json.loads(connection.getresponse().read()).get("health") == "true")
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return False
    finally:
        connection.close()
