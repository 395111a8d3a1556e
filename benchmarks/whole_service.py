"""A whole service for one benchmark: brokers, web application and worker, on a real PostgreSQL and a real Redis."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.cluster import cpu_s
from demo.servers import Servers
from local.layout import DataDirectory
from local.profile import read_api_key
from local.service import DevService, ServiceUp
from local.service_layout import Backends
from penstock.rest.client import RestClient

BROKERS = 3
_SETTLED_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is used while no caller asks for anything: bytes of memory that are resident, percent of a core."""

    rss: dict[str, float]
    percent: dict[str, float]


class WholeService:
    """Up within the block. The usage pipeline is paused: its Spark is another figure's, and takes what it can get."""

    def __init__(self, folder: Path) -> None:
        folder = folder.absolute()
        folder.chmod(0o711)  # the database's own user gets through it
        os.environ["PENSTOCK_PROFILE_FILE"] = str(folder / "profiles.toml")
        self.directory = DataDirectory(folder / "service")
        self.dev = DevService(self.directory)
        self._servers = Servers(folder / "servers")
        self.up: ServiceUp

    def __enter__(self) -> Self:
        addresses = self._servers.start(lambda what: None)
        backends = Backends(
            database_url=addresses.database_url, celery_broker_url=addresses.celery_broker_url
        )
        try:
            self.up = self.dev.up(BROKERS, lambda done, steps, note: None, backends=backends)
            time.sleep(_SETTLED_S)
            for process in self.processes("runner"):
                process.suspend()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self.dev.down()
        finally:
            self._servers.stop()

    @property
    def api_url(self) -> str:
        return self.up.spec.api_url

    @property
    def api_key(self) -> str:
        """Of the service's first tenant."""
        key = read_api_key(self.directory)
        if key is None:
            raise RuntimeError("the service has no key")
        return key

    @property
    def bootstrap(self) -> list[str]:
        return [broker.client_address for broker in self.up.cluster.spec.brokers]

    def operator(self, tenant: str | None = None) -> RestClient:
        token = self.dev.service.operator_token_file.read_text(encoding="ascii").strip()
        return RestClient(self.api_url, token, tenant=tenant, timeout_s=60.0)

    def own_tenant(self) -> str:
        with RestClient(self.api_url, self.api_key) as own:
            return str(next(own.items("/v1/tenants"))["id"])

    def allow(self, partitions: int) -> None:
        """The service's first tenant may have so many."""
        with self.operator(self.own_tenant()) as operator:
            if not operator.patch("/v1/quotas", {"partitions_max": partitions})["delivered"]:
                raise RuntimeError("the brokers have not got the limit")

    def rest(self, seconds: float) -> Rest:
        """Watch it for so long without asking for anything."""
        parts = {name: self.processes(name) for name in ("web", "worker")}
        for broker in self.up.cluster.spec.brokers:
            found = self.dev.cluster.process_of(broker.id)
            parts[f"broker {broker.id}"] = [] if found is None else [found.process]
        before = {name: sum(map(cpu_s, running)) for name, running in parts.items()}
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        return Rest(
            rss={
                name: float(sum(one.memory_info().rss for one in running)) for name, running in parts.items()
            },
            percent={
                name: 100 * (sum(map(cpu_s, running)) - before[name]) / took
                for name, running in parts.items()
            },
        )

    def processes(self, name: str) -> list[psutil.Process]:
        """A process of the service with what it forked."""
        leader = next(status.pid for status in self.dev.look() if status.process.name == name)
        if leader is None:
            raise RuntimeError(f"{name} does not run")
        found = psutil.Process(leader)
        return [found, *found.children(recursive=True)]
