"""Rows that are known to be none before Spark runs: most rounds bring nothing of most kinds, and each job costs."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def nothing(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows, which Spark's optimiser knows: what is made of them needs no job. As Arrow: rows of Python would go
    through a Python worker.
    """
    return spark.createDataFrame(to_arrow_schema(schema, timezone="UTC").empty_table(), schema)


def is_nothing(frame: DataFrame) -> bool:
    """Whether Spark's optimiser finds that there are no rows. It looks at none: False may be no rows as well."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    return bool(plan.getClass().getSimpleName() == "LocalRelation" and plan.data().isEmpty())
