"""Spark runs on Debian's Java, and what that logs has the form of every other log line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_usage.session import CLASS_ARCHIVE
from tests.integration import servers
from tests.spark_usage.java_output import JavaOutput
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def test_spark_runs_on_debians_java(spark: SparkSession) -> None:
    java: Any = spark._jvm
    assert java.System.getProperty("java.specification.version") == "17"
    home = Path(os.environ.get("JAVA_HOME") or servers.java_home())
    assert Path(java.System.getProperty("java.home")) == home.resolve()


def test_java_starts_with_the_archived_classes_where_there_are_any(spark: SparkSession) -> None:
    java: Any = spark._jvm
    maps = Path(f"/proc/{java.ProcessHandle.current().pid()}/maps").read_text()
    assert (str(CLASS_ARCHIVE) in maps) == CLASS_ARCHIVE.exists()


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


def test_java_is_asked_for_a_name_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    java: Any = spark._jvm
    client: GatewayClient = java._gateway_client
    asked: list[str] = []
    send = client.send_command

    def noted(command: str, *arguments: Any, **named: Any) -> Any:
        if command.startswith(REFLECTION_COMMAND_NAME):
            asked.append(command)
        return send(command, *arguments, **named)

    def plan() -> DataFrame:
        return spark.range(3).select(F.col("id"), F.coalesce(F.col("id"), F.lit(0)).alias("n"))

    plan()
    monkeypatch.setattr(client, "send_command", noted)
    assert [tuple(row) for row in plan().collect()] == [(0, 0), (1, 1), (2, 2)]
    assert [command for command in asked if "functions" in command or "PythonUtils" in command] == []
    java.java.lang.System.nanoTime()
    assert asked, "what is not remembered is asked for"
