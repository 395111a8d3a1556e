"""Expiry of bronze: records of days before the kept ones go, after a fold that later rounds can begin from was pinned.

That fold is the *ground*: a round up to the last expired record, from the ground before it. Its runs are published as
others are, count for no reader, and stay until the next ground is there. `--again` and a new version of the code fold
what is left of bronze on top of it. It is pinned before the log of bronze forgets the files, so a turn that is killed
leaves records that are in the ground too, and a fold from the ground passes them over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pyspark.sql import SparkSession

from daemon.data_set_store import DataSetStore
from spark_usage import bronze, datasets
from spark_usage.compaction import rewrite
from spark_usage.manifest import EXPIRED, Catalog
from spark_usage.records_read import below
from spark_usage.rounds import fold
from spark_usage.sink_log import Entry, SinkLog, check_same, read_log
from spark_usage.states import find_ground

BYTES_A_TURN = 256 << 20
"""Of days that expire together; one day at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What a turn did."""

    files: int = 0
    through: str = ""
    """The last day that expired."""
    records: int = 0
    """That the ground stands for."""
    waiting: bool = False
    """Whether further days are to expire."""


class _Ground(Catalog):
    """Runs that are published and pinned: what counts for readers stays."""

    def __init__(self, folder: Path, store: DataSetStore, number: int) -> None:
        super().__init__(folder, store, number)
        self.made: dict[str, str] = {}

    def make_current(self, dataset: str, run_id: str) -> None:
        self.made[dataset] = run_id

    def forget_old_runs(self, dataset: str, kept: int = 0) -> None:
        """The next round does."""


def due(log: SinkLog, first_kept: date) -> list[Entry]:
    """Settled files with no record of this day or a later one, the oldest first."""
    return sorted((entry for entry in log.settled if entry.day < first_kept), key=lambda entry: entry.day)


def expire(
    spark: SparkSession,
    folder: Path,
    store: DataSetStore,
    number: int,
    first_kept: date,
    *,
    bytes_max: int = BYTES_A_TURN,
    allowed: Callable[[], bool] = lambda: True,
) -> Expired:
    """A turn: the oldest days before `first_kept`. Only what is settled expires, so that compaction comes first. Raises
    as `rounds.fold`, and `OSError` and `sink_log.Changed`.
    """
    data = bronze.BronzeFolders(folder).data
    log = read_log(data)
    some = _whole_days(due(log, first_kept), bytes_max)
    if not some:
        return Expired()
    catalog = _Ground(folder, store, number)
    ground = find_ground(catalog, log.expired)
    ends = bronze.ends_of(some, {} if ground is None else ground.offsets)
    # A record of a kept day may stand before one of these; the ground has it, too.
    others = [one for one in log.settled if one not in some and _begins_below(one, ends)]
    rows = bronze.read_files(spark, [*some, *others]).where(below(ends))
    done = fold(spark, folder, again=True, rows=rows, offsets=ends, catalog=catalog)
    if not allowed():
        return Expired(waiting=True)
    # An older ground than that of another runner would lose what expired onto it.
    check_same(data, log)
    expired = log.expired + len(some)
    runs = {dataset.name: catalog.made[dataset.name] for dataset in datasets.EVERY}
    catalog.pin(runs | {EXPIRED: str(expired)})
    stay = [one for one in log.settled if one not in some]
    rewrite(data, log, stay, gone=some, more=0, expired=expired)
    return Expired(
        files=len(some),
        through=some[-1].day.isoformat(),
        records=done.records,
        waiting=bool(due(read_log(data), first_kept)),
    )


def _whole_days(found: Sequence[Entry], bytes_max: int) -> list[Entry]:
    taken: list[Entry] = []
    for day in sorted({entry.day for entry in found}):
        of_day = [entry for entry in found if entry.day == day]
        if taken and sum(entry.size for entry in (*taken, *of_day)) > bytes_max:
            break
        taken += of_day
    return taken


def _begins_below(entry: Entry, ends: Mapping[str, int]) -> bool:
    part = entry.part
    return part is None or part.first < ends.get(str(part.partition), 0)
