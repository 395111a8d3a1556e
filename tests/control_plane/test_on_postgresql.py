"""The tests of this folder that need no other process hold on a real PostgreSQL as they do on SQLite."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import servers
from tests.integration.installed import ROOT

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(1_220)]

HERE = Path(__file__).parent
FILES = [
    *sorted(path for path in HERE.glob("test_*.py") if path != Path(__file__)),
    HERE / "api" / "test_hostile_input.py",
    HERE / "api" / "test_lists.py",
    HERE / "billing",
    HERE / "web" / "test_hostile_forms.py",
]


def test_everything_holds_on_postgresql() -> None:
    with servers.postgresql() as server:
        url = f"postgresql://penstock@127.0.0.1:{server.port}/postgres"
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--no-header",
                "-p",
                "no:cacheprovider",
                "-m",
                "not processes",
                *map(str, FILES),
            ],
            cwd=ROOT,
            env={**os.environ, "PENSTOCK_TEST_DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=1_200,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
