"""The demo's own servers, on free ports of this machine and in its folder: a PostgreSQL and a Redis, as an unprivileged
user, and a stand-in for Stripe.
"""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local import guardian, processes
from local.free_ports import HOST, free_port
from penstock.private_file import write_private

_ROOT = Path(__file__).resolve().parents[1]
_POSTGRES_FOLDERS = "/usr/lib/postgresql/*/bin"
_DATABASE = "penstock"
_REDIS = ("--save", "", "--appendonly", "no", "--set-proc-title", "no")
"""Nothing is kept; and no title is written over its environment, which says with whom it ends."""
_START_S = 60.0
_STOP_S = 20.0
_POLL_S = 0.05
_OUTPUT_LINES = 15
_CLOCK_MOVES_S = 5.0
"""A start time is counted back from the wall clock, which may have been set since. No process id comes back so soon."""


class ServerFailed(Exception):
    """A server is missing or did not start; the message holds its last lines and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server's process: with its start time, the process id never means another process."""

    name: str
    pid: int
    started: float
    """In seconds since the epoch, as this machine's clock stood when it was noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the servers are, with their passwords."""

    database_url: str
    celery_broker_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeAccount:
    """How the stand-in for Stripe is reached."""

    api_base: str
    key_file: Path
    webhook_secret_file: Path

    @property
    def settings(self) -> dict[str, str]:
        """The service's section `payments`."""
        return {
            "stripe_api_base": self.api_base,
            "stripe_key_file": str(self.key_file),
            "stripe_webhook_secret_file": str(self.webhook_secret_file),
        }


class Servers:
    """The servers of one folder. What runs stands in `servers.json`, so that a later demo can end it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._note = folder / "servers.json"
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, tell: Callable[[str], None]) -> Addresses:
        """Start PostgreSQL and Redis and wait until they serve. Raises `ServerFailed`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        tell("PostgreSQL")
        database_url = self._start_postgresql()
        tell("Redis")
        return Addresses(database_url=database_url, celery_broker_url=self._start_redis())

    def start_stripe(self) -> StripeAccount:
        """Start the stand-in for Stripe and wait until it serves. Raises `ServerFailed`."""
        folder = self._folder / "stripe"
        folder.mkdir(parents=True)
        port = free_port(set())
        account = StripeAccount(
            api_base=f"http://{HOST}:{port}",
            key_file=folder / "stripe.key",
            webhook_secret_file=folder / "webhook.secret",
        )
        write_private(account.key_file, f"sk_test_{secrets.token_hex(16)}\n")
        write_private(account.webhook_secret_file, f"whsec_{secrets.token_hex(16)}\n")
        output = folder / "stripe.log"
        command = [sys.executable, "-m", "demo.stripe_server", "--port", str(port)]
        files = [*("--key-file", str(account.key_file))]
        files += [*("--webhook-secret-file", str(account.webhook_secret_file))]
        self._start("stripe", [*command, *files], None, output, {"PYTHONPATH": str(_ROOT)})
        self._wait("the stand-in for Stripe", output, lambda: _listens(port))
        return account

    def stop(self) -> None:
        """End what runs, from wherever it was started."""
        for running in reversed(self._noted()):
            # SIGINT: PostgreSQL ends its sessions and shuts down at once, and cleanly.
            _end(running, signal.SIGINT if running.name == "postgresql" else signal.SIGTERM)
        self._note.unlink(missing_ok=True)
        for child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_STOP_S)

    def _start_postgresql(self) -> str:
        data, user = self._folder_for("postgresql", "postgres")
        password, port = secrets.token_hex(16), free_port(set())
        password_file = data.parent / "postgresql.password"
        write_private(password_file, password + "\n")
        _own(password_file, user)
        _run(
            [
                *(_program("initdb", _POSTGRES_FOLDERS), "--pgdata", str(data), "--username", _DATABASE),
                *("--auth", "scram-sha-256", "--pwfile", str(password_file), "--encoding", "UTF8"),
                *("--locale", "C.UTF-8", "--no-instructions"),
            ],
            user,
        )
        output = data.parent / "postgresql.log"
        self._start(
            "postgresql",
            [
                *(_program("postgres", _POSTGRES_FOLDERS), "-D", str(data), "-p", str(port)),
                *("-c", f"listen_addresses={HOST}", "-c", f"unix_socket_directories={data}"),
            ],
            user,
            output,
        )
        address = f"postgresql://{_DATABASE}:{password}@{HOST}:{port}"
        self._wait("PostgreSQL", output, lambda: _create_database(address))
        return f"{address}/{_DATABASE}"

    def _start_redis(self) -> str:
        data, user = self._folder_for("redis", "redis")
        port = free_port(set())
        output = data.parent / "redis.log"
        command = [_program("redis-server"), "--port", str(port), "--bind", HOST, "--dir", str(data)]
        self._start("redis", [*command, *_REDIS], user, output)
        address = f"redis://{HOST}:{port}/0"
        self._wait("Redis", output, lambda: _ping(address))
        return address

    def _folder_for(self, name: str, account: str) -> tuple[Path, str | None]:
        """An empty folder that the server's user owns, and that user; None: ourselves, who are no root."""
        user = None if os.geteuid() else _account(account)
        folder = self._folder / name / "data"
        folder.mkdir(parents=True)
        for path in (folder.parent, folder):
            _own(path, user)
        folder.chmod(0o700)
        if user is not None:
            reach = subprocess.run(["test", "-w", str(folder)], user=user, extra_groups=(), check=False)
            if reach.returncode != 0:
                raise ServerFailed(
                    f"{folder}: user {user} cannot get there, since a folder above it is closed; "
                    "put the demo elsewhere: make demo DATA=/var/tmp/penstock-demo"
                )
        return folder, user

    def _start(
        self,
        name: str,
        command: Sequence[str],
        user: str | None,
        output: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with output.open("ab") as out:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=output.parent,
                env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", **guardian.mark()}
                | dict(environment or {}),
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else (),
                start_new_session=True,
            )
        self._children.append(child)
        found = processes.running(child.pid)
        started = 0.0 if found is None else found.process.create_time()
        noted = [*self._noted(), Running(name=name, pid=child.pid, started=started)]
        text = json.dumps([{"name": r.name, "pid": r.pid, "started": r.started} for r in noted])
        write_private(self._note, text + "\n")

    def _noted(self) -> list[Running]:
        try:
            return [Running(**fields) for fields in json.loads(self._note.read_text())]
        except FileNotFoundError:
            return []

    def _wait(self, name: str, output: Path, is_up: Callable[[], bool]) -> None:
        child, deadline = self._children[-1], time.monotonic() + _START_S
        while not is_up():
            if child.poll() is not None or time.monotonic() > deadline:
                lines = output.read_text(errors="replace").splitlines()[-_OUTPUT_LINES:]
                why = "ended" if child.poll() is not None else f"does not answer after {_START_S:g} s"
                raise ServerFailed("\n".join([f"{name} {why}; its output is in {output}", *lines]))
            time.sleep(_POLL_S)


