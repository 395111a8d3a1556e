"""What single partitions used: read from the data set `usage_hour` when it is asked for, a day's file at a time.

The database has usage by topic: a row for each partition, day and meter would be most of it, and few are ever looked
at. What is read here is shown and bills nothing, so a file is not compared with its manifest's hash.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.data_set_store import DataSetStore, FolderStore, StoreUnavailable
from penstock.contract.errors import BrokerUnavailable, InvalidRequest
from penstock.rules.meters import LEADERLESS

if TYPE_CHECKING:
    from billing.data_sets import Manifest

DATA_SET = "usage_hour"
FETCHED_BYTES_MAX = 256 * 2**20
"""Of files in a bucket, for one answer: they come whole. In a folder only the tenant's parts of a file are read."""
_TRIES = 2
"""A run may go while its files are read; then those of the newest one are."""


Opened = Callable[[], DataSetStore]
"""Opens the store when something of it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDay:
    """A quantity of a partition on a UTC day."""

    day: date
    topic: str
    topic_id: str
    partition: int
    meter: str
    quantity: int


def of_topic(opened: Opened, tenant: str, topic: str, first: date, end: date) -> list[PartitionDay]:
    """By partition and meter, on the days [first, end). Of topics that had this name one after the other: all of them.
    Raises `InvalidRequest` for more than can be read, and `BrokerUnavailable`.
    """
    return _read(opened, first, end, None, [("tenant", "==", tenant), ("topic", "==", topic)])


def without_a_leader(opened: Opened, tenant: str, days: Collection[date]) -> list[PartitionDay]:
    """How long each partition had none, in ms, on these days. Raises as `of_topic`."""
    if not days:
        return []
    wanted = [("tenant", "==", tenant), ("meter", "==", LEADERLESS)]
    return _read(opened, min(days), max(days), {f"{day:%Y-%m-%d}" for day in days}, wanted)


def _read(
    opened: Opened,
    first: date,
    end: date,
    days: Collection[str] | None,
    wanted: list[tuple[str, str, str]],
) -> list[PartitionDay]:
    """Of the windows in `days`, else of those of [first, end)."""
    # They load 60 MB, which processes that read no data set do not have.
    from billing.data_sets import DataSetRefused, current_manifest

    for left in reversed(range(_TRIES)):
        try:
            store = opened()
            manifest = current_manifest(store, DATA_SET)
            if manifest is None:
                return []
            windows = sorted(
                name
                for name in manifest.windows
                if (name in days if days is not None else f"{first:%Y-%m-%d}" <= name < f"{end:%Y-%m-%d}")
            )
            return [row for name in windows for row in _of_window(store, manifest, windows, name, wanted)]
        except (DataSetRefused, StoreUnavailable, OSError) as error:
            if not left:
                raise BrokerUnavailable(
                    f"usage by partition cannot be read now: {str(error)[:200]}"
                ) from error
    raise AssertionError("unreachable")


def _of_window(
    store: DataSetStore,
    manifest: "Manifest",
    windows: list[str],
    name: str,
    wanted: list[tuple[str, str, str]],
) -> Iterator[PartitionDay]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = ["topic", "topic_id", "partition", "meter"]
    fetched = sum(size for window in windows for _, _, size, _ in manifest.windows[window].files)
    for run_id, file, _, _ in manifest.windows[name].files:
        file_or_bytes: Path | Any
        if isinstance(store, FolderStore):
            file_or_bytes = store.run_folder(DATA_SET, run_id) / file
        else:
            if fetched > FETCHED_BYTES_MAX:
                raise InvalidRequest(
                    f"from: usage by partition of {len(windows)} days is too much; name fewer"
                )
            content = store.file(DATA_SET, run_id, file)
            if content is None:
                raise FileNotFoundError(file)
            file_or_bytes = pa.BufferReader(content)
        # The path's `run=…` is no column.
        table = pq.read_table(
            file_or_bytes, columns=[*columns, "quantity"], filters=wanted, partitioning=None
        )
        summed = table.group_by(columns).aggregate([("quantity", "sum")])
        for row in summed.to_pylist():
            yield PartitionDay(
                day=date.fromisoformat(name),
                topic=row["topic"],
                topic_id=row["topic_id"],
                partition=row["partition"],
                meter=row["meter"],
                quantity=int(row["quantity_sum"]),
            )
