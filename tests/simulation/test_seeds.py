"""Seeds of the simulation pass: every invariant holds, and all faults meet all protocol steps in the long form. A run
draws some in a row.
"""

import os
import random
import subprocess
import sys

import pytest

from tests.compiled.test_compiled_cores import SEEDS as SEEDS_OF_BOTH_CORES

_SEEDS_OF_ALL = 500
_SEEDS_END = 118
"""Behind the seeds of which a run draws some: all of them ran on the sources as they were when this was written."""
_SEEDS = 16


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_seeds_hold_every_invariant(full: bool) -> None:
    """On compiled cores, in a fraction of the time. That these take the same steps as pure Python is shown in
    `tests/compiled` with the first seeds, which therefore run on both, and in `make test` not a third time.
    """
    command = [sys.executable, "-m", "data_plane.testkit.run", "--jobs", str(os.cpu_count() or 1)]
    if full:
        command += ["--seeds", str(_SEEDS_OF_ALL)]
    else:
        start = random.randrange(SEEDS_OF_BOTH_CORES, _SEEDS_END - _SEEDS + 1)
        command += ["--start", str(start), "--seeds", str(_SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
