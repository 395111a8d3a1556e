"""Where a round ended, so that the next one reads new records only and comes to what all records would have given.

Each partition (log) has a *state*: its last good point. The readings of a log *go on* when each of them is of the
state's generation and at its offset or beyond it. Then the state, as a reading, stands for all readings before. Else
the log is *late*: a reading that was held up, a declared loss, a topic's first readings. A late log is folded again
from all of its readings, which the data set `reading` has, and from those of earlier rounds alone; what differs between
the two changes the windows that it is in. So does a log in which a reading was below an earlier one (`rough`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from data_plane.contract.usage_pb2 import CUT, FINAL, GENERATION_START, PERIODIC
from spark_usage import datasets
from spark_usage.leaderships import RETAINED
from spark_usage.manifest import EXPIRED, Catalog, code_version
from spark_usage.readings import PARTITION, POINT

_ORDER = ("totals", "rows", "accepted_ms", "tenant", "topic", "principal_rows")


class Irregular(Exception):
    """News that change what earlier rounds found in a way that only a fold of all of bronze gets right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The last whole round, which the next one goes on from."""

    manifests: Mapping[str, Mapping[str, Any]]
    """By data set."""
    inputs: Mapping[str, Any]
    lowest: bool = False
    """Records before it have expired, so no fold can begin below."""

    @property
    def offsets(self) -> dict[str, int]:
        return {name: int(end) for name, end in self.inputs["offsets"].items()}


def find_base(catalog: Catalog, ends: Mapping[str, int]) -> Base | None:
    """The last whole round of this code when it covers a part of `ends` and all that its runs name is there, else None.
    An older version of the code removes runs whose files a newer one names again.

    Raises `StoreUnavailable`.
    """
    last = catalog.current(datasets.BOOT.name)
    if last is None or last["code_version"] != code_version():
        return None
    inputs = last["inputs"]
    if any(end > ends.get(name, 0) for name, end in inputs["offsets"].items()):
        return None
    manifests = {datasets.BOOT.name: last}
    for name, run_id in inputs["runs"].items():
        manifest = catalog.manifest(name, run_id)
        if manifest is None:
            return None
        manifests[name] = manifest
    if not all(catalog.is_whole(name, manifest) for name, manifest in manifests.items()):
        return None
    return Base(manifests=manifests, inputs=inputs)


class Unrepeatable(Exception):
    """Bronze before a ground has expired, and the ground is not there or does not fit. Nothing was published."""


def find_ground(catalog: Catalog, expired: int, ends: Mapping[str, int] | None = None) -> Base | None:
    """What a fold of all of bronze begins from: the runs that were pinned when bronze before them expired, whichever
    version of the code made them. None when nothing has expired; `expired` counts files of bronze that have, `ends` is
    what a round is to cover (None: what the ground does).

    Raises `Unrepeatable` and `StoreUnavailable`.
    """
    pinned = catalog.pinned()
    if not pinned:
        if expired:
            raise Unrepeatable(
                f"{expired} files of bronze have expired and {catalog.folder / 'ground.json'} is not there: "
                "what was before cannot be folded again; restore the file from a backup"
            )
        return None
    if int(pinned.get(EXPIRED, expired)) < expired:
        # Of a backup, or of a runner that was paused: what expired since would be neither in it nor in bronze.
        raise Unrepeatable(
            f"{catalog.folder / 'ground.json'} stands for {pinned[EXPIRED]} files of bronze, and {expired} have "
            "expired: restore the file and the data sets from a newer backup"
        )
    manifests: dict[str, Mapping[str, Any]] = {}
    for dataset in datasets.EVERY:
        manifest = catalog.manifest(dataset.name, pinned.get(dataset.name, ""))
        if manifest is None or not catalog.is_whole(dataset.name, manifest):
            raise Unrepeatable(
                f"{dataset.name}: the pinned run {pinned.get(dataset.name)} is not there whole, and bronze before "
                "it has expired: restore the data sets from a backup"
            )
        columns = [(column["name"], column["type"]) for column in manifest["schema"]]
        if columns != list(dataset.columns):
            raise Unrepeatable(
                f"{dataset.name}: the pinned run has other columns than this version writes, and bronze before it "
                "has expired: go back to the version before"
            )
        manifests[dataset.name] = manifest
    found = Base(manifests=manifests, inputs=manifests[datasets.BOOT.name]["inputs"], lowest=True)
    beyond = (
        {} if ends is None else {name: end for name, end in found.offsets.items() if end > ends.get(name, 0)}
    )
    if beyond:
        # Of another `__usage`: its first records would pass for expired ones.
        raise Unrepeatable(
            f"{catalog.folder / 'ground.json'} covers __usage up to {beyond}, which ends before that now: the data "
            "sets are of another __usage; keep them, and give this one a folder of its own"
        )
    return found


def go_on(new: DataFrame, logs: DataFrame) -> DataFrame:
    """One row a log of `new` readings: `PARTITION`, `known` (it has a state), `goes_on`."""
    state = logs.select(
        *PARTITION, F.struct(*(name for name in logs.columns if name not in PARTITION)).alias("was")
    )
    here, was = _in_order(""), _in_order("was.")
    further = (F.col("end_offset") > F.col("was.end_offset")) | (
        (F.col("end_offset") == F.col("was.end_offset")) & (here >= was)
    )
    goes_on = (
        ~F.col("was.rough")
        & (F.col("log_generation") == F.col("was.log_generation"))
        & (F.col("reading_kind") != GENERATION_START)
        & (F.col("tenant") == F.col("was.tenant"))
        & (F.col("topic") == F.col("was.topic"))
        & (
            (F.col("accepted_ms") < 0)
            | F.coalesce(F.col("accepted_ms") >= F.col("was.began_ms"), F.lit(False))
        )
        & further
    )
    return (
        new.join(state, list(PARTITION), "left")
        .groupBy(*PARTITION)
        .agg(
            F.bool_or(F.col("was").isNotNull()).alias("known"),
            F.bool_and(F.coalesce(goes_on, F.lit(False))).alias("goes_on"),
        )
    )


def _in_order(prefix: str) -> Column:
    """A reading's place among those of one position, as `readings.points_of` orders them."""
    return F.struct(
        F.col(f"{prefix}totals").alias("totals"),
        (-F.size(f"{prefix}principal_rows")).alias("rows"),
        *(F.col(f"{prefix}{name}").alias(name) for name in _ORDER[2:]),
    )


