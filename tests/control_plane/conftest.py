"""Django for the tests of this folder alone: a configuration in a folder of its own, and a database of its own.

The database is a PostgreSQL that the first test that needs it starts. PENSTOCK_TEST_DATABASE_URL names another one:
`test_on_sqlite.py` runs on SQLite what depends on the database most.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import migrated
from tests.control_plane.configuration import write
from tests.integration import servers

FOLDER = Path(tempfile.mkdtemp(prefix="penstock-control-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
TEST_SQLITE = FOLDER / "test.sqlite"
STARTED_LATER = "postgresql://penstock@127.0.0.1:1/postgres"
"""Its port is set once the server runs."""
DATABASE_URL = os.environ.get("PENSTOCK_TEST_DATABASE_URL", STARTED_LATER)

collect_ignore = [] if DATABASE_URL.startswith("sqlite:") else ["embedded"]
"""What is about the embedded database runs with the other tests on SQLite."""


def _configure() -> None:
    file = write(FOLDER, DATABASE_URL)
    before = {name: os.environ.get(name) for name in ("PENSTOCK_CONFIG", "DJANGO_SETTINGS_MODULE")}
    os.environ["PENSTOCK_CONFIG"] = str(file)
    os.environ["DJANGO_SETTINGS_MODULE"] = "control_plane.settings"
    try:
        import django
        from django.conf import settings

        # A file: threads of a test share it, which they could not with one in memory.
        if DATABASE_URL.startswith("sqlite"):
            settings.DATABASES["default"]["TEST"] = {"NAME": str(TEST_SQLITE)}
        # Passwords are no secret here, and there are many.
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        # Static files are looked for when they are asked for: each test's client would look through all of them first.
        settings.WHITENOISE_AUTOREFRESH = True
        django.setup()
        from tests.control_plane import emptying

        emptying.use()
    finally:
        # Programs that other tests start are not configured by this.
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_configure()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """A migrated database is there already, unless it is in somebody's own PostgreSQL; it ends with its folder."""
    return DATABASE_URL == STARTED_LATER or DATABASE_URL.startswith("sqlite:")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> Iterator[None]:
    """Called by pytest-django before it makes the database."""
    if DATABASE_URL.startswith("sqlite:"):
        migrated.put_sqlite(TEST_SQLITE)
    if DATABASE_URL != STARTED_LATER:
        yield
        return
    from django.db import connections

    with servers.postgresql(data=migrated.postgresql_data()) as server:
        connections.settings["default"]["PORT"] = server.port
        connections["default"].settings_dict["PORT"] = server.port
        yield
        connections.close_all()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_brokers() -> Iterator[None]:
    """Tests with brokers have a client of their own."""
    from control_plane.brokers import client
    from tests.control_plane.no_brokers import HastyClient

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(client, "AdminClient", HastyClient)
        yield


@pytest.fixture(autouse=True)
def _fresh_counts() -> Iterator[None]:
    from tests.control_plane import counts

    counts.forget()
    yield
