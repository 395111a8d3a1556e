"""A PostgreSQL primary with a standby that confirms each commit, on free ports; each can be killed, and the standby
promoted.
"""

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from local.free_ports import HOST, free_port
from tests.integration import servers
from tests.waiting import PATIENCE_S, wait_until

_BINARIES = "/usr/lib/postgresql/*/bin"
_USER = "postgres" if os.geteuid() == 0 else None


@dataclass(slots=True)
class _Node:
    """One server: its data folder below the pair's, its port, and its process while it runs."""

    name: str
    port: int
    pid: int = 0
    stack: ExitStack | None = None


class DatabasePair:
    """Which of the two is the primary changes with `switch`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        taken: set[int] = set()
        self._nodes = [_Node("data-1", free_port(taken)), _Node("data-2", free_port(taken))]
        self._primary, self._standby = self._nodes
        self._generation = 0

    @property
    def url(self) -> str:
        """Of the server that takes writes, whichever it is."""
        hosts = ",".join(f"{HOST}:{node.port}" for node in self._nodes)
        return f"postgresql://penstock@{hosts}/postgres?target_session_attrs=read-write"

    def begin(self) -> None:
        """Make the primary, without a standby."""
        self._run(
            *("initdb", "--pgdata", self._primary.name, "--username", "penstock", "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        )
        self._start(self._primary)

    def add_standby(self) -> None:
        """Make a standby from the primary; from then on a commit is answered when both have it."""
        if self._standby.stack is not None:
            return
        self._generation += 1
        self._standby.name = f"standby-{self._generation}"
        self._run(
            *("pg_basebackup", "-h", HOST, "-p", str(self._primary.port), "-U", "penstock"),
            *("-D", self._standby.name, "-R", "-X", "stream", "-c", "fast", "--no-sync"),
        )
        self._start(self._standby, ready="started streaming")
        self._alter("ALTER SYSTEM SET synchronous_standby_names = '*'")
        wait_until(
            "the standby confirms commits",
            lambda: (
                self._primary_says("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
            ),
        )

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The primary is down within the block, as on a host that restarts."""
        self._stop(self._primary)
        try:
            yield
        finally:
            self._start(self._primary)

    def switch(self) -> None:
        """Kill the primary, and promote the standby."""
        os.kill(self._primary.pid, signal.SIGKILL)
        self._stop(self._primary)
        self._run("pg_ctl", "promote", "-D", self._standby.name, "-w", "-t", str(int(PATIENCE_S)))
        self._primary, self._standby = self._standby, self._primary

    def end(self) -> None:
        for node in (self._standby, self._primary):
            self._stop(node)

    def _primary_says(self, statement: str) -> int:
        with psycopg.connect(self.url, connect_timeout=5) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return int(row[0]) if row else 0

    def _alter(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    def _start(self, node: _Node, ready: str = "ready to accept connections") -> None:
        command = [servers.program("postgres", _BINARIES), "-D", node.name, "-p", str(node.port), "-h", HOST]
        stack = ExitStack()
        node.pid = stack.enter_context(
            servers.running(
                [*command, "-k", str(self._folder), "-F"],
                folder=self._folder,
                ready=ready,
                user=_USER,
                stop_with=signal.SIGINT,
            )
        )
        node.stack = stack

    def _stop(self, node: _Node) -> None:
        if node.stack is not None:
            node.stack.close()
            node.stack = None

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [servers.program(name, _BINARIES), *arguments],
            cwd=self._folder,
            env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
            user=_USER,
            group=None if _USER is None else pwd.getpwnam(_USER).pw_gid,
            extra_groups=None if _USER is None else (),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"


class RedisServer:
    """A Redis on one port that keeps nothing; it can be killed and started again, empty."""

    def __init__(self) -> None:
        self.port = free_port(set())
        self._pid = 0
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        folder = self._stack.enter_context(servers.folder_for(None))
        command: Sequence[str] = (
            *(
                servers.program("redis-server"),
                "--port",
                str(self.port),
                "--bind",
                HOST,
                "--dir",
                str(folder),
            ),
            *("--save", "", "--appendonly", "no", *servers.TITLE),
        )
        self._pid = self._stack.enter_context(
            servers.running(command, folder=folder, ready="Ready to accept connections")
        )

    def kill(self) -> None:
        """SIGKILL: all that it held is lost."""
        os.kill(self._pid, signal.SIGKILL)
        self.end()

    def end(self) -> None:
        self._stack.close()
        self._stack = ExitStack()


@contextmanager
def pair() -> Iterator[DatabasePair]:
    """A pair whose standby is not made yet."""
    with servers.folder_for(_USER) as folder:
        made = DatabasePair(folder)
        try:
            made.begin()
            yield made
        finally:
            made.end()
