"""One seed is one run: another process with another hash seed takes the same steps."""

import os
import subprocess
import sys

import pytest


def trace_hashes(seeds: int, start: int, hash_seed: str) -> str:
    """`SEED HASH` lines of a fresh process."""
    command = [sys.executable, "-m", "data_plane.testkit.run", "--trace-hash"]
    command += ["--start", str(start), "--seeds", str(seeds)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_a_seed_takes_the_same_steps_under_another_hash_seed(full: bool) -> None:
    seeds = 50 if full else 1
    one, other = trace_hashes(seeds, 11, "1"), trace_hashes(seeds, 11, "4711")
    assert len(one.splitlines()) == seeds
    assert one == other
