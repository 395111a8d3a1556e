"""The Spark session of the pipeline: where Spark is, which Python its workers run, and settings for small data."""

import logging
import os
import sys
import zipfile
from pathlib import Path

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_usage import cluster, java_names
from spark_usage.configuration import SparkConfiguration
from spark_usage.source import PenstockDataSource

PROJECT = Path(__file__).resolve().parent.parent
_SHIPPED = ("penstock", "daemon", "data_plane/__init__.py", "data_plane/contract", "spark_usage")
"""What workers on other machines must be able to import."""
_DRIVER_MEMORY = "1g"
_SMALL_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
)
"""For one machine: rounds are many small plans, and the optimising compiler costs more than it gains. Without it Java
would reserve 48 MB for compiled code, which some rounds fill; from then on it compiles nothing. The heap
stays near what is in use: Java would let it grow to its limit, since nothing else asks for the memory.
"""
CLASS_ARCHIVE = Path(sys.prefix) / "share" / "penstock" / "spark-classes.jsa"
"""Classes of Spark as Java wants them, where `class_archive` has made it: half of a start's processor time is loading
classes. Java passes it over when the jars, their places or Java itself are others than those it was made with.
"""
_PATIENT = {
    "spark.network.timeout": "600s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "120s",
}
"""A busy machine is slow, not wrong. The 10 s in which a worker of the source must connect are fixed in Spark."""
_INTERPRETED = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
_COMPILED = {
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.shuffle.partitions": "2",
}
COMPILED_FROM = 50_000
"""Facts of a round: so many are folded in half the time by compiled expressions, compiling included."""
_REMEMBERED = {
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.ui.retainedDeadExecutors": "2",
    "spark.sql.ui.retainedExecutions": "5",
}
"""What Spark keeps of work that is over, although no page shows it: a thousand plans with their metrics otherwise."""
_ON_ONE_MACHINE = {
    # On one machine planning costs more than small data; a cluster plans as it goes.
    "spark.sql.adaptive.enabled": "false",
    # Nor is it worth compiling expressions for a few thousand rows: a round without takes half the processor time.
    # Of that, tasks take a third, most of it to be started: a part more is a task more in each stage.
    **_INTERPRETED,
}
_ON_A_CLUSTER = {
    "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
    "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
}
_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {"time": "%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}", \\
"level": "%level{lowerCase=true}", "logger": "%enc{%c}{JSON}", "message": "%enc{%m}{JSON}", \\
"process": "runner"%notEmpty{, "exception": "%enc{%ex}{JSON}"}}%n
logger.context.name = org.apache.spark.SQLQueryContextLogger
logger.context.level = off
logger.loader.name = org.apache.hadoop.util.NativeCodeLoader
logger.loader.level = off
"""


def start_session(
    configuration: SparkConfiguration, work: Path, app_name: str = "penstock usage"
) -> SparkSession:
    """The one session of this process. `work` is a folder for Spark's own files, which workers of a cluster see under
    the same path; it is made.

    Secrets of Spark's own are in `spark-defaults.conf` in SPARK_CONF_DIR: what is given here stands on the command
    line of the driver's Java. Raises `ClusterLost` when a standalone master does not answer.
    """
    work = work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    local = not configuration.on_cluster
    cluster.require_master(configuration.master)
    # A script of an environment that is not activated finds neither Spark nor the right Python by itself.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = str(configuration.python or sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Compiled cores are in a folder before the project's own, for workers as for this process.
    paths = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(PROJECT)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["TZ"] = "UTC"
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logs = work / "log4j2.properties"
    logs.write_text(_QUIET)
    options = f"-Dlog4j2.configurationFile={logs.as_uri()} -Duser.timezone=UTC "
    options += java_option(f"-Dderby.system.home={work}") + archived_classes()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    settings = {
        **_PATIENT,
        **_REMEMBERED,
        "spark.driver.extraJavaOptions": options,
        "spark.driver.memory": os.environ.get("PENSTOCK_SPARK_MEMORY", _DRIVER_MEMORY),
        "spark.executorEnv.TZ": "UTC",
        "spark.local.dir": str(work / "scratch"),
        # Each call that makes a column would look for its place in our code, and tell Java.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Ten thousand records may be hundreds of megabytes.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 2**20),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    settings |= _ON_ONE_MACHINE if local else _ON_A_CLUSTER
    if local:
        settings["spark.driver.extraJavaOptions"] += f" {_SMALL_JAVA}"
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    builder = SparkSession.builder.master(configuration.master).appName(app_name)
    for name, value in configuration.conf.items():
        # Java's options are added to ours, everything else replaces it.
        added = name.endswith(".extraJavaOptions") and name in settings
        settings[name] = f"{settings[name]} {value}" if added else value
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    java_names.remember(spark._jvm)
    spark.sparkContext.setLogLevel("ERROR")
    if not local:
        spark.sparkContext.addPyFile(str(_packed(work / "penstock-usage.zip")))
        spark.sparkContext.setCheckpointDir(str(work / "checkpoints"))
    spark.dataSource.register(PenstockDataSource)
    return spark


def archived_classes() -> str:
    """Options of Java for the archive of classes, which say nothing when Java passes it over; empty without one."""
    if not CLASS_ARCHIVE.exists():
        return ""
    return f" {java_option(f'-XX:SharedArchiveFile={CLASS_ARCHIVE}')} -Xlog:cds*=off"


def java_option(text: str) -> str:
    """An option as a part of `extraJavaOptions`, which Spark splits at spaces: a path may have some."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def java_has_ended() -> bool:
    """Whether the driver's Java is gone, as after the kernel's memory killer, also while Spark starts. No session of
    this process works then: PySpark starts Java once.
    """
    java = getattr(SparkContext._gateway, "proc", None)
    return java is not None and java.poll() is not None


def suit(spark: SparkSession, facts: int) -> None:
    """Settings for a round over so many facts. A cluster compiles always."""
    if str(spark.sparkContext.master).startswith("local"):
        for name, value in (_COMPILED if facts >= COMPILED_FROM else _INTERPRETED).items():
            spark.conf.set(name, value)


def _packed(archive: Path) -> Path:
    """The modules that workers need, as one archive that the driver serves to them."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in _SHIPPED:
            top = PROJECT / entry
            for file in [top] if top.is_file() else sorted(top.rglob("*.py")):
                packed.write(file, file.relative_to(PROJECT))
    return archive
