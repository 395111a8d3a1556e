"""Enters, changes and removes what the service's infrastructure costs."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from billing.models import NAME_LENGTH_MAX
from billing.unit_cost_models import InfrastructureCost
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.allocation import DRIVER_OF, Asset, Driver, Kind, Per
from penstock.rules.names import check_display_name
from penstock.rules.timestamps import moment_of, whole_ms

COSTS_MAX = 10_000
"""Each month's report reads all that are in it."""
AMOUNT_MAX = 1_000_000
PRICE_MICRO_MAX = 10**15
"""A thousand million of the currency."""
CAPACITY_MAX = 2**63 - 1
CHANGEABLE = (
    *("name", "kind", "driver", "amount", "price_micro", "per", "currency"),
    *("from_at", "until_at", "capacity_month"),
)
_CURRENCY = re.compile(r"[A-Z]{3}")
_FIRST, _LAST = moment_of(0), datetime(9998, 1, 1, tzinfo=UTC)
"""A month after each can be named."""


def costs() -> QuerySet[InfrastructureCost]:
    """Everything that was entered or read in."""
    return InfrastructureCost.objects.all()


def costs_within(first: datetime, end: datetime) -> QuerySet[InfrastructureCost]:
    """What is there in some part of [first, end)."""
    return costs().filter(from_at__lt=end).exclude(until_at__lte=first)


def cost_of(public_id: str) -> InfrastructureCost:
    """Raises `NotFound`."""
    return _one(costs(), public_id)


def is_currency(text: str) -> bool:
    """Whether it is written as one, as USD."""
    return _CURRENCY.fullmatch(text) is not None


@contextmanager
def locked(public_id: str) -> Iterator[InfrastructureCost]:
    """No one else changes it meanwhile. Raises `NotFound`."""
    with transaction.atomic():
        yield _one(costs().select_for_update(no_key=True), public_id)


def enter(actor: Actor, given: Mapping[str, Any]) -> InfrastructureCost:
    """A new cost of the fields in CHANGEABLE. Raises `InvalidRequest`."""
    row = InfrastructureCost(**{name: given[name] for name in CHANGEABLE if name in given})
    check(row)
    with transaction.atomic():
        check_count(1)
        row.save()
        _record(actor, "create", row, None, described(row))
    return row


def change(actor: Actor, row: InfrastructureCost, given: Mapping[str, Any]) -> InfrastructureCost:
    """Change what is given, of CHANGEABLE. The same again changes nothing. `row` is locked. Raises `InvalidRequest`."""
    before = described(row)
    for name in CHANGEABLE:
        if name in given:
            setattr(row, name, given[name])
    if "kind" in given and "driver" not in given:
        row.driver = ""
    check(row)
    after = described(row)
    if after != before:
        row.revision += 1
        row.save()
        _record(actor, "change", row, before, after)
    return row


def remove(actor: Actor, row: InfrastructureCost) -> None:
    """It costs nothing any more, in no month. `row` is locked."""
    _record(actor, "remove", row, described(row), None)
    row.delete()


def asset_of(row: InfrastructureCost) -> Asset:
    """As allocation reads it."""
    return Asset(
        name=row.name,
        kind=Kind(row.kind),
        driver=Driver(row.driver),
        amount=row.amount,
        price_micro=row.price_micro,
        per=Per(row.per),
        begins=row.from_at,
        ends=row.until_at,
        capacity_month=row.capacity_month,
    )


def described(row: InfrastructureCost) -> dict[str, Any]:
    """For the audit log and the ETag."""
    return {
        "name": row.name,
        "kind": row.kind,
        "driver": row.driver,
        "amount": row.amount,
        "price_micro": row.price_micro,
        "per": row.per,
        "currency": row.currency,
        "from_at": row.from_at.isoformat(),
        "until_at": None if row.until_at is None else row.until_at.isoformat(),
        "capacity_month": row.capacity_month,
    }


def check(row: InfrastructureCost) -> None:
    """Raises `InvalidRequest` unless it may stand so. Fills in the driver of its kind, and cuts times to whole ms."""
    check_display_name("name", row.name, NAME_LENGTH_MAX)
    for name, choices in (("kind", Kind), ("per", Per)):
        if getattr(row, name) not in set(choices):
            raise InvalidRequest(f"{name}: one of {', '.join(choices)} required")
    row.driver = row.driver or DRIVER_OF[Kind(row.kind)].value
    if row.driver not in set(Driver):
        raise InvalidRequest(f"driver: one of {', '.join(Driver)} required")
    if not 0 <= row.amount <= AMOUNT_MAX:
        raise InvalidRequest(f"amount: {row.amount} is not within 0 to {AMOUNT_MAX}")
    if not 0 <= row.price_micro <= PRICE_MICRO_MAX:
        raise InvalidRequest(f"price_micro: {row.price_micro} is not within 0 to {PRICE_MICRO_MAX}")
    if not is_currency(row.currency):
        raise InvalidRequest(f"currency: {row.currency[:10]!r}; three letters of A to Z required")
    if not _FIRST <= row.from_at <= _LAST or (row.until_at is not None and row.until_at > _LAST):
        raise InvalidRequest("from_at and until_at: within the years 1970 to 9997 required")
    row.from_at = whole_ms(row.from_at)
    row.until_at = None if row.until_at is None else whole_ms(row.until_at)
    if row.until_at is not None and row.until_at <= row.from_at:
        raise InvalidRequest("until_at: it must be after from_at")
    if row.per == Per.PERIOD and row.until_at is None:
        raise InvalidRequest("until_at: a price for the whole period needs its end")
    if row.capacity_month is not None and not 1 <= row.capacity_month <= CAPACITY_MAX:
        raise InvalidRequest(f"capacity_month: {row.capacity_month} is not within 1 to {CAPACITY_MAX}")
    if row.capacity_month is not None and row.driver == Driver.NONE:
        raise InvalidRequest("capacity_month: a cost without a driver is overhead and has no capacity")


def check_count(more: int) -> None:
    """Raises `InvalidRequest` where so many more are too many."""
    if costs().count() + more > COSTS_MAX:
        raise InvalidRequest(
            f"costs: {COSTS_MAX} are stored, and no more may be; remove those of months that are past"
        )


def _one(rows: QuerySet[InfrastructureCost], public_id: str) -> InfrastructureCost:
    row = rows.filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"cost {public_id[:64]!r}: not found")
    return row


def _record(
    actor: Actor,
    action: str,
    row: InfrastructureCost,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    audit.record(
        actor,
        tenant=SYSTEM_TENANT,
        action=f"infrastructure_cost.{action}",
        object_id=row.public_id,
        before=before,
        after=after,
    )