def as_readings(logs: DataFrame, columns: list[str]) -> DataFrame:
    """States as readings, which come from no place of `__usage` and say nothing of what was kept."""
    given = {"reading_kind": F.lit(PERIODIC), "cut_id": F.lit(""), "last": F.lit(False)}
    given |= {"cut_end_ms": F.lit(0).cast("long"), "made_ms": F.lit(0).cast("long")}
    places = {"src_partition": "int", "src_offset": "long", "row": "int"}
    places |= {"broker_id": "int", "boot_id": "string", "leader_epoch": "int", "retained_since": "long"}
    places |= dict.fromkeys(("retained_until", *RETAINED), "long")
    given |= {name: F.lit(None).cast(kind) for name, kind in places.items()}
    return logs.select(*(given[name].alias(name) if name in given else F.col(name) for name in columns))


def of_logs(seen: DataFrame, logs: DataFrame) -> DataFrame:
    """The data set `log`: the states after these points, and those before (`logs`) of logs that have none."""
    own = seen.where((F.col("view") == F.col("log_generation")) & ~F.col("below"))
    position = F.struct("log_generation", "end_offset")
    values = F.struct(*POINT[2:], "tenant", "topic", "accepted_ms", "totals", "principal_rows")
    good = F.col("current") & ~F.col("void") & ~F.col("below")
    last = seen.where(good).groupBy(*PARTITION).agg(F.max_by(values, position).alias("last"))
    rough = seen.groupBy(*PARTITION).agg(F.max("below").alias("rough"))
    began = own.groupBy(*PARTITION).agg(
        F.min(F.when(F.col("accepted_ms") >= 0, F.col("accepted_ms"))).alias("began_now")
    )
    earlier = logs.select(*PARTITION, F.col("began_ms").alias("began_before"))
    here = (
        last.join(rough, list(PARTITION))
        .join(began, list(PARTITION), "left")
        .join(earlier, list(PARTITION), "left")
        .select(*PARTITION, "last.*", F.least("began_now", "began_before").alias("began_ms"), "rough")
    )
    return here.unionByName(
        logs.join(here.select(*PARTITION), list(PARTITION), "left_anti").select(*here.columns)
    )


def kept_readings(new: DataFrame, touched: DataFrame, logs: DataFrame) -> DataFrame:
    """New rows of the data set `reading`: not those that say once more where a log that goes on has stood, and nothing
    of what was kept. An idle partition of a broker that does not count it has one of these each hour.
    """
    state = logs.join(touched.where("goes_on"), list(PARTITION), "left_semi").select(*POINT)
    plain = new.where(~F.col("reading_kind").isin(CUT, FINAL) & F.col("retained_since").isNull())
    repeated = plain.join(state, list(POINT), "left_semi")
    places = ("src_partition", "src_offset", "row")
    return new.join(repeated.select(*places), list(places), "left_anti").select(*datasets.READING.names)
