"""Apache Kafka from Maven Central: three servers that are broker and controller, as shipped, so they do not sync."""

import base64
import hashlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.etree import ElementTree

import psutil

from benchmarks.peers.system import SERVERS, ClientProgram, Kind, PeerAbsent, Server, run_tool, wait_until
from local.free_ports import HOST, free_port

PROGRAMS = Path(__file__).parent / "java"
_POM = PROGRAMS / "pom.xml"
_DIGESTS = PROGRAMS / "jars.sha256"
_SOURCE = PROGRAMS / "Load.java"
_FETCH_S = 600.0
_TOOL_S = 180.0
_START_S = 180.0
_SERVER_OPTIONS = (
    # What its start script gives a server.
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *(
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
    ),
)
_SETTINGS = {
    # The file that it ships with, except for replication.
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "num.partitions": "1",
    "log.segment.bytes": "1073741824",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "auto.create.topics.enable": "false",
}


def version() -> str:
    """The one that is pinned."""
    found = ElementTree.parse(_POM).findtext(".//{*}dependency/{*}version")
    if found is None:
        raise ValueError(f"{_POM}: no version")
    return found


class Kafka:
    """Three servers in one folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._classes = f"{programs / 'classes'}:{programs / 'lib'}/*"
        self._folder = folder
        taken: set[int] = set()
        self._ports = [free_port(taken) for _ in range(SERVERS)]
        self._controllers = [free_port(taken) for _ in range(SERVERS)]
        self._servers: list[Server] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        try:
            with ThreadPoolExecutor(SERVERS) as pool:
                list(pool.map(partial(self._format, cluster), range(SERVERS)))
            for number in range(SERVERS):
                command = [*self._java(*_SERVER_OPTIONS), "kafka.Kafka", str(self._config(number))]
                self._servers.append(Server(f"kafka-{number + 1}", command, self._folder))
            wait_until(self._ready, self._servers, "Kafka: all servers serve", _START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _format(self, cluster: str, number: int) -> None:
        config = self._configured(number)
        run_tool(
            [
                *self._java(),
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={cluster}",
                "-c",
                str(config),
            ],
            cwd=self._folder,
            timeout_s=_TOOL_S,
        )

    def client(self) -> ClientProgram:
        return ClientProgram(command=[*self._java("-Xmx1G"), "Load"])

    def make_topics(self, name: str, partitions: int, count: int = 1) -> float:
        said = self._asked("make", "--topic", name, "--partitions", str(partitions), "--count", str(count))
        return float(json.loads(said)["made_s"])

    def leader_of(self, topic: str) -> psutil.Process:
        leader = int(json.loads(self._asked("leader", "--topic", topic))["leader"])
        return self._servers[leader - 1].process

    def servers(self) -> list[psutil.Process]:
        return [server.process for server in self._servers if server.runs]

    def _asked(self, *arguments: str) -> str:
        command = [*self.client().command, arguments[0], "--bootstrap", self.bootstrap, *arguments[1:]]
        return run_tool(command, cwd=self._folder, timeout_s=_TOOL_S)

    def _ready(self) -> bool:
        """All serve, which the ends of their logs do not say: a topic with a replica on each can be made."""
        try:
            self.make_topics("ready", 1)
        except RuntimeError:
            return False
        return True

    def _java(self, *options: str) -> list[str]:
        return ["java", *options, "-cp", self._classes]

    def _config(self, number: int) -> Path:
        return self._folder / f"server-{number + 1}.properties"

    def _configured(self, number: int) -> Path:
        data = self._folder / f"data-{number + 1}"
        data.mkdir()
        client = f"PLAINTEXT://{HOST}:{self._ports[number]}"
        controller = f"CONTROLLER://{HOST}:{self._controllers[number]}"
        voters = ",".join(f"{at + 1}@{HOST}:{port}" for at, port in enumerate(self._controllers))
        settings = {
            **_SETTINGS,
            "node.id": str(number + 1),
            "controller.quorum.voters": voters,
            "listeners": f"{client},{controller}",
            "advertised.listeners": f"{client},{controller}",
            "log.dirs": str(data),
        }
        config = self._config(number)
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return config

    def _end(self) -> None:
        for server in self._servers:
            server.kill()


def _prepare(cache: Path) -> Callable[[Path], Kafka]:
    missing = [tool for tool in ("mvn", "java", "javac") if shutil.which(tool) is None]
    if missing:
        raise PeerAbsent(
            f"needs {', '.join(missing)}: install a JDK of version 17 or newer and Maven "
            "(Debian: default-jdk-headless, maven)"
        )
    programs = _programs(cache)
    if not (programs / "ready").exists():
        shutil.rmtree(programs, ignore_errors=True)
        (programs / "classes").mkdir(parents=True)
        try:
            _fetch(programs / "lib")
            run_tool(
                ["javac", "-cp", f"{programs / 'lib'}/*", "-d", str(programs / "classes"), str(_SOURCE)],
                cwd=programs,
                timeout_s=_TOOL_S,
            )
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise PeerAbsent(
                f"could not be fetched or compiled; Maven Central must be reachable: {error}"
            ) from None
        (programs / "ready").touch()
    return partial(Kafka, programs)


def _programs(cache: Path) -> Path:
    content = b"".join(file.read_bytes() for file in (_POM, _DIGESTS, _SOURCE))
    return cache / f"kafka-{hashlib.sha256(content).hexdigest()[:12]}"


def _fetch(folder: Path) -> None:
    """The jars, and no others than those whose digests are pinned. Raises `RuntimeError`."""
    command = [
        "mvn",
        "-B",
        "-q",
        "-C",
        "-f",
        str(_POM),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={folder}",
    ]
    run_tool(command, cwd=folder.parent, timeout_s=_FETCH_S)
    pinned = {name: digest for digest, name in (line.split() for line in _DIGESTS.read_text().splitlines())}
    fetched = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}
    different = sorted(name for name, _ in set(pinned.items()) ^ set(fetched.items()))
    if different:
        raise RuntimeError(f"these are not the files that {_DIGESTS.name} pins: {', '.join(different)}")


KAFKA = Kind(
    key="kafka",
    title=f"Kafka {version()}",
    synced="never, the kernel decides",
    codecs=("none", "zstd"),
    # Servers and each client compile while they run.
    windows=5,
    warm_up=15,
    programs=_programs,
    prepare=_prepare,
)
