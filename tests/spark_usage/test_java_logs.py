"""What Spark's Java side logs has the form of every other log line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.house import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_LOGS = """
import sys
from pathlib import Path
from spark_usage.configuration import SparkConfiguration
from spark_usage.session import start_session
spark = start_session(SparkConfiguration(master="local[1]"), Path(sys.argv[1]))
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("org.example")
log.error('said "no"\\nand stopped')
log.error("failed", spark._jvm.java.lang.IllegalStateException("out of order"))
spark.stop()
"""


def test_a_line_of_java_is_one_json_object_with_the_same_fields(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _LOGS, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said, failed = [json.loads(line) for line in ended.stderr.splitlines() if "org.example" in line]
    assert {name: said[name] for name in said if name != "time"} == {
        "level": "error",
        "logger": "org.example",
        "message": 'said "no"\nand stopped',
        "process": "runner",
    }
    assert said["time"].endswith("Z")
    assert failed["exception"].startswith("java.lang.IllegalStateException: out of order\n")
