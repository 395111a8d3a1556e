"""Which records a round reads: those of bronze, or others that stand for them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_usage import bronze
from spark_usage.sink_log import Entry, Mark, read_log

_POSITION = ["src_partition", "src_offset"]
Identity = tuple[int, str, int]
"""Of a record: broker, boot, sequence."""


class Source(Protocol):
    """Rows with at least the columns `decode.BRONZE_COLUMNS`, and `ingest_date`."""

    @property
    def mark(self) -> Mapping[str, Any]:
        """What of the source a round over all of it has read."""

    @property
    def expired(self) -> int:
        """How many of its files have expired."""

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
        self._log = read_log(bronze.BronzeFolders(folder).data)
        self._fresh: Sequence[Entry] | None = None
        """Files that came since the round that this one goes on from; None: it goes on from none."""

    @property
    def mark(self) -> Mapping[str, Any]:
        return asdict(self._log.end)

    @property
    def expired(self) -> int:
        return self._log.expired

    def follows(self, mark: Any) -> bool:
        self._fresh = None
        if not isinstance(mark, Mapping) or not isinstance(mark.get("files"), int):
            return False
        self._fresh = self._log.since(Mark(files=mark["files"], sha256=str(mark.get("sha256"))))
        return self._fresh is not None

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        if not offsets:
            return bronze.read(self._spark, self._folder)
        if self._fresh is None:
            return bronze.read(self._spark, self._folder).where(~below(offsets))
        return bronze.read_files(self._spark, self._fresh).where(~below(offsets))

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        boots, sequences = {boot for _, boot, _ in wanted}, {sequence for _, _, sequence in wanted}
        named = F.col("boot_id").isin(sorted(boots)) & F.col("sequence").isin(sorted(sequences))
        return bronze.read(self._spark, self._folder).where(named & below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return bronze.read(self._spark, self._folder).join(places.distinct(), _POSITION, "left_semi")


class GivenSource:
    """Rows that stand for bronze."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @property
    def mark(self) -> Mapping[str, Any]:
        return {}

    @property
    def expired(self) -> int:
        return 0

    def follows(self, mark: Any) -> bool:
        return isinstance(mark, Mapping) and not mark

    def after(self, offsets: Mapping[str, int]) -> DataFrame:
        return self._rows.where(~below(offsets)) if offsets else self._rows

    def before(self, offsets: Mapping[str, int], wanted: Collection[Identity]) -> DataFrame:
        return self._rows.where(below(offsets))

    def at(self, places: DataFrame) -> DataFrame:
        return self._rows.join(places.distinct(), _POSITION, "left_semi")


def below(offsets: Mapping[str, int]) -> Column:
    """Whether a record stands before these offsets."""
    found = F.lit(False)
    for name, end in offsets.items():
        found = found | ((F.col("src_partition") == int(name)) & (F.col("src_offset") < end))
    return found
