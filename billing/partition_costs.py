"""A topic's usage and cost by partition: its report, divided by what each partition used.

An amount is divided as everywhere (`billing.cost_division`): by quantity, of a meter and a time, to the micro-unit.
What the data set by partition does not explain, as it is older than the sums by topic, is of no partition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from billing import cost_division, cost_reports, partition_usage
from billing.cost_reports import PARTITION, Asked, CostRow, Report
from billing.data_set_rows import Opened
from penstock.contract.errors import InvalidRequest
from tenants.models import Tenant

Values = tuple[str, ...]
_Used = dict[tuple[str, str], dict[str, int]]
"""(day, month or nothing, meter) -> partition -> quantity."""


def by_partition(tenant: Tenant, asked: Asked, now: datetime, store: Opened) -> Report:
    """The report of one topic, whose rows have partitions. Raises `InvalidRequest`, and `BrokerUnavailable`."""
    times = (asked.bucket,) if asked.bucket else ()
    whole = cost_reports.report(tenant, replace(asked, by=(*times, "meter"), partition=None), now)
    assert asked.topic is not None, "a partition is one of a topic"
    used = _used(
        asked, partition_usage.of_topic(store, tenant.public_id, asked.topic, asked.first, asked.end)
    )
    rows: dict[Values, CostRow] = {}
    for row in whole.rows:
        bucket = row.values[asked.bucket] if asked.bucket else ""
        for partition, part in _divided(row, used.get((bucket, row.values["meter"]), {})).items():
            if asked.partition is None or partition == asked.partition:
                known = {**row.values, PARTITION: partition}
                values = {name: known[name] for name in asked.by}
                rows.setdefault(tuple(values.values()), CostRow(values=values)).add(part)
        if len(rows) > cost_reports.CELLS_MAX:
            raise InvalidRequest(f"by: more than {cost_reports.CELLS_MAX} rows; name fewer days")
    found = sorted(rows.values(), key=cost_reports.order_of)
    total = CostRow(values={})
    for row in found:
        total.add(row)
    return replace(whole, asked=asked, rows=found, total=total)


def _used(asked: Asked, days: Sequence[partition_usage.PartitionDay]) -> _Used:
    found: _Used = {}
    for one in days:
        sums = found.setdefault((_bucket(asked, one.day), one.meter), {})
        name = str(one.partition)
        sums[name] = sums.get(name, 0) + one.quantity
    return found


def _bucket(asked: Asked, day: date) -> str:
    return {"day": day.isoformat(), "month": f"{day:%Y-%m}"}.get(asked.bucket, "")


def _divided(row: CostRow, used: Mapping[str, int]) -> dict[str, CostRow]:
    """One meter's row by partition; empty: of none that is known. Parts add up to the row."""
    meter = row.values["meter"]
    quantity = row.meters.get(meter, 0)
    weights = dict(used)
    unknown = quantity - sum(used.values())
    if unknown > 0:
        weights[""] = unknown
    parts: dict[str, CostRow] = {}

    def part(partition: str) -> CostRow:
        return parts.setdefault(partition, CostRow(values={}))

    for partition, one in cost_division.divided(quantity, weights, "").items():
        if one:
            part(partition).meters[meter] = one
    for partition, micro in cost_division.divided(row.usage_micro, weights, "").items():
        part(partition).usage_micro = micro
    for partition, micro in cost_division.divided(row.provisional_micro, weights, "").items():
        part(partition).provisional_micro = micro
    if row.charges_micro:
        part("").charges_micro = row.charges_micro
    return parts
