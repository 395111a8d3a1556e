"""Records that came in an earlier round, too: their increments do not count once more."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_usage.decode import decode
from spark_usage.frames import nothing
from spark_usage.records_read import Source
from spark_usage.silver import SOURCE
from spark_usage.states import Base, Irregular

REPEATED_MAX = 1_000
"""Records that are looked up in bronze, before all of it is folded again."""
_MORE = pa.schema([("src_partition", pa.int32()), ("src_offset", pa.int64()), ("more", pa.int32())])


def came_again(
    spark: SparkSession, source: Source, base: Base, records: DataFrame, boots: DataFrame
) -> DataFrame:
    """The places of those of the `records` whose broker, boot and sequence came in earlier rounds (`boots`), with
    `more`, 1. Raises `Irregular` when one of them differs from the earlier one, which is looked up in bronze.

    What came before the ground has expired: that it was the same cannot be looked up, and it has counted.
    """
    came = F.broadcast(boots.select("broker_id", "boot_id", "first", "end"))
    within = "sequence >= first AND sequence < end"
    repeating = records.join(came, ["broker_id", "boot_id"]).where(within)
    if base.lowest:
        return repeating.select(*SOURCE, F.lit(1).alias("more"))
    again = (
        repeating.select("broker_id", "boot_id", "sequence", "digest", *SOURCE)
        .limit(REPEATED_MAX + 1)
        .collect()
    )
    if not again:
        return nothing(spark, from_arrow_schema(_MORE))
    if len(again) > REPEATED_MAX:
        raise Irregular(f"more than {REPEATED_MAX} records came again")
    repeated = {(row["broker_id"], row["boot_id"], row["sequence"], row["digest"]) for row in again}
    wanted = {(broker, boot, sequence): digest for broker, boot, sequence, digest in repeated}
    earlier = decode(source.before(base.offsets, wanted)).where("kind = 'record'")
    found = {
        (row["broker_id"], row["boot_id"], row["sequence"], row["digest"])
        for row in earlier.select("broker_id", "boot_id", "sequence", "digest").collect()
        if (row["broker_id"], row["boot_id"], row["sequence"]) in wanted
    }
    if found != repeated or len(wanted) < len(repeated):
        raise Irregular("another record with the boot and sequence of an earlier one")
    places = [{name: row[name] for name in SOURCE} | {"more": 1} for row in again]
    return spark.createDataFrame(pa.Table.from_pylist(places, _MORE))
