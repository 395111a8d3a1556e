"""Starts other people's servers for tests: free ports, a folder of their own, stopped by their process id."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import guardian
from local.free_ports import free_port
from tests.waiting import PATIENCE_S

TITLE = ("--set-proc-title", "no")
"""Redis writes its title over its environment, and with it over the mark of what must end with us."""


class ServerFailed(Exception):
    """A server is missing, or ended or said nothing before it was ready; the message holds its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: where it listens on loopback, its folder and its process."""

    port: int
    folder: Path
    pid: int


class _Output:
    """Reads a process's output so that it never blocks, and waits for a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: deque[str] = deque(maxlen=200)
        self._changed = threading.Condition()
        self._ended = False
        self._awaited: str | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)

    def wait_for(self, text: str) -> None:
        """Return once a line holds `text`. Raises `ServerFailed` at the deadline or the process's end."""
        self._awaited = text
        self._reader.start()
        with self._changed:
            self._changed.wait_for(lambda: self._awaited is None or self._ended, PATIENCE_S)
            if self._awaited is not None:
                said = "".join(self._lines)
                raise ServerFailed(f"{self._process.args!r}: {text!r} did not appear\n{said}")

    def join(self) -> None:
        """Wait for the end of the output; the process must have ended."""
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    if self._awaited is not None and self._awaited in line:
                        self._awaited = None
                        self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def program(name: str, *folders: str) -> str:
    """Path of a program on the path or in folders (patterns). Raises `ServerFailed` with the remedy."""
    found = shutil.which(name)
    for pattern in folders:
        for path in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            candidate = path / name
            found = found or (str(candidate) if os.access(candidate, os.X_OK) else None)
    if found is None:
        raise ServerFailed(f"{name} is missing; run: make setup")
    return found


def java_home() -> str:
    """Home of Debian's Java 17, which Spark runs on. Raises `ServerFailed` where it is missing."""
    for home in sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*")):
        if os.access(home / "bin/java", os.X_OK):
            return str(home)
    raise ServerFailed("openjdk-17-jre-headless is missing; run: make setup")


@contextmanager
def folder_for(user: str | None) -> Iterator[Path]:
    """A short-lived folder owned by `user` (None: by us), reachable for that user."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as name:
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(name, account.pw_uid, account.pw_gid)
        yield Path(name)


@contextmanager
def running(
    command: Sequence[str],
    *,
    folder: Path,
    ready: str,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
    stop_with: signal.Signals = signal.SIGTERM,
) -> Iterator[int]:
    """Run a server until the block ends and yield its pid once its output says `ready`."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **guardian.mark(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else (),
    )
    output = _Output(process)
    try:
        output.wait_for(ready)
        yield process.pid
    finally:
        process.send_signal(stop_with)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        output.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """PEM files with which a server speaks TLS alone, and requires a certificate of `ca_file` from its callers."""

    ca_file: Path
    certificate_file: Path
    key_file: Path

    def put_into(self, folder: Path, user: str | None) -> "ServerCertificate":
        """Copies that the server can read, and only it."""
        copies = ServerCertificate(
            ca_file=folder / "server-ca.pem",
            certificate_file=folder / "server.pem",
            key_file=folder / "server-key.pem",
        )
        for name in ("ca_file", "certificate_file", "key_file"):
            fresh = folder / "fresh.pem"
            fresh.write_bytes(getattr(self, name).read_bytes())
            fresh.chmod(0o600)
            if user is not None:
                account = pwd.getpwnam(user)
                os.chown(fresh, account.pw_uid, account.pw_gid)
            fresh.replace(getattr(copies, name))
        return copies


def postgresql_program(name: str) -> str:
    """Path of one of PostgreSQL's programs; Debian keeps them off the path. Raises `ServerFailed`."""
    return program(name, "/usr/lib/postgresql/*/bin")


@contextmanager
def postgresql(
    tls: ServerCertificate | None = None, *, data: Path | None = None, keep: Path | None = None
) -> Iterator[Server]:
    """PostgreSQL with a superuser `penstock` trusted from loopback. For root it runs as `postgres`.

    With `tls` over TLS alone, and only with a client certificate. With `data` on a copy of that data folder; `keep` is
    where its own is copied to when it has ended.
    """
    user = "postgres" if os.geteuid() == 0 else None
    with folder_for(user) as folder:
        if data is None:
            _init_data(folder, user)
        else:
            _copy_data(data, folder / "data")
        with _postgresql_on(folder, user, tls) as started:
            yield started
        if keep is not None:
            _copy_data(folder / "data", keep)


def _init_data(folder: Path, user: str | None) -> None:
    subprocess.run(
        [
            *(postgresql_program("initdb"), "--pgdata", "data", "--username", "penstock", "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        ],
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else (),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=PATIENCE_S,
    )


def _copy_data(data: Path, copy: Path) -> None:
    subprocess.run(
        ["cp", "--archive", "--reflink=auto", str(data), str(copy)], check=True, timeout=PATIENCE_S
    )


@contextmanager
def _postgresql_on(folder: Path, user: str | None, tls: ServerCertificate | None) -> Iterator[Server]:
    port = free_port(set())
    command = [
        postgresql_program("postgres"),
        "-D",
        "data",
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        str(folder),
        "-F",
    ]
    if tls is not None:
        files = tls.put_into(folder, user)
        (folder / "data/pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n")
        command += ["-c", "ssl=on", "-c", f"ssl_ca_file={files.ca_file}"]
        command += [
            "-c",
            f"ssl_cert_file={files.certificate_file}",
            "-c",
            f"ssl_key_file={files.key_file}",
        ]
    with running(
        command,
        folder=folder,
        ready="ready to accept connections",
        user=user,
        stop_with=signal.SIGINT,  # "fast": clients are not waited for
    ) as pid:
        yield Server(port=port, folder=folder, pid=pid)


@contextmanager
def redis(tls: ServerCertificate | None = None) -> Iterator[Server]:
    """Redis without persistence. With `tls` over TLS alone, and only with a client certificate."""
    server = program("redis-server")
    with folder_for(None) as folder:
        port = free_port(set())
        command = [server, "--bind", "127.0.0.1", "--dir", str(folder)]
        if tls is None:
            command += ["--port", str(port)]
        else:
            files = tls.put_into(folder, None)
            command += ["--port", "0", "--tls-port", str(port), "--tls-ca-cert-file", str(files.ca_file)]
            command += ["--tls-cert-file", str(files.certificate_file), "--tls-key-file", str(files.key_file)]
        command += ["--save", "", "--appendonly", "no", *TITLE]
        with running(command, folder=folder, ready="Ready to accept connections") as pid:
            yield Server(port=port, folder=folder, pid=pid)


@contextmanager
def etcd() -> Iterator[Server]:
    """A one-member etcd."""
    server = program("etcd")
    with folder_for(None) as folder:
        taken: set[int] = set()
        port, peer_port = free_port(taken), free_port(taken)
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        command = [server, "--name", "one", "--data-dir", str(folder / "data"), "--logger", "zap"]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"one={peer}"]
        with running(command, folder=folder, ready="serving client traffic") as pid:
            yield Server(port=port, folder=folder, pid=pid)


@contextmanager
def s3() -> Iterator[Server]:
    """moto's server of S3, in memory and without buckets."""
    with folder_for(None) as folder:
        port = free_port(set())
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with running(command, folder=folder, ready="Press CTRL+C to quit") as pid:
            yield Server(port=port, folder=folder, pid=pid)
