"""The processes of the control plane on hosts: their configuration, their environment, and whether they serve."""

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hosts.certificates import Identity
from hosts.commands import run
from hosts.host import Host
from hosts.program import Program
from hosts.readiness import answers
from local.service_processes import CONFIG_VARIABLE as VARIABLE
from penstock.private_file import write_private

WEB_ADDRESS = "127.0.0.1:8000"
_COMMAND_S = 180.0
_INTERVAL_S = 10
_MASTER = "local[2]"
_WEB_METRICS_PORT, _WORKER_PORT, _RUNNER_PORT = 8005, 8010, 8020


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the configuration of all these processes says. `shared` is a folder that all of them see."""

    database_url: str
    celery_broker_url: str
    public_url: str
    brokers: Mapping[str, Any]
    ca_file: Path
    """Whom clients of brokers trust."""
    shared: Path
    secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def datasets(self) -> Path:
        return self.shared / "datasets"

    @property
    def operator_token_file(self) -> Path:
        return self.shared / "operator.token"

    def write(self, file: Path, host: Host, identity: Identity) -> None:
        """For the processes of that host."""
        values = {
            "environment": "hosts",
            "identity": identity.settings,
            "secret_key": self.secret_key,
            "database_url": self.database_url,
            "database_tls": identity.settings,
            "celery_broker_url": self.celery_broker_url,
            "redis_tls": identity.settings,
            "public_url": self.public_url,
            "trusted_proxies": ["127.0.0.1"],
            "listen": WEB_ADDRESS,
            "web_metrics_listen": f"{host.address}:{_WEB_METRICS_PORT}",
            "worker_listen": f"{host.address}:{_WORKER_PORT}",
            "runner_listen": f"{host.address}:{_RUNNER_PORT}",
            "brokers": {**self.brokers, "ca_file": str(self.ca_file)},
            "datasets": str(self.datasets),
            "usage_key_file": str(self.shared / "usage.key"),
            "operator_token_file": str(self.operator_token_file),
            "spark": {"master": _MASTER},
            "pipeline_interval_s": _INTERVAL_S,
        }
        write_private(file, json.dumps(values, indent=2) + "\n")


class Process(Program):
    """A web process, a worker or a runner: one of a host each."""

    def __init__(self, name: str, host: Host, settings: Settings, identity: Identity) -> None:
        config = host.folder / "server.json"
        settings.write(config, host, identity)
        super().__init__(
            name,
            host,
            (sys.executable, "-m", "penstock.cli", "server", name, "--config", str(config)),
            environment={"PYTHONUNBUFFERED": "1"},
        )

    def serves(self) -> bool:
        """Whether it says that it is ready; a runner that waits for another one's end lives. Of a web process, whether
        it runs: it is asked at its end of TLS.
        """
        match self.name:
            case "web":
                return self.runs
            case "worker":
                return answers(f"http://{self.host.address}:{_WORKER_PORT}/readyz")
            case _:
                return self.works or answers(f"http://{self.host.address}:{_RUNNER_PORT}/healthz")

    @property
    def works(self) -> bool:
        """Of a runner: whether it is the one that works."""
        return answers(f"http://{self.host.address}:{_RUNNER_PORT}/readyz")


def run_command(host: Host, settings: Settings, identity: Identity, command: str) -> None:
    """One of the control plane's commands, on that host, to its end. Raises `CommandFailed`."""
    config = host.folder / "server.json"
    settings.write(config, host, identity)
    variables = {**host.environment, "PYTHONUNBUFFERED": "1", VARIABLE: str(config)}
    run(
        *host.wire.command(sys.executable, "-m", "control_plane", command),
        timeout_s=_COMMAND_S,
        cwd=host.folder,
        environment=variables,
    )
