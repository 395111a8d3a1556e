"""NATS JetStream from the Go module proxy: three servers, with every write synced or as shipped."""

import hashlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.peers.system import SERVERS, ClientProgram, Kind, PeerAbsent, Server, run_tool, wait_until
from local.free_ports import HOST, free_port

PROGRAMS = Path(__file__).parent / "go"
_MODULE = PROGRAMS / "go.mod"
_SUMS = PROGRAMS / "go.sum"
_SOURCE = PROGRAMS / "main.go"
_SERVER = "github.com/nats-io/nats-server/v2"
_BUILD_S = 900.0
_TOOL_S = 180.0
_START_S = 60.0


def version() -> str:
    """The one that is pinned."""
    lines = (line.split() for line in _MODULE.read_text().splitlines())
    return next(parts[1].removeprefix("v") for parts in lines if parts[:1] == [_SERVER])


class Nats:
    """Three servers in one folder. A partition is a stream with three replicas."""

    def __init__(self, programs: Path, sync_interval: str | None, folder: Path) -> None:
        self._programs = programs
        self._sync_interval = sync_interval
        self._folder = folder
        taken: set[int] = set()
        self._ports = [free_port(taken) for _ in range(SERVERS)]
        self._routes = [free_port(taken) for _ in range(SERVERS)]
        self._monitors = [free_port(taken) for _ in range(SERVERS)]
        self._servers: list[Server] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"nats://{HOST}:{port}" for port in self._ports)

    def __enter__(self) -> Self:
        try:
            for number in range(SERVERS):
                command = [str(self._programs / "nats-server"), "-c", str(self._configured(number))]
                self._servers.append(Server(_name(number), command, self._folder))
            wait_until(self._ready, self._servers, "NATS: all servers serve", _START_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def client(self) -> ClientProgram:
        return ClientProgram(command=[str(self._programs / "load")])

    def make_topics(self, name: str, partitions: int, count: int = 1) -> float:
        said = self._asked("make", "--topic", name, "--partitions", str(partitions), "--count", str(count))
        return float(json.loads(said)["made_s"])

    def leader_of(self, topic: str) -> psutil.Process:
        leader = json.loads(self._asked("leader", "--topic", topic))["leader"]
        return next(server.process for server in self._servers if server.name == leader)

    def servers(self) -> list[psutil.Process]:
        return [server.process for server in self._servers if server.runs]

    def _asked(self, *arguments: str) -> str:
        command = [*self.client().command, arguments[0], "--bootstrap", self.bootstrap, *arguments[1:]]
        return run_tool(command, cwd=self._folder, timeout_s=_TOOL_S)

    def _ready(self) -> bool:
        """Every server says that it is healthy, which includes a leader of the metadata group."""
        return all(_healthy(port) for port in self._monitors)

    def _configured(self, number: int) -> Path:
        routes = [f"nats://{HOST}:{port}" for port in self._routes]
        store = {
            "store_dir": str(self._folder / _name(number)),
            "max_file_store": 64 << 30,
            "max_memory_store": 1 << 28,
        }
        if self._sync_interval is not None:
            store["sync_interval"] = self._sync_interval
        settings = {
            "server_name": _name(number),
            "listen": f"{HOST}:{self._ports[number]}",
            "http": f"{HOST}:{self._monitors[number]}",
            "jetstream": store,
            "cluster": {"name": "peers", "listen": f"{HOST}:{self._routes[number]}", "routes": routes},
        }
        config = self._folder / f"{_name(number)}.conf"
        config.write_text(json.dumps(settings))
        return config

    def _end(self) -> None:
        for server in self._servers:
            server.kill()


def _name(number: int) -> str:
    return f"nats-{number + 1}"


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/healthz", timeout=5.0) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _programs(cache: Path) -> Path:
    content = b"".join(file.read_bytes() for file in (_MODULE, _SUMS, _SOURCE))
    return cache / f"nats-{hashlib.sha256(content).hexdigest()[:12]}"


def _prepare(sync_interval: str | None, cache: Path) -> Callable[[Path], Nats]:
    if shutil.which("go") is None:
        raise PeerAbsent(
            f"needs go, of the version in {_MODULE.name} or newer: install it from the Go project"
        )
    programs = _programs(cache)
    if not (programs / "ready").exists():
        shutil.rmtree(programs, ignore_errors=True)
        programs.mkdir(parents=True)
        try:
            for name, package in (("nats-server", _SERVER), ("load", ".")):
                run_tool(
                    ["go", "build", "-mod=readonly", "-o", str(programs / name), package],
                    cwd=PROGRAMS,
                    timeout_s=_BUILD_S,
                    env={"GOTOOLCHAIN": "local"},
                )
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise PeerAbsent(
                f"could not be fetched or built; a Go module proxy must be reachable: {error}"
            ) from None
        (programs / "ready").touch()
    return partial(Nats, programs, sync_interval)


NATS_SYNCED = Kind(
    key="nats_synced",
    title=f"NATS {version()}, synced",
    synced="before each acknowledgement (sync_interval: always)",
    codecs=("none",),
    programs=_programs,
    prepare=partial(_prepare, "always"),
)
NATS_SHIPPED = Kind(
    key="nats_shipped",
    title=f"NATS {version()}, as shipped",
    synced="every two minutes",
    codecs=("none",),
    programs=_programs,
    prepare=partial(_prepare, None),
)
