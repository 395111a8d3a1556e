"""Large pieces of memory go back to the kernel from a process that says so, whichever thread took them."""

import subprocess
import sys
from pathlib import Path

_CODE = """
import sys, threading
from daemon import allocator
from daemon.allocator import Option

if sys.argv[1] == "mapped":
    assert allocator.tell({Option.MMAP_THRESHOLD: 256 * 1024})

def take():
    pieces = [b"x" * 1_000_000 for _ in range(20)]
    small = [bytes(100) for _ in range(1_000)]
    pieces.clear()
    turns.wait()
    small.clear()

threads = [threading.Thread(target=take) for _ in range(8)]
turns = threading.Barrier(len(threads) + 1)
for thread in threads:
    thread.start()
turns.wait()
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096)
for thread in threads:
    thread.join()
"""


def resident_bytes(mode: str) -> int:
    """The memory of a process whose eight threads took and freed twenty megabytes each."""
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


def test_freed_megabytes_of_many_threads_leave_the_process() -> None:
    assert resident_bytes("mapped") < 20_000_000
