"""A broker on a host: its ports, its log directory on the host's disk, its configuration and its process."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hosts.host import Host
from hosts.program import Program
from hosts.readiness import answers
from penstock.private_file import write_private

CLIENT, INTERNAL, HTTP, PEER = range(4)
"""What the ports of a broker are for, in their order."""
_FIRST_PORT, _PORTS = 7000, 10


class Broker(Program):
    """One broker; several on a host have ports and folders of their own."""

    def __init__(
        self, number: int, host: Host, settings: Mapping[str, Any], *, stepping: bool = False
    ) -> None:
        """`settings` stand above its own ones. `stepping`: it goes by the clock of its host."""
        self.number = number
        self._first_port = _FIRST_PORT + _PORTS * sum(isinstance(one, Broker) for one in host.programs)
        folder = host.folder / f"broker-{number}"
        self.config = folder / "config.json"
        program = ("hosts.stepping_broker",) if stepping else ("penstock.cli", "broker", "run")
        super().__init__(
            f"broker-{number}",
            host,
            (sys.executable, "-m", *program, "--config", str(self.config)),
            folder=folder,
        )
        self.client_address, self.internal_address = self._address(CLIENT), self._address(INTERNAL)
        self.peer_address = self._address(PEER)
        self._configure(settings)

    def _address(self, purpose: int) -> str:
        return f"{self.host.address}:{self._first_port + purpose}"

    def _configure(self, settings: Mapping[str, Any]) -> None:
        values = {
            "broker_id": self.number,
            "zone": self.host.zone,
            "host": self.host.name,
            "data": str(self.log_directory),
            "client_listen": self.client_address,
            "internal_listen": self.internal_address,
            "peer_listen": self.peer_address,
            "http_listen": self._address(HTTP),
            **settings,
        }
        write_private(self.config, json.dumps(values, indent=2) + "\n")

    def is_ready(self) -> bool:
        """Whether it says that it is registered and serves."""
        return answers(f"http://{self._address(HTTP)}/readyz")

    @property
    def metrics_url(self) -> str:
        return f"http://{self._address(HTTP)}/metrics"

    @property
    def log_directory(self) -> Path:
        return self.host.data / f"log-{self.number}"

    def start(self) -> None:
        """Start it unless it runs."""
        try:
            self.log_directory.mkdir(exist_ok=True)
        except OSError:
            pass  # the disk is gone, which the broker says itself
        super().start()
