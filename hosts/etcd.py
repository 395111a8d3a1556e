"""Three etcd nodes on hosts of their own, over TLS with certificates of both sides; peers speak in the clear."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.commands import find
from chaos.switch import Switch, Wire, address_of

NODES = (1, 2, 3)
_FIRST_HOST = 10
_CLIENT_PORT, _PEER_PORT = 2379, 2380
_GONE_S = 20.0


def etcd_addresses() -> list[str]:
    return [address_of(_FIRST_HOST + number) for number in NODES]


class EtcdNode:
    """One node: its namespace and its process."""

    def __init__(self, number: int, folder: Path, wire: Wire, certificate: Path) -> None:
        self.number, self.wire = number, wire
        self._folder, self._certificate = folder, certificate
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        client, peer = (
            f"https://{self.wire.address}:{_CLIENT_PORT}",
            f"http://{self.wire.address}:{_PEER_PORT}",
        )
        members = ",".join(
            f"e{number}=http://{address}:{_PEER_PORT}"
            for number, address in zip(NODES, etcd_addresses(), strict=True)
        )
        certificate, key = str(self._certificate), str(self._certificate.with_suffix(".key"))
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                self.wire.command(
                    *(find("etcd"), "--name", f"e{self.number}", "--data-dir", str(self._folder / "data")),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", members, "--initial-cluster-token", "chaos"),
                    *("--cert-file", certificate, "--key-file", key),
                    *("--client-cert-auth", "--trusted-ca-file", certificate),
                    *("--logger", "zap", "--log-level", "warn"),
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,
            )

    def signal(self, what: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, what)

    def kill(self) -> None:
        """SIGKILL; it is gone on return."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_GONE_S)


class EtcdHosts:
    """The nodes, and what a broker's configuration says of them."""

    def __init__(self, folder: Path, switch: Switch, certificate: Path) -> None:
        self.nodes = [
            EtcdNode(
                number, folder / f"e{number}", switch.connect(f"e{number}", _FIRST_HOST + number), certificate
            )
            for number in NODES
        ]
        self.settings: Mapping[str, Any] = {
            "metadata": {
                "kind": "etcd",
                "endpoints": [f"{address}:{_CLIENT_PORT}" for address in etcd_addresses()],
                "ca_file": str(certificate),
                "certificate_file": str(certificate),
                "key_file": str(certificate.with_suffix(".key")),
            }
        }

    @property
    def addresses(self) -> list[str]:
        return [node.wire.address for node in self.nodes]

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def end(self) -> None:
        for node in self.nodes:
            node.kill()