def _create_database(address: str) -> bool:
    """Whether the server is up; then the database is there."""
    import psycopg

    try:
        with psycopg.connect(f"{address}/postgres", autocommit=True, connect_timeout=2) as connection:
            connection.execute(f"CREATE DATABASE {_DATABASE}")
    except psycopg.errors.DuplicateDatabase:
        return True
    except psycopg.OperationalError:
        return False
    return True


def _ping(address: str) -> bool:
    import redis

    try:
        with redis.Redis.from_url(address, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1.0).close()
    except OSError:
        return False
    return True


def _program(name: str, folders: str = "") -> str:
    found = shutil.which(name)
    for folder in sorted(Path("/").glob(folders.lstrip("/")), reverse=True) if folders else []:
        if found is None and os.access(folder / name, os.X_OK):
            found = str(folder / name)
    if found is None:
        raise ServerFailed(f"{name} is missing; run: make setup")
    return found


def _account(name: str) -> str:
    """That account, or the account `nobody` where the package made none."""
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        return "nobody"


def _own(path: Path, user: str | None) -> None:
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(path, account.pw_uid, account.pw_gid)


def _run(command: Sequence[str], user: str | None) -> None:
    group = None if user is None else pwd.getpwnam(user).pw_gid
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
        user=user,
        group=group,
        extra_groups=None if user is None else (),
        timeout=_START_S,
        check=False,
    )
    if ended.returncode != 0:
        raise ServerFailed(f"{Path(command[0]).name} failed:\n{ended.stdout}{ended.stderr}")


def _end(running: Running, how: signal.Signals) -> None:
    deadline = time.monotonic() + _STOP_S
    _signal(running.pid, how, running)
    while _runs(running):
        if time.monotonic() > deadline:
            _signal(running.pid, signal.SIGKILL, running)
            return
        time.sleep(_POLL_S)


def _runs(running: Running) -> bool:
    found = processes.running(running.pid)
    return found is not None and abs(found.process.create_time() - running.started) < _CLOCK_MOVES_S


def _signal(pid: int, number: signal.Signals, running: Running) -> None:
    if _runs(running):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
