"""The README's first lines work as printed: the tree's service, and the wheel as a tenant has it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.installed import ROOT, build_wheel, install

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PENSTOCK = Path(sys.executable).with_name("penstock")


def block(language: str, holding: str) -> str:
    """The README's code block of a language that holds the text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if holding in text]
    return str(found)


def penstock(home: Path, *arguments: str) -> None:
    """Run a command of the tree as a person with this home folder; it must succeed."""
    ran = subprocess.run(
        [str(PENSTOCK), *arguments],
        cwd=home,
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home folder with a running service and its profile."""
    data = str(tmp_path / "cluster")
    try:
        penstock(tmp_path, "dev", "up", "--data", data, "--detach")
        yield tmp_path
    finally:
        penstock(tmp_path, "dev", "down", "--data", data)


def test_the_readmes_lines_send_and_receive_with_the_wheel_alone(home: Path, tmp_path: Path) -> None:
    (create,) = re.findall(r"^\.venv/bin/penstock (topic create .*?)\s*(?:#.*)?$", README, flags=re.MULTILINE)
    penstock(home, *create.split())
    tenant = install(build_wheel(tmp_path / "dist"), tmp_path / "venv")
    lines = block("python", "Client(")
    assert len(lines.splitlines()) <= 10
    ran = tenant.run("python", "-W", "error", "-c", lines, cwd=home)
    assert ran.returncode == 0, ran.stderr
    assert "b'anna'" in ran.stdout and "b'one book'" in ran.stdout
