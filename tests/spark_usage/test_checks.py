"""Checks that compare what a round counted with what it read: each number of them by itself."""

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_usage import checks
from spark_usage.manifest import Check
from spark_usage.silver import ELAPSED_METERS

pytestmark = pytest.mark.slow

Compared = tuple[Callable[[dict[str, int], DataFrame], Check], dict[str, int], dict[str, int]]
COMPARED: dict[str, Compared] = {
    "time": (
        checks.elapsed_equal,
        dict(zip(ELAPSED_METERS, (7, 5, 3), strict=True)),
        dict(zip(ELAPSED_METERS, (7, 5, 3), strict=True)),
    ),
    "requests": (checks.requests_equal, {"valid": 9, "bad": 2}, {"requests": 7}),
    "delivered": (
        checks.increments_equal,
        {"messages": 4, "bytes": 400},
        {
            "messages_out": 4,
            "messages_out_own_zone": 1,
            "messages_out_other_zone": 3,
            "bytes_out": 400,
            "bytes_out_own_zone": 390,
            "bytes_out_other_zone": 10,
        },
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_check_holds_for_what_was_read_and_fails_for_each_number_that_differs(
    spark: SparkSession, name: str
) -> None:
    check, read, counted = COMPARED[name]
    rows = spark.createDataFrame([read]).cache()
    assert check(counted, rows).holds
    for meter, quantity in counted.items():
        for other in (quantity - 1, quantity + 1):
            assert not check(counted | {meter: other}, rows).holds, meter
    rows.unpersist()


@pytest.mark.parametrize("name", COMPARED)
def test_a_check_of_nothing_holds_and_fails_where_something_was_counted(
    spark: SparkSession, name: str
) -> None:
    check, read, counted = COMPARED[name]
    rows = spark.createDataFrame([read]).limit(0)
    assert check({}, rows).holds
    assert not check(counted, rows).holds
