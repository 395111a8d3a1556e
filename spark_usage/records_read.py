"""Which records a round reads: those of bronze, or others that stand for them."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_usage import bronze

_POSITION = ["src_partition", "src_offset"]
Identity = tuple[int, str, int]
"""Of a record: broker, boot, sequence."""


class Source(Protocol):
    """Rows with at least the columns `decode.BRONZE_COLUMNS`, and `ingest_date`."""

    @property
    def mark(self) -> Mapping[str, Any]:
        """What of the source a round over all of it has read."""

    def follows(self, mark: Any) -> bool:
        """Whether the source still begins with what a round with this mark has read."""

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        """Records from these offsets on; all of a partition that they do not name. Call `follows` first."""

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        """Records below these offsets: those with these identities, and perhaps others."""

    def at(self, places: DataFrame) -> DataFrame:
        """The records at these places, wherever they are."""


class BronzeSource:
    """Bronze in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._entries = bronze.entries(folder)
        self._read = 0

    @property
    def mark(self) -> Mapping[str, Any]:
        return asdict(bronze.mark_of(self._entries))

    def follows(self, mark: Any) -> bool:
        if not isinstance(mark, Mapping) or not isinstance(mark.get("files"), int):
            return False
        first = self._entries[: mark["files"]]
        self._read = len(first)
        return asdict(bronze.mark_of(first)) == mark

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        if not offsets:
            return bronze.read(self._spark, self._folder)
        return bronze.read_files(self._spark, self._entries[self._read :]).where(~_below(offsets))

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        boots, sequences = {boot for _, boot, _ in wanted}, {sequence for _, _, sequence in wanted}
        named = F.col("boot_id").isin(sorted(boots)) & F.col("sequence").isin(sorted(sequences))
        return bronze.read(self._spark, self._folder).where(named & _below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return bronze.read(self._spark, self._folder).join(places.distinct(), _POSITION, "left_semi")


class GivenSource:
    """Rows that stand for bronze."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @property
    def mark(self) -> Mapping[str, Any]:
        return {}

    def follows(self, mark: Any) -> bool:
        return isinstance(mark, Mapping) and not mark

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        return self._rows.where(~_below(offsets)) if offsets else self._rows

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        return self._rows.where(_below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return self._rows.join(places.distinct(), _POSITION, "left_semi")


def _below(offsets: Mapping[str, int]) -> Column:
    below = F.lit(False)
    for name, end in offsets.items():
        below = below | ((F.col("src_partition") == int(name)) & (F.col("src_offset") < end))
    return below
