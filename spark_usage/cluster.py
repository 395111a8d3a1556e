"""A Spark cluster that is lost, its master or all of its executors: a round fails then, and says so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.rules.addresses import split_address

_STANDALONE = "spark://"
_CONNECT_S = 5.0
_LOOK_S = 1.0


class ClusterLost(Exception):
    """The cluster cannot compute now. The round can be done again when it can."""


def require_master(master: str) -> None:
    """Raises `ClusterLost` when none of the standalone masters that `master` names can be connected to.

    Spark itself would try for a minute and then say something else. Other kinds of masters are not looked at.
    """
    if not master.startswith(_STANDALONE):
        return
    failures = []
    for address in master.removeprefix(_STANDALONE).split(","):
        try:
            with socket.create_connection(split_address(address), _CONNECT_S):
                return
        except (OSError, ValueError) as error:
            failures.append(f"{address}: {error}")
    raise ClusterLost(f"no master of Spark answers; start it, or correct spark.master: {'; '.join(failures)}")


@contextmanager
def with_executors(spark: SparkSession, wait_s: float) -> Iterator[None]:
    """Ends the work of Spark within the block when there has been no executor for `wait_s`: Spark itself waits for one
    without an end. Raises `ClusterLost` then. On one machine the driver is the executor, and this does nothing.
    """
    if str(spark.sparkContext.master).startswith("local"):
        yield
        return
    watch = _Watch(spark, wait_s)
    watch.start()
    try:
        yield
    except Exception as error:
        if watch.lost:
            raise ClusterLost(
                f"{spark.sparkContext.master}: no executor for {wait_s:g} s; look at the cluster's workers"
            ) from error
        raise
    finally:
        watch.end()


class _Watch(threading.Thread):
    def __init__(self, spark: SparkSession, wait_s: float) -> None:
        super().__init__(name="executors", daemon=True)
        self.lost = False
        self._context = spark.sparkContext
        self._wait_s = wait_s
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        alone_s = 0.0
        while not self._ended.wait(_LOOK_S):
            alone_s = alone_s + _LOOK_S if self._work_waits() else 0.0
            if alone_s >= self._wait_s:
                self.lost = True
                # Again and again: a job may begin after this.
                self._context.cancelAllJobs()

    def _work_waits(self) -> bool:
        """Whether a job is under way and nothing computes it."""
        jobs = self._context.statusTracker().getActiveJobsIds()
        return bool(jobs) and executors(self._context) == 0


def executors(context: SparkContext) -> int:
    """How many executors the application has on its cluster now."""
    jvm_context: Any = context._jsc.sc()
    return int(jvm_context.getExecutorMemoryStatus().size()) - 1  # the driver is in it
