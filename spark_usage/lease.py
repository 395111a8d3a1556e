"""One runner works at a time: it holds a lease of the service's PostgreSQL, or a lock on a file of one host.

Both give each runner a number that is greater than those of all runners before it.
"""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import psycopg

from daemon.lease import TABLE, Clock, Lease
from daemon.server_tls import ServerTls, of_libpq
from spark_usage.configuration import Configuration

T = TypeVar("T")
NAME = "runner"
LENGTH_S = 15.0
RENEW_S = 4.0
_CONNECT_S = 5
LOCK_FILE = ".runner.lock"


class Unavailable(Exception):
    """Whether another runner works cannot be found out now; the message says why."""


class RunnerLease(Protocol):
    """What a runner holds while it works."""

    @property
    def number(self) -> int:
        """Of this runner; it holds the lease, or held it."""

    @property
    def lasts(self) -> bool:
        """Whether no other runner can hold it now."""

    def hold(self) -> bool:
        """Take or renew it; False: another runner has it, or had it since this one took it. Raises `Unavailable`."""

    def exceed(self, number: int) -> None:
        """Have a number greater than this one from now on: a runner had it of whom the lease knows no more. Raises
        `Unavailable`."""

    def release(self) -> None:
        """Let another runner take it at once."""


def lease_of(configuration: Configuration) -> RunnerLease:
    """The lease by which this service's runners take turns."""
    if urlsplit(configuration.database_url).scheme == "postgresql":
        return DatabaseLease(configuration.database_url, configuration.database_tls)
    configuration.datasets.mkdir(parents=True, exist_ok=True)
    return FileLease(configuration.datasets / LOCK_FILE)


class DatabaseLease:
    """A row of the service's PostgreSQL, for runners on any hosts. Safe between threads."""

    def __init__(self, url: str, tls: ServerTls | None = None, length_s: float = LENGTH_S) -> None:
        self._url = url
        self._tls = tls
        self._lease = Lease(NAME, secrets.token_hex(16), length_s=length_s, clock=Clock.POSTGRESQL)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._one_asks = threading.Lock()

    @property
    def number(self) -> int:
        assert self._lease.number is not None
        return self._lease.number

    @property
    def lasts(self) -> bool:
        return self._lease.lasts

    def hold(self) -> bool:
        with self._one_asks:
            before = self._lease.number
            taken = self._ask(lambda: self._lease.hold(self._execute))
            if taken and before is not None and self._lease.number != before:
                # Another runner had it meanwhile. What is published under the number before counts no more.
                self._ask(lambda: self._lease.release(self._execute))
                return False
            return taken

    def exceed(self, number: int) -> None:
        with self._one_asks:
            if not self._ask(lambda: self._lease.exceed(number, self._execute)):
                raise Unavailable("another runner has taken the lease")

    def release(self) -> None:
        with self._one_asks:
            try:
                self._lease.release(self._execute)
            except psycopg.Error:
                pass  # it ends by itself
            self._forget_connection()

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except psycopg.Error as error:
            self._forget_connection()
            raise Unavailable(f"database: {_first_line(error)}") from error

    def look(self) -> None:
        """Find out whether the lease can be asked for. Raises `Unavailable`."""
        try:
            self._execute(f"SELECT number FROM {TABLE} LIMIT 1", ())
        except psycopg.Error as error:
            raise Unavailable(_first_line(error)) from error
        finally:
            self._forget_connection()

    def _execute(self, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=_CONNECT_S,
                target_session_attrs="read-write",
                **of_libpq(self._tls),
                # A server that went away without a word is found out while the lease still lasts.
                tcp_user_timeout=int(LENGTH_S * 500),
            )
        return self._connection.execute(statement.encode(), values).fetchall()

    def _forget_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class FileLease:
    """A lock on a file, for runners of one host. It lasts as long as the process, paused or not, and as the file: where
    that was removed or replaced, the next runner makes and locks another one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None
        self._number = 0

    @property
    def number(self) -> int:
        return self._number

    @property
    def lasts(self) -> bool:
        return self._descriptor is not None and self._is_there(self._descriptor)

    def hold(self) -> bool:
        if self._descriptor is not None:
            return self._is_there(self._descriptor)
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self._file}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_there(descriptor):
                raise Unavailable(f"{self._file}: was replaced while it was locked; it is tried again")
            self._take(descriptor, int(os.pread(descriptor, 20, 0) or b"0") + 1)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except Unavailable:
            os.close(descriptor)
            raise
        except (OSError, ValueError) as error:
            os.close(descriptor)
            raise Unavailable(f"{self._file}: {error}") from error
        self._descriptor = descriptor
        return True

    def exceed(self, number: int) -> None:
        if self._descriptor is None:
            raise Unavailable(f"{self._file}: is not locked by this runner")
        try:
            self._take(self._descriptor, max(number + 1, self._number))
        except OSError as error:
            raise Unavailable(f"{self._file}: {error.strerror}") from error

    def _take(self, descriptor: int, number: int) -> None:
        os.pwrite(descriptor, f"{number}\n".encode(), 0)
        os.fsync(descriptor)
        self._number = number

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_there(self, descriptor: int) -> bool:
        """Whether the file's name still means the file that is open. A disk that does not say counts as no."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._file))
        except OSError:
            return False


def hold_within(lease: RunnerLease, seconds: float) -> bool:
    """Whether the lease could be taken within this time. Raises `Unavailable` if that is unknown at its end."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if lease.hold():
                return True
            problem = None
        except Unavailable as error:
            problem = error
        if time.monotonic() >= deadline:
            if problem is not None:
                raise problem
            return False
        time.sleep(0.2)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
