"""What single partitions used: read from the data set `usage_hour` when it is asked for."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from billing import data_set_rows
from billing.data_set_rows import Opened, Rows
from penstock.rules.meters import LEADERLESS

DATA_SET = "usage_hour"
_COLUMNS = ("topic", "topic_id", "partition", "meter")
_INSTEAD = "ask without partitions, which takes no files"


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
    return _read(opened, lambda rows: rows.windows(first=f"{first}", end=f"{end}"), tenant, {"topic": topic})


def without_a_leader(opened: Opened, tenant: str, days: Collection[date]) -> list[PartitionDay]:
    """How long each partition had none, in ms, on these days. Raises as `of_topic`."""
    names = {day.isoformat() for day in days}
    if not names:
        return []

    def windows(rows: Rows) -> list[str]:
        return [name for name in rows.windows(first=min(names), end=f"{max(names)}~") if name in names]

    return _read(opened, windows, tenant, {"meter": LEADERLESS})


def _read(
    opened: Opened, windows: Callable[[Rows], list[str]], tenant: str, only: Mapping[str, str]
) -> list[PartitionDay]:
    def fold(rows: Rows) -> dict[tuple[str, ...], int]:
        sums: dict[tuple[str, ...], int] = {}
        for window, row in rows.sums(windows(rows), _COLUMNS, {"tenant": tenant, **only}, instead=_INSTEAD):
            key = (window, *(row[name] for name in _COLUMNS))
            sums[key] = sums.get(key, 0) + row["quantity"]
        return sums

    found: Any = data_set_rows.read(opened, DATA_SET, fold)
    return [
        PartitionDay(
            day=date.fromisoformat(day),
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            meter=meter,
            quantity=quantity,
        )
        for (day, topic, topic_id, partition, meter), quantity in found.items()
    ]
