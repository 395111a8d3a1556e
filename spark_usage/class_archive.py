"""Makes the archive of classes with which Spark's Java starts in half the processor time.

    python -m spark_usage.class_archive

The archive belongs to the environment of this Python (`session.CLASS_ARCHIVE`). Java writes it when it ends, of the
classes that a round over one record has loaded.
"""

import os
import subprocess
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext

from data_plane.contract import usage_pb2 as pb
from penstock.rules.timestamps import DAY_MS
from spark_usage import bronze
from spark_usage.configuration import SparkConfiguration
from spark_usage.rounds import fold
from spark_usage.session import CLASS_ARCHIVE, java_option, start_session

_END_S = 600.0
"""Java's end with the archive takes ten seconds of a processor, which a busy machine may not have at once."""


def make(archive: Path = CLASS_ARCHIVE) -> None:
    """Replaces an older archive. Raises `subprocess.TimeoutExpired` and `FileNotFoundError` when Java wrote none."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        new = Path(folder) / archive.name
        # Java extends no archive that was made like this one.
        archive.unlink(missing_ok=True)
        written = java_option(f"-XX:ArchiveClassesAtExit={new}")
        options = {"spark.driver.extraJavaOptions": f"{written} -Xlog:disable"}
        spark = start_session(SparkConfiguration(conf=options), Path(folder) / "spark", "class archive")
        rows = spark.createDataFrame(pa.Table.from_pylist([_row()], schema=bronze.SCHEMA))
        fold(spark, Path(folder) / "datasets", rows=rows, offsets={"0": 1})
        spark.stop()
        _end_java()
        os.replace(new, archive)


def _row() -> dict[str, Any]:
    """A record of bronze with one reading."""
    reading = pb.Reading(
        tenant="tn_a",
        topic_id=bytes(16),
        topic="orders",
        end_offset=1,
        accepted_ms=DAY_MS,
        totals=[1, 100, 0, 0, 0, 0],
        minute_rows=[pb.PrincipalRow(minute=DAY_MS // 60_000, principal=1, messages=1, bytes=100)],
        leader_epoch=1,
    )
    record = pb.UsageRecord(broker_id=1, boot_id="boot", sequence=1, made_ms=DAY_MS, readings=[reading])
    return {
        "src_partition": 0,
        "src_offset": 0,
        "ingest_date": date(1970, 1, 2),
        "broker_id": 1,
        "boot_id": "boot",
        "sequence": 1,
        "made_ms": DAY_MS,
        "record": record.SerializeToString(),
    }


def _end_java() -> None:
    """As it ends with the driver: when its standard input does."""
    gateway = SparkContext._gateway
    assert gateway is not None
    java: subprocess.Popen[bytes] = gateway.proc
    assert java.stdin is not None
    java.stdin.close()
    java.wait(_END_S)


if __name__ == "__main__":
    make()
