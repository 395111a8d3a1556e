"""How much of each kind the facts of a round are, found in one look at them."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from data_plane.contract.usage_pb2 import CUT, FINAL
from spark_usage.manifest import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Facts by kind. What is not there needs no work of Spark."""

    facts: int
    """Of all kinds."""
    records: int
    unreadable: int
    """Records that are rejected as a whole."""
    rejected: int
    """Those and damaged parts of others."""
    retained: int
    """Readings that say what their leadership kept."""
    ends: int
    """Readings of cuts and of deleted topics."""
    delivered: int
    requests: int
    elapsed: int
    seals: int
    runs: int

    def check(self, records: int, distinct: int) -> Check:
        """Every row of bronze is there once, and is used or in `rejected`."""
        numbers = {
            "bronze": records,
            "distinct": distinct,
            "read": self.records,
            "rejected": self.unreadable,
        }
        return Check(
            name="every record is used or rejected, once",
            numbers=numbers,
            holds=records == distinct == self.records + self.unreadable,
        )


def news_of(facts: DataFrame) -> News:
    """Of the facts of `decode`."""
    kind = F.col("kind")
    (row,) = facts.agg(
        F.count("*").alias("facts"),
        F.count_if(kind == "record").alias("records"),
        F.count_if((kind == "rejected") & (F.col("row") == -1)).alias("unreadable"),
        F.count_if(kind == "rejected").alias("rejected"),
        F.count_if(F.col("retained_since").isNotNull()).alias("retained"),
        F.count_if(F.col("reading_kind").isin(CUT, FINAL)).alias("ends"),
        F.count_if(kind == "delivered").alias("delivered"),
        F.count_if(kind == "requests").alias("requests"),
        F.count_if(kind == "elapsed").alias("elapsed"),
        F.count_if(kind == "seal").alias("seals"),
        F.count_if(kind == "run_last").alias("runs"),
    ).collect()
    return News(**row.asDict())
