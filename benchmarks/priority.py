"""The processor time that others leave.

Linux may share processors between sessions first (`sched_autogroup`, where no control group with a CPU weight does
it), and only then by nice values within a session. So a process that is to get what others leave leads a session of its
own, and lowers both.
"""

import os
import time
from pathlib import Path

_LOWEST = 19
_PAUSE_S = 0.11
"""Linux takes one such change in 100 ms from all who are not root together."""
_TIMES = 20


def lower_own() -> None:
    """Lower this process, with what it forks later, and its session as far as they go. Raises `OSError` where the
    system refuses it: what is measured beside it would be its work too.
    """
    os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)
    group = Path("/proc/self/autogroup")
    if not group.exists():
        return
    for left in reversed(range(_TIMES)):
        try:
            group.write_text(str(_LOWEST), encoding="ascii")
        except BlockingIOError:
            if not left:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
