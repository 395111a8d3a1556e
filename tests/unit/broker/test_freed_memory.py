"""Freed memory stays with a process that asks for it, and is touched again without page faults."""

import subprocess
import sys
from pathlib import Path

_ROUNDS = 20
_MEGABYTES = 8
_CODE = f"""
import resource, sys
from data_plane.broker.freed_memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def rounds(count):
    for _ in range(count):
        held = [b"x" * (1 << 20) for _ in range({_MEGABYTES})]
        held.clear()

rounds(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
rounds({_ROUNDS})
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    """Page faults of a process that takes and frees a few megabytes again and again."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, mode],
        cwd=Path(__file__).parents[3],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_what_was_freed_is_taken_again_without_page_faults() -> None:
    pages = _ROUNDS * _MEGABYTES * 256
    assert faults("otherwise") > pages / 2
    assert faults("kept") < pages / 50
