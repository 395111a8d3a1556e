"""Answers what is asked of a tenant's costs: a report, by partition too, and beside it that of another time."""

from collections.abc import Callable
from datetime import datetime

from billing import cost_reports, partition_costs
from billing.cost_reports import Asked, CostRow, Report, order_of
from billing.data_set_rows import Opened
from penstock.contract.errors import InvalidRequest
from tenants.models import Tenant


def answered(tenant: Tenant, asked: Asked, against: Asked | None, now: datetime, store: Opened) -> Report:
    """What was asked. With `against` each row has that time's beside it. Raises `InvalidRequest`, and
    `BrokerUnavailable` where usage by partition cannot be read.
    """

    def reported(one: Asked) -> Report:
        if one.by_partition:
            return partition_costs.by_partition(tenant, one, now, store)
        return cost_reports.report(tenant, one, now)

    return reported(asked) if against is None else _compared(asked, against, reported)


def _compared(asked: Asked, against: Asked, reported: Callable[[Asked], Report]) -> Report:
    """A report whose rows have those of another time beside them, by the same dimensions. Raises `InvalidRequest`, also
    for days and months, which no two times have in common, and for other currencies: nothing is exchanged.
    """
    if asked.bucket:
        raise InvalidRequest(f"by: {asked.bucket} cannot be compared with another time; leave it out")
    now_found, then = reported(asked), reported(against)
    if then.currencies and now_found.currencies and then.currency != now_found.currency:
        raise InvalidRequest(
            f"currency: {now_found.currency} cannot be compared with {then.currency}; nothing is exchanged"
        )
    rows = {tuple(row.values.items()): row for row in now_found.rows}
    earlier = {tuple(row.values.items()): row for row in then.rows}
    for key in earlier.keys() - rows.keys():
        rows[key] = CostRow(values=dict(key))
    for key, row in rows.items():
        row.before = earlier.get(key) or CostRow(values=dict(key))
    now_found.total.before = then.total
    either = now_found if now_found.currencies else then
    return Report(
        asked=asked,
        against=against,
        currency=either.currency,
        minor_digits=either.minor_digits,
        currencies=tuple(sorted({*now_found.currencies, *then.currencies})),
        total=now_found.total,
        rows=sorted(rows.values(), key=order_of),
        names={**then.names, **now_found.names},
    )
