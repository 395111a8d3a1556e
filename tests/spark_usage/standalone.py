"""A standalone cluster of Spark from the wheel of pyspark: a master and two workers on loopback, hurt by process id."""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark

from local.free_ports import HOST, free_port
from tests.waiting import PATIENCE_S, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that end soon."""
_LAST_LINES = 15


class StandaloneCluster:
    """Its processes write their output and keep what they work with below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        ports: set[int] = set()
        self._port = free_port(ports)
        self._web_port = free_port(ports)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def start_master(self) -> None:
        self._launch(
            "master", "Master", "--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)
        )
        wait_until("the master serves", lambda: self.state() is not None)

    def start_worker(self, number: int) -> None:
        name = f"worker-{number}"
        self._launch(
            name, "Worker", "--host", HOST, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g",
            "--work-dir", str(self._folder / name), self.master,
        )  # fmt: skip

    def start(self) -> None:
        """All that do not run; returns once the master knows every worker."""
        if not self._runs("master"):
            self.start_master()
        for number in range(WORKERS):
            if not self._runs(f"worker-{number}"):
                self.start_worker(number)
        wait_until("every worker is known", lambda: (self.state() or {}).get("aliveworkers") == WORKERS)

    def state(self) -> dict[str, Any] | None:
        """What the master says of itself, None while it does not answer."""
        connection = http.client.HTTPConnection(HOST, self._web_port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/json/")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        except (OSError, http.client.HTTPException, ValueError):  # until it is up it answers with a page
            return None
        finally:
            connection.close()

    def kill_master(self) -> None:
        self._kill("master")

    def kill_worker(self, number: int) -> None:
        """SIGKILL to the worker, its executors and their Pythons."""
        self._kill(f"worker-{number}")

    def command_lines(self) -> list[str]:
        """Of the workers' executors and everything below them."""
        found = []
        for number in range(WORKERS):
            for child in self._below(number):
                try:
                    found.append(" ".join(child.cmdline()))
                except psutil.NoSuchProcess:
                    pass
        return found

    def _below(self, number: int) -> list[psutil.Process]:
        return psutil.Process(self._processes[f"worker-{number}"].pid).children(recursive=True)

    def has(self, number: int, pid: int) -> bool:
        """Whether a process is below a worker."""
        return any(child.pid == pid for child in self._below(number))

    def last_words(self) -> str:
        """The end of every process's output, for the message of a failure."""
        return "\n".join(
            f"--- {file.stem}\n" + "\n".join(file.read_text(errors="replace").splitlines()[-_LAST_LINES:])
            for file in sorted(self._folder.glob("*.output"))
        )

    def end(self) -> None:
        """No process is left after this."""
        for name in reversed(list(self._processes)):
            self._kill(name)

    def _launch(self, name: str, kind: str, *arguments: str) -> None:
        (self._folder / "conf").mkdir(exist_ok=True)
        with (self._folder / f"{name}.output").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [
                    str(SPARK_HOME / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{kind.lower()}.{kind}",
                    *arguments,
                ],
                env=self._environment(name),
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self, name: str) -> Mapping[str, str]:
        """Without the paths of this project: executors get its code from the driver."""
        inherited = {
            key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PENSTOCK_CONFIG")
        }
        return {
            **inherited,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder / f"{name}.local"),
            "SPARK_LOCAL_IP": HOST,
        }

    def _runs(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def _kill(self, name: str) -> None:
        process = self._processes[name]
        if process.poll() is None:
            family = psutil.Process(process.pid).children(recursive=True)
            os.kill(process.pid, signal.SIGKILL)
            for member in family:
                try:
                    member.kill()
                except psutil.NoSuchProcess:
                    pass
        process.wait()


@contextmanager
def standalone(folder: Path) -> Iterator[StandaloneCluster]:
    """A master with two workers of one core each."""
    cluster = StandaloneCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
