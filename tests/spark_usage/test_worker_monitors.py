"""Java does not have one thread more after each stream over a source in Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from spark_usage.worker_monitors import NAME, end_those_without_workers
from tests.spark_usage.java_output import JavaOutput
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


class _Rows(SimpleDataSourceStreamReader):
    """Three rows in one batch."""

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(number,) for number in range(start["next"], 3)]), {"next": 3}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["next"], end["next"])])


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "three_rows"

    def schema(self) -> str:
        return "number int"

    def simpleStreamReader(self, schema: Any) -> _Rows:
        return _Rows()


def monitors(spark: SparkSession) -> list[Any]:
    """Java's threads that look for idle Python workers."""
    java: Any = spark._jvm
    name = f"{NAME}{spark.sparkContext.pythonExec}"
    return list(java.org.apache.commons.lang3.ThreadUtils.findThreadsByName(name).toArray())


def stream(spark: SparkSession, folder: Path) -> None:
    """Run a stream over the source to its end."""
    query = (
        spark.readStream.format("three_rows")
        .load()
        .writeStream.format("parquet")
        .option("path", str(folder / "rows"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_threads_of_ended_streams_end_and_those_of_daemons_stay(
    spark: SparkSession, java_output: JavaOutput, tmp_path: Path
) -> None:
    spark.dataSource.register(_Source)
    stream(spark, tmp_path / "first")  # starts the daemons of workers that each stream has
    end_those_without_workers(spark)
    wait_until("threads of earlier streams have ended", lambda: end_those_without_workers(spark) == 0)
    before = len(monitors(spark))
    assert before, "a daemon of workers has one"
    for number in range(3):
        stream(spark, tmp_path / str(number))
    assert len(monitors(spark)) >= before + 3, "Spark ends them itself now: remove worker_monitors"

    assert end_those_without_workers(spark) == 3

    wait_until("the threads have ended", lambda: len(monitors(spark)) == before)
    assert end_those_without_workers(spark) == 0
    assert spark.read.parquet(str(tmp_path / "2" / "rows")).count() == 3
    assert java_output.with_word("InterruptedException") == []
