"""The file behind the embedded metadata store: tables, pragmas, boot checks, and which errors end the store.

    meta      one row: the store's revision, and the revision up to which events are compacted away
    kv        key, value, the revision that set it, the session it is bound to (0 = none)
    events    what each revision changed, in order; value NULL = the key was deleted
    sessions  deadline by the machine's monotonic clock together with the boot id it belongs to

The file must lie on a local disk: SQLite's write-ahead log needs shared memory between the processes.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

APPLICATION_ID = 0x50534D44
"""`PSMD`, kept in the file's header, so that another program's file is not taken for ours."""
FORMAT_VERSION = 1
BUSY_SLEEP_S = (0.000_2, 0.000_5, 0.001, 0.002)
"""SQLite's own busy handler sleeps whole milliseconds, up to 100: ten times what a commit takes."""

RESERVE_BYTES = 1024 * 1024
"""Of free pages within the file. Some hundred bytes a revision: what brokers decide in hours on a full disk."""

_TRANSIENT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""A full disk; a quota or a limit of the file's size; the index of the write-ahead log, which is a file too."""
_NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre")
_SCHEMA = (
    """CREATE TABLE meta (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        revision INTEGER NOT NULL,
        compacted_revision INTEGER NOT NULL)""",
    """CREATE TABLE kv (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        mod_revision INTEGER NOT NULL,
        session_id INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX kv_by_session ON kv (session_id) WHERE session_id != 0",
    """CREATE TABLE events (
        revision INTEGER NOT NULL,
        position INTEGER NOT NULL,
        key TEXT NOT NULL,
        value BLOB,
        PRIMARY KEY (revision, position)) WITHOUT ROWID""",
    """CREATE TABLE sessions (
        session_id INTEGER PRIMARY KEY AUTOINCREMENT,
        ttl_ms INTEGER NOT NULL,
        deadline_ms INTEGER NOT NULL,
        boot_id TEXT NOT NULL)""",
    "INSERT INTO meta VALUES (1, 0, 0)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)
_FILL = f"INSERT INTO reserve VALUES (zeroblob({RESERVE_BYTES}))"

T = TypeVar("T")

_creating = threading.Lock()


class StoreFault(Exception):
    """The store's file failed or cannot be used: the process must stop asking it. `message` says what to
    do."""


def is_transient(error: sqlite3.Error) -> bool:
    """Whether another process was merely in the way."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in _TRANSIENT


def lacks_space(error: sqlite3.Error) -> bool:
    """Whether something could not be written for want of disk space; what is in the file is as it was.

    A write-ahead log is believed up to its last whole commit, so what was written of this one counts for nothing. Every
    other error but the transient ones ends the store: after a failed sync it is not known what the disk has (RL126).
    """
    return getattr(error, "sqlite_errorcode", None) in _NO_SPACE


def may_be_applied(error: sqlite3.Error) -> bool:
    """Whether a commit that lacked disk space may come back after a crash: only its log was written, not its index."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMSIZE


def describe(error: sqlite3.Error) -> str:
    """SQLite's error with its extended name."""
    return f"{getattr(error, 'sqlite_errorname', 'SQLITE_ERROR')}: {error}"


def patiently(action: Callable[[], T], busy_ms: int) -> T:
    """Run `action`, again while the file is busy, for at most `busy_ms`. Raises the last `sqlite3.Error`."""
    deadline = time.monotonic() + busy_ms / 1000
    attempt = 0
    while True:
        try:
            return action()
        except sqlite3.Error as error:
            if not is_transient(error) or time.monotonic() >= deadline:
                raise
        time.sleep(BUSY_SLEEP_S[min(attempt, len(BUSY_SLEEP_S) - 1)])
        attempt += 1


def boot_id() -> str:
    """Identity of this boot of the machine: monotonic deadlines of another one mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def connect(path: Path) -> sqlite3.Connection:
    """A connection of the calling thread in autocommit mode; every commit through it is synced (RL14 for
    metadata).

    Automatic checkpoints are off: see `checkpoint`.
    """
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=256)
    for pragma in (
        "synchronous = FULL",
        "wal_autocheckpoint = 0",
        "mmap_size = 0",
        "temp_store = MEMORY",
        "trusted_schema = OFF",
        "cell_size_check = ON",
    ):
        patiently(partial(connection.execute, f"PRAGMA {pragma}"), 5_000)
    return connection


def prepare(path: Path) -> None:
    """Create the file if it is missing, make that durable, and check it. Raises `StoreFault`.

    Several processes may do this at once. Never opens the file except through SQLite while a connection of
    this process may exist: closing any other descriptor of it would drop SQLite's locks.
    """
    directory = path.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFault(f"metadata store {path}: {error.strerror}; make the directory writable") from error
    mounts = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    refuse_network_filesystem(directory, mounts)
    try:
        with _creating:
            _create_private(path)
            connection = connect(path)
        try:
            _create_tables(connection, path)
            _check(connection, path)
            _reserve_at_start(connection, path)
        finally:
            connection.close()
    except sqlite3.Error as error:
        remedy = "free its disk" if lacks_space(error) else "restore it from a backup"
        raise StoreFault(f"metadata store {path}: {describe(error)}; {remedy}") from error
    except OSError as error:
        remedy = (
            "free its disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make the directory writable"
        )
        raise StoreFault(f"metadata store {path}: {error.strerror}; {remedy}") from error


def begin_at(path: Path, revision: int) -> None:
    """Create the file and let its revisions begin at `revision`. Raises `StoreFault` when it holds any already."""
    prepare(path)
    connection = connect(path)
    try:
        begun = patiently(
            lambda: (
                connection.execute(
                    "UPDATE meta SET revision = ?, compacted_revision = ? WHERE revision IN (0, ?)"
                    " AND NOT EXISTS (SELECT 1 FROM kv)",
                    (revision, revision, revision),
                ).rowcount
            ),
            10_000,
        )
    except sqlite3.Error as error:
        raise StoreFault(f"metadata store {path}: {describe(error)}") from error
    finally:
        connection.close()
    if begun != 1:
        raise StoreFault(f"metadata store {path}: is not empty; name a file that is not there yet")


def _create_private(path: Path) -> None:
    """Make an empty file that only this user can read: it will hold verifiers of keys."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    for directory in (path.parent, path.parent.parent):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    mode = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], 10_000)
    if mode != "wal":
        raise StoreFault(
            f"metadata store {path}: write-ahead log refused ({mode}); put the file on a local disk"
        )
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"), 10_000)
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables == 0:
            for statement in _SCHEMA:
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreFault(f"metadata store {path}: a database of another program; name another metadata_path")
    if version != FORMAT_VERSION:
        raise StoreFault(
            f"metadata store {path}: format {version}, this broker reads {FORMAT_VERSION}; run its release"
        )
    found = patiently(lambda: connection.execute("PRAGMA integrity_check(1)").fetchone()[0], 10_000)
    if found != "ok":
        found = "; ".join(found.splitlines())
        raise StoreFault(f"metadata store {path}: damaged ({found}); restore it from a backup")


def _reserve_at_start(connection: sqlite3.Connection, path: Path) -> None:
    try:
        with closing(connect(path)) as second:
            reserve(connection, second, 10_000)
    except sqlite3.Error as error:
        if not lacks_space(error):
            raise


def reserve(connection: sqlite3.Connection, second: sqlite3.Connection, busy_ms: int) -> None:
    """See to free pages within the file, and to a write-ahead log that is as long. Raises `sqlite3.Error`.

    On a full disk brokers go on with what they have: their sessions, and what they decide because of the full disk.
    """
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    if free * page >= RESERVE_BYTES / 2:
        return
    for statement in ("CREATE TABLE IF NOT EXISTS reserve (room BLOB)", _FILL):
        patiently(partial(connection.execute, statement), busy_ms)
    checkpoint(connection, second, busy_ms)
    patiently(partial(connection.execute, "DELETE FROM reserve"), busy_ms)


def checkpoint(connection: sqlite3.Connection, second: sqlite3.Connection, busy_ms: int) -> int:
    """Copy the write-ahead log into the file while the write lock keeps every other writer out; the pages that were in
    the log. Raises `sqlite3.Error`.

    SQLite before 3.51.3 can lose committed pages when a commit resets the log while another connection
    checkpoints (its "WAL-reset bug"); automatic checkpoints are therefore off, and no commit meets one.
    """
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"), busy_ms)
    try:
        _, logged, _ = second.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    finally:
        connection.execute("ROLLBACK")
    return int(logged)


def refuse_network_filesystem(directory: Path, mounts: Mapping[str, str]) -> None:
    """`mounts`: the kind of file system at each mount point; the last one mounted there counts. Raises `StoreFault`
    when the directory is not on this machine's disk.
    """
    target = str(directory.resolve()) + "/"
    around = [mount for mount in mounts if target.startswith(mount.rstrip("/") + "/")]
    kind = mounts[max(around, key=len)] if around else ""
    if kind in _NETWORK_FILESYSTEMS:
        raise StoreFault(
            f"metadata store: {directory} is on the network ({kind}); put metadata_path on a local disk"
        )
