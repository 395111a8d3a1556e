"""Lines of the log that the client's core wants written. They wait until its lock is free.

A handler of the log has a lock of its own, and may send what it gets by this very client. A thread with the client's
lock that waits for the handler's, and one that has them in the other order, would wait for each other without an end.
"""

import contextlib
import logging
from collections import deque

_waiting: deque[tuple[logging.Logger, str, tuple[object, ...]]] = deque(maxlen=1_000)
"""Lines of all clients of the process. Each step on it is one, whatever other threads do."""


def warn(log: logging.Logger, text: str, *values: object) -> None:
    """Let a warning be written soon; `values` as `logging` takes them."""
    _waiting.append((log, text, values))


def lines_wait() -> bool:
    """True where `write_lines` has something to do."""
    return bool(_waiting)


def forget_lines() -> None:
    """In a forked child: the parent writes its own."""
    _waiting.clear()


def write_lines() -> None:
    """Write what waits. Never under a client's lock. A handler that fails loses its line, and nothing else."""
    while _waiting:
        try:
            log, text, values = _waiting.popleft()
        except IndexError:  # another thread was quicker
            return
        with contextlib.suppress(Exception):
            log.warning(text, *values)
