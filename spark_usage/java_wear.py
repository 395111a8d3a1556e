"""When the driver's Java has so many descriptors open that it is better started again.

Each round leaves three behind (Spark 4.3: `PythonWorkerFactory.createSimpleWorker` opens a `Selector` and closes it
never, nor the socket that is registered there), and none can be closed from outside. `make soak` shows them.
"""

import contextlib
import resource
from collections.abc import Callable
from typing import NamedTuple

import psutil
from pyspark import SparkContext


class Descriptors(NamedTuple):
    """Descriptors of a process."""

    open: int
    most: int
    """Its limit; more cannot be opened."""


class JavaWear:
    """Worn out is a Java that has used half of the descriptors which its first round left it."""

    def __init__(self, descriptors: Callable[[], Descriptors | None]) -> None:
        """`descriptors`: of the driver's Java now; None = there is none."""
        self._descriptors = descriptors
        self._first: int | None = None

    def after_round(self) -> Descriptors | None:
        """Descriptors of a Java that is to be started again; else None. Called after each round with one Java."""
        now = self._descriptors()
        if now is None:
            return None
        if self._first is None:
            self._first = now.open
        return now if now.open - self._first > (now.most - self._first) / 2 else None


def descriptors_of_java() -> Descriptors | None:
    """Descriptors of the Java that this process has started. None, too, where the system names no limit of it."""
    java = getattr(SparkContext._gateway, "proc", None)
    with contextlib.suppress(psutil.Error):
        if java is not None and hasattr(psutil.Process, "rlimit"):
            process = psutil.Process(java.pid)
            most = process.rlimit(resource.RLIMIT_NOFILE)[0]
            return Descriptors(open=process.num_fds(), most=most) if most != resource.RLIM_INFINITY else None
    return None
