"""Django for the tests of this folder alone: a configuration in a folder of its own, and a database of its own.

On SQLite, or where PENSTOCK_TEST_DATABASE_URL says: one of the tests runs the others on a PostgreSQL.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.configuration import write

FOLDER = Path(tempfile.mkdtemp(prefix="penstock-control-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
DATABASE_URL = os.environ.get("PENSTOCK_TEST_DATABASE_URL", f"sqlite:///{FOLDER}/control.sqlite")


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
            settings.DATABASES["default"]["TEST"] = {"NAME": str(FOLDER / "test.sqlite")}
        # Passwords are no secret here, and there are many.
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
        django.setup()
    finally:
        # Programs that other tests start are not configured by this.
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_configure()


@pytest.fixture(autouse=True)
def _fresh_rate_limits() -> Iterator[None]:
    from control_plane.rate_counters import counters

    counters().forget_all()
    yield
