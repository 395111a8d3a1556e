"""A web process on SQLite, without brokers and worker."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local.free_ports import free_port
from tests import migrated
from tests.control_plane.configuration import write
from tests.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """A web process that serves, and its database."""

    port: int
    metrics_port: int
    process: subprocess.Popen[bytes]
    database: Path
    log: Path


@contextmanager
def web_process(folder: Path, **settings: object) -> Iterator[int]:
    """Its port; the rest as of `running_web`."""
    with running_web(folder, **settings) as web:
        yield web.port


@contextmanager
def running_web(folder: Path, **settings: object) -> Iterator[Web]:
    """`settings` go above the usual ones of its configuration. It must have told no traceback at the end."""
    file = write(folder, f"sqlite:///{folder}/control.sqlite")
    taken: set[int] = set()
    port, metrics_port = free_port(taken), free_port(taken)
    listeners = {"listen": f"127.0.0.1:{port}", "web_metrics_listen": f"127.0.0.1:{metrics_port}"}
    file.write_text(json.dumps(json.loads(file.read_text()) | listeners | settings))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        "PENSTOCK_CONFIG": str(file),
    }
    if "database_url" in settings:
        command = [sys.executable, "-m", "control_plane", "migrate", "-v0", "--skip-checks"]
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=PATIENCE_S)
    else:
        migrated.put_sqlite(folder / "control.sqlite")
    log = folder / "web.log"
    with log.open("wb") as output:
        web = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "server", "web", "--config", str(file)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not lives(port):
            assert time.monotonic() < deadline, log.read_text()[-3_000:]
            time.sleep(0.02)
        yield Web(
            port=port, metrics_port=metrics_port, process=web, database=folder / "control.sqlite", log=log
        )
        assert "Traceback" not in log.read_text()
    finally:
        web.terminate()
        web.wait(PATIENCE_S)


def lives(port: int) -> bool:
    """Whether it answers a request for its health."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()
