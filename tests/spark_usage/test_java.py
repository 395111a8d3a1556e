"""Spark runs on Debian's Java, and what that logs has the form of every other log line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration import servers
from tests.spark_usage.java_output import JavaOutput
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def test_spark_runs_on_debians_java(spark: SparkSession) -> None:
    java: Any = spark._jvm
    assert java.System.getProperty("java.specification.version") == "17"
    home = Path(os.environ.get("JAVA_HOME") or servers.java_home())
    assert Path(java.System.getProperty("java.home")) == home.resolve()


def test_a_line_of_java_is_one_json_object_with_the_same_fields(
    spark: SparkSession, java_output: JavaOutput
) -> None:
    java: Any = spark._jvm
    example = java.org.apache.logging.log4j.LogManager.getLogger("org.example")
    example.error('said "no"\nand stopped')
    example.error("failed", java.java.lang.IllegalStateException("out of order"))
    wait_until("Java has written both", lambda: len(java_output.with_word("org.example")) == 2)
    said, failed = [json.loads(line) for line in java_output.with_word("org.example")]
    assert {name: said[name] for name in said if name != "time"} == {
        "level": "error",
        "logger": "org.example",
        "message": 'said "no"\nand stopped',
        "process": "runner",
    }
    assert said["time"].endswith("Z")
    assert failed["exception"].startswith("java.lang.IllegalStateException: out of order\n")
