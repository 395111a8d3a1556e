"""Runs of `python -m chaos` as tests start them, and what they said."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.history_lines import FILE
from tests.architecture import house
from tests.integration.bad_input.small_disk import may_mount

needs_hosts = (
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.optional_peer,
    pytest.mark.skipif(not may_mount(), reason="needs root, for hosts and disks of its own"),
)
"""Continuous integration has the rights of root."""
ENDED = re.compile(
    r"(\d+) acknowledged writes checked: lost 0, doubled 0, out of order 0; unknown outcomes \d+ \(of which applied"
    r" \d+\), refused \d+; (\d+) messages read"
)


def chaos(folder: Path, *arguments: str, timeout_s: float) -> str:
    """What a run printed; fails with it when something was violated."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--folder", str(folder), *arguments],
        cwd=house.ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def history_of(folder: Path) -> Path:
    (path,) = folder.glob(f"*/{FILE}")
    return path
