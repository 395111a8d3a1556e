"""The configuration file of each broker of a dev cluster, and the pepper that its brokers share."""

import json
from collections.abc import Mapping
from typing import Any

from local.layout import BrokerSpec, ClusterSpec, DataDirectory, broker_name
from penstock.private_file import write_private

PEPPER_VERSION = 1
_BALLAST_BYTES = 4 << 20
_DRAIN_MS = 3_000
"""Leaders move in milliseconds here, and when all brokers stop at once the last one has no other to wait for."""


def read_pepper(directory: DataDirectory) -> bytes:
    """The pepper with which the stored form of the cluster's keys is made."""
    return bytes.fromhex(directory.pepper_file.read_text().strip())


def write_broker_config(
    directory: DataDirectory, spec: ClusterSpec, broker: BrokerSpec, settings: Mapping[str, Any] | None = None
) -> None:
    """Write what the broker is started with, `settings` over all else. Each broker is a failure domain of its own."""
    identity = directory.certificates.settings(broker_name(broker.id))
    etcd: dict[str, Any] | None = None
    if spec.etcd is not None:
        etcd = {
            "kind": "etcd",
            "endpoints": [spec.etcd.client_address],
            **(identity if spec.etcd.tls else {}),
        }
    values = {
        "broker_id": broker.id,
        "cluster_id": spec.cluster_id,
        "zone": f"zone-{broker.id}",
        "data": str(directory.log_directory(broker.id)),
        "metadata": etcd or str(directory.metadata_file),
        "client_listen": broker.client_address,
        "internal_listen": broker.internal_address,
        "peer_listen": broker.peer_address,
        "http_listen": broker.http_address,
        "identity": identity,
        "pepper_files": {str(PEPPER_VERSION): str(directory.pepper_file)},
        "pepper_folder": str(directory.pepper_folder),
        "timings": {"drain_ms": _DRAIN_MS},
        "limits": {"ballast_bytes": _BALLAST_BYTES},
        **(settings or {}),
    }
    write_private(directory.config_file(broker.id), json.dumps(values, indent=2) + "\n")
