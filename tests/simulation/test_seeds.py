"""Seeds of the simulation pass: every invariant holds, and all faults meet all protocol steps in the long form."""

import os
import subprocess
import sys

import pytest

_SEEDS = 50


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_seeds_hold_every_invariant(full: bool) -> None:
    command = [sys.executable, "-m", "data_plane.testkit.run", "--jobs", str(os.cpu_count() or 1)]
    command += ["--seeds", "500"] if full else ["--seeds", str(_SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
