"""Workers of Spark import what their driver does."""

import pytest
from pyspark.sql import SparkSession

from penstock.build import CORES

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def cores(_: int) -> str:
    """A worker calls it and says which cores it runs."""
    from penstock.build import CORES as ITS_CORES

    return ITS_CORES


def test_workers_run_the_cores_of_their_driver(spark: SparkSession) -> None:
    """The folder of compiled cores stays before the project's own on their path."""
    assert spark.sparkContext.parallelize([0], 1).map(cores).collect() == [CORES]
