"""What the commands on hosts say where they cannot work."""

import os
import subprocess
import sys

import pytest

from tests.architecture import house
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.optional_peer
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
@pytest.mark.parametrize("module", ["hosts", "chaos"])
def test_without_the_rights_of_root_one_line_says_so(module: str) -> None:
    program = (
        "import os, runpy, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        f" sys.argv = ['{module}']; runpy.run_module('{module}', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=house.ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "needs the rights of root" in done.stderr
