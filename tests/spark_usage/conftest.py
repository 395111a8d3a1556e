"""One Spark session for all tests of this process, and data sets in a folder of the test's own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from daemon.data_set_store import FolderStore
from spark_usage.configuration import SparkConfiguration
from spark_usage.datasets import EVERY
from spark_usage.manifest import Catalog
from spark_usage.rounds import Round, fold
from spark_usage.session import start_session
from tests.spark_usage.java_output import JavaOutput
from tests.spark_usage.records import DAY, HOUR, Stored, Writer, bronze_frame, in_order, reading

_ROOMY_JAVA = "-Xms700m -Xmn350m"
"""A service's Java keeps its heap small and collects it often, a quarter of the time of a long session."""


@pytest.fixture(scope="session")
def java_output() -> JavaOutput:
    """Of the session's Java."""
    return JavaOutput()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, java_output: JavaOutput) -> Iterator[SparkSession]:
    work = tmp_path_factory.mktemp("a folder for Spark")
    with java_output.taken():
        # Tests look at the plans of what was executed.
        kept = {"spark.sql.ui.retainedExecutions": "1000", "spark.driver.extraJavaOptions": _ROOMY_JAVA}
        session = start_session(SparkConfiguration(conf=kept), work, "tests of the usage pipeline")
    yield session
    session.stop()


class Pipeline:
    """Folds records that a test made up, and reads what came of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.catalog = Catalog(folder)

    def fold(
        self, stored: Sequence[Stored], *, ends: dict[str, int] | None = None, again: bool = True
    ) -> Round:
        """A round over exactly these records; `ends` are those of `__usage` when records at its end are missing."""
        found: dict[str, int] = {}
        for record in stored:
            name = str(record.partition)
            found[name] = max(found.get(name, 0), record.offset + 1)
        return fold(
            self.spark,
            self.folder,
            again=again,
            rows=bronze_frame(self.spark, stored),
            offsets=ends or found,
        )

    def fold_bronze(self) -> Round:
        """A round over what is in bronze."""
        return fold(self.spark, self.folder)

    def table(self, dataset: str) -> pa.Table:
        """The current run, in the order of its key."""
        manifest = self.catalog.current(dataset)
        assert manifest is not None
        store, run_id = FolderStore(self.folder), manifest["run_id"]
        of = next(one for one in EVERY if one.name == dataset)
        tables = [
            pq.read_table(
                store.run_folder(dataset, file.get("run", run_id)) / file["name"], partitioning=None
            )
            for file in manifest["files"]
        ]
        if not tables:
            return to_arrow_schema(of.struct, timezone="UTC").empty_table()
        return pa.concat_tables(tables).sort_by([(name, "ascending") for name in of.key_names])

    def rows(self, dataset: str, *columns: str) -> list[tuple[Any, ...]]:
        """Some columns of the current run, in the order of its key."""
        table = self.table(dataset)
        return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))

    def sql(self, query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
        """DuckDB's answer."""
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            return connection.execute(query).fetchall()


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path / "datasets")


@pytest.fixture
def make_pipeline(spark: SparkSession, tmp_path: Path) -> Callable[[str], Pipeline]:
    return lambda name: Pipeline(spark, tmp_path / name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedHours:
    """Five hours of one topic, folded in a folder once for all tests that only read what came of it."""

    stored: Sequence[Stored]
    pipeline: Pipeline
    done: Round


@pytest.fixture(scope="session")
def folded_hours(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FoldedHours:
    writer = Writer()
    stored = in_order(
        *(
            writer.record(
                reading(at * 7, DAY + at * HOUR, at * 7, at * 700, [(9, 7, 700)]), made_ms=DAY + at * HOUR
            )
            for at in range(1, 6)
        )
    )
    pipeline = Pipeline(spark, tmp_path_factory.mktemp("folded-hours"))
    return FoldedHours(stored=stored, pipeline=pipeline, done=pipeline.fold(stored))
