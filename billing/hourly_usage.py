"""Usage by hour, minute and principal: read from the data sets `usage_hour` and `usage_minute`.

Their sums are those of `usage_day`, which invoices are made from; what of an hour is on an invoice is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing import data_set_rows
from billing.cost_tags import principal_of, principals_by_number
from billing.data_set_rows import Opened, Rows
from penstock.contract.errors import InvalidRequest
from penstock.rules.meters import LEADERLESS
from tenants.models import Tenant

DAY, HOUR, MINUTE, PRINCIPAL, TOPIC = "day", "hour", "minute", "principal", "topic"
FINER = (HOUR, MINUTE, PRINCIPAL)
"""Groups that the database does not have."""
GROUPS = (TOPIC, DAY, *FINER)
_TIMES = (DAY, HOUR, MINUTE)
_SPAN_MAX = {MINUTE: timedelta(days=1), HOUR: timedelta(days=31), "": timedelta(days=31)}
_SPAN = {MINUTE: timedelta(hours=1), HOUR: timedelta(days=1), "": timedelta(days=31)}
"""Of an answer, where `from` is not given."""
MINUTE_DAYS = 3
"""Minutes are kept of so many days, today included."""
GROUPS_AT_ONCE = 4
"""So many times the groups of a page are in memory while rows are read: then those that come behind the page go."""
_INSTEAD = f"ask by {TOPIC} and {DAY}, which takes no files"
_DAY = timedelta(days=1)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
Key = tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Usage by these groups in [first, end)."""

    by: tuple[str, ...]
    first: datetime
    end: datetime

    @property
    def fine(self) -> str:
        """`hour`, `minute`, or empty: whole days are summed up."""
        return next((name for name in (HOUR, MINUTE) if name in self.by), "")


def asked_for(by: Sequence[str], first: datetime | None, end: datetime | None, now: datetime) -> Asked:
    """What is asked for, with the times that are not given. Raises `InvalidRequest`."""
    if sum(name in _TIMES for name in by) > 1:
        raise InvalidRequest("by: one of day, hour and minute; not several")
    fine = HOUR if HOUR in by else MINUTE if MINUTE in by else ""
    if fine == MINUTE and PRINCIPAL in by:
        raise InvalidRequest("by: minute goes with topic alone; usage of principals is known by hour")
    unit = {MINUTE: timedelta(minutes=1), HOUR: timedelta(hours=1), "": _DAY}[fine]
    for name, moment in (("from", first), ("to", end)):
        if moment is not None and _floor(moment, unit) != moment:
            raise InvalidRequest(
                f"{name}: {_text(moment)}; the beginning of a whole {fine or DAY} (UTC) required"
            )
    first, end = (None if moment is None else max(moment, _BEGINNING) for moment in (first, end))
    if end is None:
        end = max(_floor(now, unit) + unit, first or _BEGINNING)
    if first is None:
        first = end - min(_SPAN[fine], end - _BEGINNING)
    if end - first > _SPAN_MAX[fine]:
        raise InvalidRequest(
            f"from: {_text(first)} to {_text(end)}; {_SPAN_MAX[fine].days * 24} hours at most by {fine or PRINCIPAL}"
        )
    oldest = _floor(now, _DAY) - (MINUTE_DAYS - 1) * _DAY
    if fine == MINUTE and first < oldest:
        raise InvalidRequest(
            f"from: {_text(first)}; minutes are kept from {_text(oldest)} on, ask by hour for earlier ones"
        )
    return Asked(by=tuple(by), first=first, end=end)


def groups_after(
    opened: Opened, tenant: Tenant, asked: Asked, after: Key | None, most: int
) -> list[dict[str, Any]]:
    """The groups that follow the one with this key (None: the first of all) in the order of their keys: at most `most`,
    with their meters. Reads no further in time than they need where the time comes first, and memory does not grow with
    the groups that follow. Raises `InvalidRequest`, and `BrokerUnavailable`.
    """
    known = principals_by_number(tenant) if PRINCIPAL in asked.by else {}

    def fold(rows: Rows) -> dict[Key, dict[str, int]]:
        groups: dict[Key, dict[str, int]] = {}
        # The page is full before this group: it and all that follow are on a later one.
        behind: Key | None = None
        in_order = asked.by[0] in _TIMES
        last = asked.end - timedelta(microseconds=1)
        for window in rows.windows(first=_text(asked.first)[:10], end=_text(last)):
            if in_order and after is not None and window < str(after[0])[: len(window)]:
                continue
            if in_order and len(groups) >= most:
                break
            for row in _rows_of(rows, window, tenant.public_id, asked):
                if row["meter"] == LEADERLESS:
                    continue
                names = {
                    TOPIC: row[TOPIC],
                    DAY: window,
                    HOUR: _text(row[HOUR]) if HOUR in row else "",
                    MINUTE: _text(_moment_of(row[MINUTE])) if MINUTE in row else "",
                    PRINCIPAL: principal_of(row.get(PRINCIPAL, 0), known),
                }
                key = tuple(names[name] for name in asked.by)
                if (after is not None and key <= after) or (behind is not None and key >= behind):
                    continue
                meters = groups.setdefault(key, {})
                meters[row["meter"]] = meters.get(row["meter"], 0) + row["quantity"]
                if len(groups) > GROUPS_AT_ONCE * most:
                    *first, behind = sorted(groups)[: most + 1]
                    groups = {key: groups[key] for key in first}
        return groups

    groups = data_set_rows.read(opened, f"usage_{MINUTE if asked.fine == MINUTE else HOUR}", fold)
    persons = {principal.principal: principal.name for principal in known.values()}
    return [_item(asked, key, groups[key], persons) for key in sorted(groups)[:most]]


def key_of(asked: Asked, item: Mapping[str, Any]) -> Key:
    """The key of an item."""
    return tuple(item[name] for name in asked.by)


def _rows_of(rows: Rows, window: str, tenant: str, asked: Asked) -> Any:
    columns = [TOPIC, "meter", *(name for name in FINER if name in asked.by)]
    between: dict[str, tuple[Any, Any]] = {}
    if asked.fine == MINUTE:
        between[MINUTE] = (_minute_of(asked.first), _minute_of(asked.end))
    elif asked.fine == HOUR:
        between[HOUR] = (asked.first, asked.end)
    return (row for _, row in rows.sums([window], columns, {"tenant": tenant}, between, instead=_INSTEAD))


def _item(asked: Asked, key: Key, meters: Mapping[str, int], names: Mapping[str, str]) -> dict[str, Any]:
    item: dict[str, Any] = dict(zip(asked.by, key, strict=True))
    if PRINCIPAL in item:
        item["principal_name"] = names.get(item[PRINCIPAL], "")
    item["meters"] = {meter: {"quantity": quantity} for meter, quantity in sorted(meters.items())}
    return item


def _floor(moment: datetime, unit: timedelta) -> datetime:
    return moment - (moment - _BEGINNING) % unit


def _minute_of(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


def _moment_of(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def _text(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat() + "Z"
