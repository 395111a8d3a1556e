"""Notices os.fork(): connections and threads are the parent's, so clients in the child must say so instead
of hanging.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    def after_fork(self) -> None:
        """Called in the child, in its only thread."""


_live: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch_forks(runtime: Forkable) -> None:
    """Tell `runtime` in the child of every later fork, as long as it is referenced elsewhere."""
    _live.add(runtime)


def _after_fork() -> None:
    for runtime in list(_live):
        runtime.after_fork()


os.register_at_fork(after_in_child=_after_fork)
