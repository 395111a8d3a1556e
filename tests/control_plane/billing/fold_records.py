"""Runs the usage pipeline's fold over given records of `__usage`, in a process of its own: one Spark for all folds.

    python -m tests.control_plane.billing.fold_records <scratch folder>

Each line of standard input names a file of jobs; when they are done, its name is written to standard output. A job is
{"folder", "records": [[partition, offset, base64 value], …], "ends": {partition: next offset}}.
"""

import base64
import json
import sys
from pathlib import Path

from spark_usage.configuration import SparkConfiguration
from spark_usage.rounds import fold
from spark_usage.session import start_session
from tests.spark_usage.records import Stored, bronze_frame


def main(scratch: str) -> None:
    spark = start_session(SparkConfiguration(), Path(scratch), "fold records")
    try:
        for line in sys.stdin:
            for job in json.loads(Path(line.strip()).read_text(encoding="utf-8")):
                stored = [
                    Stored(partition=partition, offset=offset, value=base64.b64decode(value))
                    for partition, offset, value in job["records"]
                ]
                fold(
                    spark,
                    Path(job["folder"]),
                    rows=bronze_frame(spark, stored),
                    offsets=job["ends"],
                )
            print(line.strip(), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
