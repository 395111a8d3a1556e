"""Databases with every migration applied, made once and copied for whoever needs one: a process of Django that makes
the tables, and a PostgreSQL's first start, take seconds of processor time, a copy next to none.

They rest in `build/migrated`, for all workers of a run and for the runs after it, under a name made of whatever the
migrations are: a changed one is applied from nothing. That a whole service makes its database from nothing is shown by
those that `penstock dev up` and the demo start, and by `test_servers_over_tls.py` on PostgreSQL; that it is the one
that the migrations make, by `test_migrations.py`.
"""

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg

from tests.control_plane import configuration
from tests.integration import servers
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "migrated"
SOURCES = ("billing", "control_plane", "payments", "quotas", "tenants")
TEST_DATABASE = "test_postgres"
"""Django's name for the test database of `postgres`; both are in the PostgreSQL that is copied."""


def put_sqlite(file: Path) -> None:
    """Make `file` an embedded database, readable by its owner only."""
    shutil.copyfile(_once("control.sqlite", _make_sqlite), file)
    file.chmod(0o600)


def postgresql_data() -> Path:
    """The data folder of a PostgreSQL that has ended, for `servers.postgresql` to copy."""
    return _once("postgresql", _make_postgresql)


def _once(name: str, make: Callable[[Path], None]) -> Path:
    """Its path, after whoever comes first has made it; the others wait."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = FOLDER / f"{_key()}-{name}"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            for old in FOLDER.glob(f"*-{name}"):
                _remove(old)
            # Killed in the middle, it leaves nothing under the name that is looked for.
            making = FOLDER / f"{name}.making"
            _remove(making)
            make(making)
            making.rename(wanted)
    return wanted


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _key() -> str:
    """Of our migrations, the versions of everybody else's, and the server."""
    found = hashlib.sha256()
    migrations = sorted(path for name in SOURCES for path in (ROOT / name).rglob("migrations/*.py"))
    assert len(migrations) > len(SOURCES)
    for path in (*migrations, ROOT / "requirements-running.lock", ROOT / "control_plane" / "settings.py"):
        found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    found.update(os.path.realpath(servers.postgresql_program("postgres")).encode())
    return found.hexdigest()[:16]


def _migrate(folder: Path, database_url: str) -> None:
    file = configuration.write(folder, database_url)
    subprocess.run(
        [sys.executable, "-m", "control_plane", "migrate", "-v0", "--skip-checks"],
        cwd=folder,
        env={
            **os.environ,
            "PENSTOCK_CONFIG": str(file),
            "DJANGO_SETTINGS_MODULE": "control_plane.settings",
        },
        check=True,
        timeout=PATIENCE_S,
    )


def _make_sqlite(made: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-migrated-") as folder:
        file = Path(folder) / "control.sqlite"
        _migrate(Path(folder), f"sqlite:///{file}")
        # Only `embedded_database` makes checkpoints: what was written may still be in the log beside the file.
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        shutil.copyfile(file, made)


def _make_postgresql(made: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-migrated-") as folder,
        servers.postgresql(keep=made) as server,
    ):
        address = f"postgresql://penstock@127.0.0.1:{server.port}"
        _migrate(Path(folder), f"{address}/postgres")
        with psycopg.connect(f"{address}/template1", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {TEST_DATABASE} TEMPLATE postgres")
