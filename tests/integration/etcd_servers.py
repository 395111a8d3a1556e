"""Real etcd for tests: one node or three on free ports of loopback, killed, stopped and started again by their pid."""

import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon.tls import IdentityConfig
from local.free_ports import free_port
from tests.waiting import PATIENCE_S

from .servers import ServerFailed, program

_LOOK_S = 0.02


@dataclass(slots=True)
class EtcdNode:
    """One member. Its output is in `log`."""

    name: str
    folder: Path
    client_port: int
    peer_port: int
    arguments: tuple[str, ...] = ()
    scheme: str = "http"
    certificates: Path | None = None
    """Folder of an authority: the member speaks mutual TLS with clients and members, with what is there for it."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self, initial: str) -> None:
        """Start it, with the data that it has; returns at once."""
        client = f"{self.scheme}://{self.endpoint}"
        peer = f"{self.peer_scheme}://127.0.0.1:{self.peer_port}"
        command = [
            program("etcd"),
            *("--name", self.name, "--data-dir", str(self.folder / self.name)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", initial, "--logger", "zap", "--log-level", "warn"),
            *self.arguments,
            *self._tls(),
        ]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self.folder
            )

    @property
    def peer_scheme(self) -> str:
        return "http" if self.certificates is None else "https"

    def _tls(self) -> Iterator[str]:
        if self.certificates is None:
            return
        for of in ("", "peer-"):
            yield from (f"--{of}trusted-ca-file", str(self.certificates / "ca.pem"))
            yield from (f"--{of}cert-file", str(self.certificates / f"{self.certificate}.pem"))
            yield from (f"--{of}key-file", str(self.certificates / f"{self.certificate}-key.pem"))
            yield f"--{of}client-cert-auth"

    @property
    def certificate(self) -> str:
        """What the files of its certificate are called."""
        return f"etcd-{self.name.removeprefix('n')}"

    def _connection(self) -> http.client.HTTPConnection:
        if self.certificates is None:
            return http.client.HTTPConnection("127.0.0.1", self.client_port, timeout=2.0)
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        own = self.certificates / f"{self.certificate}.pem"
        context.load_cert_chain(own, own.with_name(f"{own.stem}-key.pem"))
        return http.client.HTTPSConnection("127.0.0.1", self.client_port, timeout=2.0, context=context)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def healthy(self) -> bool:
        """Whether it says that it takes part in a cluster with a leader."""
        connection = self._connection()
        try:
            connection.request("GET", "/health")
            return bool(json.loads(connection.getresponse().read()).get("health") == "true")
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()


@dataclass(slots=True)
class EtcdServers:
    """An etcd cluster."""

    nodes: Sequence[EtcdNode]
    taken: set[int] = field(default_factory=set)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(node.endpoint for node in self.nodes)

    def start(self, node: EtcdNode) -> None:
        node.start(",".join(f"{n.name}={n.peer_scheme}://127.0.0.1:{n.peer_port}" for n in self.nodes))

    def wait_healthy(self, nodes: Sequence[EtcdNode] | None = None) -> None:
        """Raises `ServerFailed` with the end of the output of a node that ended or did not answer in time."""
        deadline = time.monotonic() + PATIENCE_S
        for node in nodes if nodes is not None else self.nodes:
            while not node.healthy:
                ended = node.process is None or node.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    said = node.log.read_text(errors="replace")[-2_000:]
                    raise ServerFailed(f"etcd {node.name}: not healthy\n{said}")
                time.sleep(_LOOK_S)

    def control(self, *arguments: str) -> str:
        """Run etcdctl on it and return its output."""
        return control(self.endpoints, *arguments)


def control(endpoints: Sequence[str], *arguments: str, files: IdentityConfig | None = None) -> str:
    """Run etcdctl and return its output; with `files` over TLS."""
    command = [program("etcdctl"), "--endpoints", ",".join(endpoints), *arguments]
    if files is not None:
        command += ["--cacert", str(files.ca_file), "--cert", str(files.certificate_file)]
        command += ["--key", str(files.key_file)]
    environment = {"PATH": os.environ.get("PATH", ""), "ETCDCTL_API": "3"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


@contextmanager
def etcd_servers(
    count: int = 1, *, arguments: Sequence[str] = (), scheme: str = "http", certificates: Path | None = None
) -> Iterator[EtcdServers]:
    """Run `count` nodes until the block ends. A missing etcd is a failure (`ServerFailed`).

    `certificates` is the folder of an authority with `etcd-1` and so on: they speak mutual TLS throughout.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-etcd-"))
    taken: set[int] = set()
    scheme = scheme if certificates is None else "https"
    nodes = [
        EtcdNode(
            f"n{number}", folder, free_port(taken), free_port(taken), tuple(arguments), scheme, certificates
        )
        for number in range(1, count + 1)
    ]
    servers = EtcdServers(nodes, taken)
    try:
        for node in nodes:
            servers.start(node)
        if scheme == "http" or certificates is not None:
            servers.wait_healthy()
        yield servers
    finally:
        for node in nodes:
            if node.process is not None and node.process.poll() is None:
                node.kill()
        shutil.rmtree(folder, ignore_errors=True)
