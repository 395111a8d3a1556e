"""etcd on hosts: nodes over TLS with certificates of both sides, for clients and among themselves."""

import http.client
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from hosts.certificates import Identity
from hosts.commands import find
from hosts.host import Host
from hosts.program import Program

_CLIENT_PORT, _PEER_PORT = 2379, 2380
_ASK_S = 2.0


class EtcdNode(Program):
    """One node."""

    def __init__(self, host: Host, identity: Identity, members: Mapping[str, str]) -> None:
        """`members` are all nodes' addresses by name, this one among them."""
        self._identity = identity
        self.data = host.data / "etcd-data"
        client, peer = (f"https://{host.address}:{port}" for port in (_CLIENT_PORT, _PEER_PORT))
        files = {
            "cert-file": identity.certificate_file,
            "key-file": identity.key_file,
            "trusted-ca-file": identity.ca_file,
        }
        settings = {
            "name": host.name,
            "data-dir": self.data,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(
                f"{name}=https://{address}:{_PEER_PORT}" for name, address in members.items()
            ),
            "initial-cluster-token": "hosts",
            **files,
            **{f"peer-{name}": file for name, file in files.items()},
            "logger": "zap",
            "log-level": "warn",
        }
        arguments = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        super().__init__(
            "etcd", host, (find("etcd"), *arguments, "--client-cert-auth", "--peer-client-cert-auth")
        )

    def leads(self) -> bool:
        """Whether it says that it is the leader now; False when it does not answer."""
        return b"\netcd_server_is_leader 1\n" in self._ask("/metrics")

    def serves(self) -> bool:
        """Whether it says that it takes part in a cluster with a leader."""
        return b'"health":"true"' in self._ask("/health")

    def _ask(self, path: str) -> bytes:
        context = ssl.create_default_context(cafile=str(self._identity.ca_file))
        context.load_cert_chain(self._identity.certificate_file, self._identity.key_file)
        connection = http.client.HTTPSConnection(
            self.host.address, _CLIENT_PORT, timeout=_ASK_S, context=context
        )
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return b""
        finally:
            connection.close()


class Etcd:
    """The nodes of one cluster, and what a broker's configuration says of them."""

    def __init__(self, hosts: Sequence[Host], identities: Mapping[str, Identity]) -> None:
        """`identities` by the name of the host."""
        members = {host.name: host.address for host in hosts}
        self.nodes = [EtcdNode(host, identities[host.name], members) for host in hosts]

    def settings(self, client: Identity) -> Mapping[str, Any]:
        """For a broker that shows that identity."""
        return {
            "metadata": {
                "kind": "etcd",
                "endpoints": [f"{node.host.address}:{_CLIENT_PORT}" for node in self.nodes],
                **client.settings,
            }
        }

    def leader(self) -> EtcdNode | None:
        """The node that says it leads; None when none says so."""
        return next((node for node in self.nodes if node.leads()), None)

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def end(self) -> None:
        for node in self.nodes:
            node.kill()
