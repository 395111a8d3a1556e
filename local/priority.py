"""A process's part of the processors beside others of its machine.

Linux may share processors between sessions first (`sched_autogroup`, where no control group with a CPU weight does
it), and only then by nice values within a session. Our processes lead sessions of their own, so both are set.
"""

import os
import time
from pathlib import Path

LOWEST = 19
"""The nice value of a process that gets what others leave."""
_PAUSE_S = 0.11
"""Linux takes one such change in 100 ms from all who are not root together."""
_TIMES = 4


def lower(pid: int, nice: int) -> None:
    """Give a process, with what it forks later, the nice value `nice` (0 to 19) at least, and its session too if it
    leads one. What the system does not allow or know is left out: it is a preference, and nothing rests on it.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, pid, max(nice, os.getpriority(os.PRIO_PROCESS, pid)))
        if os.getsid(pid) == pid:
            _lower_session(pid, nice)
    except OSError:
        pass


def _lower_session(pid: int, nice: int) -> None:
    for _ in range(_TIMES):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return
