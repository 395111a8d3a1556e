"""Ends threads that Spark leaves in the driver's Java, one for each stream.

A stream over a source in Python starts a Python worker of its own for that source, and with it a thread that looks for
idle workers every ten seconds. There are never any: only workers of a daemon rest. The worker ends with the stream, and
the thread runs on for as long as Java does (Spark 4.3: `PythonWorkerFactory.MonitorThread` has an endless loop, which
`PythonWorkerFactory.stop` does not end). A round is a stream, so Java would have thousands of threads after a day.
"""

from typing import Any

from pyspark.sql import SparkSession

NAME = "Idle Worker Monitor for "
"""Such a thread is named so, and after the Python of its workers."""
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"
"""The method by which such a thread gives its factory of workers."""


def end_those_without_workers(spark: SparkSession) -> int:
    """End the threads that look for idle workers where none can be. Returns how many. May be called at any time, also
    while a stream runs.
    """
    java: Any = spark._jvm
    python = spark.sparkContext.pythonExec
    threads = java.org.apache.commons.lang3.ThreadUtils.findThreadsByName(f"{NAME}{python}").toArray()
    ended = [thread for thread in threads if not getattr(thread, _FACTORY)().useDaemonEnabled()]
    for thread in ended:
        # An interrupt ends its sleep by an exception, which Java would print.
        thread.setUncaughtExceptionHandler(_silent(java))
        thread.interrupt()
    return len(ended)


def _silent(java: Any) -> Any:
    """A handler of exceptions that does nothing."""
    invoke = java.java.lang.invoke
    nothing = invoke.MethodHandles.empty(invoke.MethodType.genericMethodType(2))
    kind = java.java.lang.Class.forName("java.lang.Thread$UncaughtExceptionHandler")
    return invoke.MethodHandleProxies.asInterfaceInstance(kind, nothing)
