"""A service for browsers: three brokers, control plane and worker as processes, SQLite; without the usage pipeline."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import service_processes
from local.cluster import DevCluster
from local.layout import DataDirectory
from local.service_layout import Backends, ServiceDirectory
from local.service_processes import WEB, WORKER, ServiceState
from tests import migrated
from tests.waiting import PATIENCE_S


@dataclass(frozen=True, kw_only=True)
class Service:
    """Where it is, and what an operator and a program need."""

    url: str
    bootstrap: list[str]
    directory: ServiceDirectory
    cluster: DevCluster

    @property
    def operator_token(self) -> str:
        return self.directory.operator_token_file.read_text(encoding="ascii").strip()

    @contextmanager
    def brokers_killed(self) -> Iterator[None]:
        """SIGKILL to all brokers at once; they are there again at the end of the block."""
        for broker in self.cluster.directory.load().brokers:
            self.cluster.kill_broker(broker.id)
        try:
            yield
        finally:
            self.cluster.up(3, lambda done, steps, note: None, provisioned=False)

    def command(self, *arguments: str) -> None:
        """Run a command of the service to its end."""
        ended = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.directory.path,
            env=service_processes.environment_for(self.directory, arguments[-1]),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, f"{arguments}: {ended.stdout[-1_500:]}{ended.stderr[-3_000:]}"


@contextmanager
def running_service(path: Path, *, named: bool = False, **settings: object) -> Iterator[Service]:
    """Ready at the start of the block; no process is left at its end.

    `named`: reached as localhost and not by its address. `settings` stand above those of the control plane.
    """
    data = DataDirectory(path)
    directory = ServiceDirectory(data)
    cluster = DevCluster(data)
    spec = directory.load_or_create(Backends())
    children: list[subprocess.Popen[bytes]] = []
    try:
        up = cluster.up(3, lambda done, steps, note: None, provisioned=False)
        directory.write_config(spec, up.spec)
        config = {**json.loads(directory.config_file.read_text()), **settings}
        if named:
            config["public_url"] = f"http://localhost:{spec.web_port}"
        directory.config_file.write_text(json.dumps(config))
        service = Service(
            url=str(config["public_url"]),
            bootstrap=list(config["brokers"]["bootstrap"]),
            directory=directory,
            cluster=cluster,
        )
        migrated.put_sqlite(directory.path / "control.sqlite")
        service.command("control_plane", "bootstrap")
        for process in (WEB, WORKER):
            children.append(service_processes.start(directory, process))
        deadline = time.monotonic() + PATIENCE_S
        for process in (WEB, WORKER):
            while service_processes.look(directory, spec, process).state is not ServiceState.READY:
                if time.monotonic() > deadline:
                    output = directory.output_file(process.name).read_text(errors="replace")
                    raise AssertionError(
                        f"{process.name} is not ready after {PATIENCE_S:g} s\n{output[-3_000:]}"
                    )
                time.sleep(0.1)
        yield service
    finally:
        service_processes.stop(directory, [WEB, WORKER], 5)
        for child in children:
            child.wait(PATIENCE_S)
        cluster.down(timeout_s=5)
