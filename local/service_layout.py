"""What the service adds to a dev cluster's data directory: its configuration, its account and its processes' files.

service/                what follows; the control plane and the pipeline keep their state here too
  service.json          port of the web interface, secret key, database and transport
  config.json           the configuration of the control plane and the pipeline (PENSTOCK_CONFIG)
  account.json          the person, password and tenant that `dev up` signed up
  <process>.log         what a process prints
  runner.json           the heartbeat of the runner
  control.sqlite        the embedded database
  celery/               the embedded transport of wake-ups
  datasets/             what Spark makes of the usage
  usage.key             the service account's key that reads the usage
  operator.token        what operators' REST calls carry
"""

import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from daemon.identity import Role
from local.broker_config import PEPPER_VERSION
from local.free_ports import HOST, free_port
from local.layout import ClusterSpec, DataDirectory
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.private_file import write_private

ENVIRONMENT = "dev"
PIPELINE_INTERVAL_S = 10
"""Between two rounds of the usage pipeline, unless the service was made with another one."""
_SPARK_MASTER = "local[2]"


class NoService(NotFound):
    """The data directory holds brokers alone."""

    remedy = "Make a service with `penstock dev up` (without --bare) in a data directory of its own."


class HasNoService(InvalidRequest):
    """A directory of bare brokers cannot become a service: its tenant is unknown to a control plane."""

    remedy = "Name another directory with --data, or add --bare to start its brokers alone."


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Where the control plane keeps its rows and how its wake-ups travel; None = embedded in the data directory."""

    database_url: str | None = None
    celery_broker_url: str | None = None
    payments: dict[str, str] | None = None
    """The section `payments` of the configuration; None = its defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """What is fixed of one service."""

    web_port: int
    worker_port: int = 0
    runner_port: int = 0
    prober_port: int = 0
    web_metrics_port: int = 0
    """These ports are 0 in what earlier versions wrote, until they are chosen."""
    secret_key: str
    database_url: str
    celery_broker_url: str
    price_book_file: str | None = None
    payments: dict[str, str] | None = None
    pipeline_interval_s: int = PIPELINE_INTERVAL_S

    @property
    def web_address(self) -> str:
        return f"{HOST}:{self.web_port}"

    @property
    def web_metrics_address(self) -> str:
        return f"{HOST}:{self.web_metrics_port}"

    @property
    def api_url(self) -> str:
        return f"http://{self.web_address}"

    def port_of(self, process: str) -> int:
        """Where that process answers /healthz and /readyz; 0: nowhere."""
        ports = {
            "web": self.web_port,
            "worker": self.worker_port,
            "runner": self.runner_port,
            "prober": self.prober_port,
        }
        return ports.get(process, 0)

    def encode(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def decode(cls, text: str) -> Self:
        return cls(**json.loads(text))


class ServiceDirectory:
    """File names of the service in one data directory."""

    def __init__(self, directory: DataDirectory) -> None:
        self.path = directory.path / "service"
        self._cluster = directory
        self.spec_file = self.path / "service.json"
        self.config_file = self.path / "config.json"
        self.account_file = self.path / "account.json"
        self.datasets = self.path / "datasets"
        self.usage_key_file = self.path / "usage.key"
        self.operator_token_file = self.path / "operator.token"

    @property
    def exists(self) -> bool:
        """Whether there is a service here, or only brokers, or nothing yet."""
        return self.spec_file.exists()

    def output_file(self, process: str) -> Path:
        return self.path / f"{process}.log"

    def heartbeat_file(self, process: str) -> Path:
        return self.path / f"{process}.json"

    def load(self) -> ServiceSpec:
        """The service that rests here. Raises `NoService`."""
        try:
            text = self.spec_file.read_text()
        except FileNotFoundError:
            raise NoService(f"{self._cluster.path}: no service here, only brokers") from None
        try:
            spec = ServiceSpec.decode(text)
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"{self.spec_file}: cannot be read: {error}") from error
        if not (spec.worker_port and spec.runner_port and spec.prober_port and spec.web_metrics_port):
            taken = {spec.web_port, spec.worker_port, spec.runner_port}
            spec = replace(
                spec,
                worker_port=spec.worker_port or free_port(taken),
                runner_port=spec.runner_port or free_port(taken),
                prober_port=spec.prober_port or free_port(taken),
                web_metrics_port=spec.web_metrics_port or free_port(taken),
            )
            write_private(self.spec_file, spec.encode())
        return spec

    def load_or_create(
        self, backends: Backends, price_book: Path | None = None, pipeline_interval_s: int | None = None
    ) -> ServiceSpec:
        """The service that rests here, or a new one; None: with the interval that it has. Raises `HasNoService` for a
        directory of bare brokers.
        """
        if self.exists:
            spec = self.load()
            if pipeline_interval_s is not None and pipeline_interval_s != spec.pipeline_interval_s:
                spec = replace(spec, pipeline_interval_s=pipeline_interval_s)
                write_private(self.spec_file, spec.encode())
            return spec
        if self._cluster.profile_file.exists():
            raise HasNoService(f"{self._cluster.path}: was made with --bare and holds brokers alone")
        self.datasets.mkdir(parents=True, exist_ok=True)
        taken: set[int] = set()
        spec = ServiceSpec(
            web_port=free_port(taken),
            worker_port=free_port(taken),
            runner_port=free_port(taken),
            prober_port=free_port(taken),
            web_metrics_port=free_port(taken),
            secret_key=secrets.token_urlsafe(48),
            database_url=backends.database_url or f"sqlite:///{self.path / 'control.sqlite'}",
            celery_broker_url=backends.celery_broker_url or f"filesystem://{self.path / 'celery'}",
            price_book_file=None if price_book is None else str(price_book.absolute()),
            payments=backends.payments,
            pipeline_interval_s=pipeline_interval_s or PIPELINE_INTERVAL_S,
        )
        write_private(self.spec_file, spec.encode())
        return spec

    def write_config(self, spec: ServiceSpec, cluster: ClusterSpec) -> None:
        """Write what the control plane and the pipeline are started with."""
        values = {
            "environment": ENVIRONMENT,
            "identity": self._cluster.certificates.settings(Role.CONTROL_PLANE.value),
            "secret_key": spec.secret_key,
            "database_url": spec.database_url,
            "celery_broker_url": spec.celery_broker_url,
            "public_url": spec.api_url,
            "listen": spec.web_address,
            "web_metrics_listen": spec.web_metrics_address,
            "worker_listen": f"{HOST}:{spec.worker_port}",
            "runner_listen": f"{HOST}:{spec.runner_port}",
            "prober_listen": f"{HOST}:{spec.prober_port}",
            "brokers": {
                "bootstrap": [broker.client_address for broker in cluster.brokers],
                "internal": [broker.internal_address for broker in cluster.brokers],
                "pepper_file": str(self._cluster.pepper_file),
                "pepper_version": PEPPER_VERSION,
                "pepper_folder": str(self._cluster.pepper_folder),
            },
            "datasets": str(self.datasets),
            "usage_key_file": str(self.usage_key_file),
            "operator_token_file": str(self.operator_token_file),
            "spark": {"master": _SPARK_MASTER},
            "pipeline_interval_s": spec.pipeline_interval_s,
            "price_book_file": spec.price_book_file,
            **({} if spec.payments is None else {"payments": spec.payments}),
        }
        write_private(self.config_file, json.dumps(values, indent=2) + "\n")
