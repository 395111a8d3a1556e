"""Django for the tests of this folder alone: a configuration in a folder of its own, and a database of its own.

On SQLite, or where PENSTOCK_TEST_DATABASE_URL says: one of the tests runs the others on a PostgreSQL.
"""

import atexit
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(tempfile.mkdtemp(prefix="penstock-control-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
DATABASE_URL = os.environ.get("PENSTOCK_TEST_DATABASE_URL", f"sqlite:///{FOLDER}/control.sqlite")


def _configure() -> None:
    for name in ("secret", "pepper"):
        (FOLDER / name).write_text(secrets.token_hex(32) + "\n")
    (FOLDER / "config.json").write_text(
        json.dumps(
            {
                "environment": "test",
                "secret_key": secrets.token_hex(32),
                "database_url": DATABASE_URL,
                "celery_broker_url": f"filesystem://{FOLDER}/celery",
                "public_url": "http://127.0.0.1:8080",
                "listen": "127.0.0.1:8080",
                "brokers": {
                    "bootstrap": ["127.0.0.1:9"] * 3,
                    "internal": ["127.0.0.1:9"] * 3,
                    "cluster_secret_file": str(FOLDER / "secret"),
                    "pepper_file": str(FOLDER / "pepper"),
                    "pepper_version": 1,
                },
                "datasets": str(FOLDER / "datasets"),
                "usage_key_file": str(FOLDER / "usage.key"),
                "operator_token_file": str(FOLDER / "operator.token"),
                "spark": {"master": "local[1]"},
                "pipeline_interval_s": 20,
                "price_book_file": None,
            }
        )
    )
    before = {name: os.environ.get(name) for name in ("PENSTOCK_CONFIG", "DJANGO_SETTINGS_MODULE")}
    os.environ["PENSTOCK_CONFIG"] = str(FOLDER / "config.json")
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
    from django.core.cache import cache

    cache.clear()
    yield
