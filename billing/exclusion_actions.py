"""Takes time out of service levels: announced before it begins, bounded by the month, and in each audit log."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Literal

from django.db import transaction
from django.db.models import F, Q, QuerySet

from billing.service_level_models import REASON_LENGTH_MAX, ServiceExclusion
from control_plane.audit import actions as audit
from control_plane.audit import queries as audited
from control_plane.audit.actor import Actor, system
from control_plane.processes import setbacks
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules.allocation import month_after
from penstock.rules.service_levels import EXCLUDED_WINDOWS_MAX, WINDOW_S, windows_of
from tenants.models import Tenant

ANNOUNCER = system("billing.sla")
ANNOUNCING = "announcing exclusions"
Field = Literal["announced_to", "withdrawal_announced_to"]
_ACTIONS: Mapping[Field, str] = MappingProxyType(
    {"announced_to": "sla_exclusion.create", "withdrawal_announced_to": "sla_exclusion.withdraw"}
)
"""The action of the entry that each tenant up to the field's has in its audit log."""
ANNOUNCED_MAX = 200
"""Tenants whose audit logs get an exclusion in one call: the rest with the next bill runs."""
ANNOUNCED_FOR = timedelta(days=800)
"""So long after its end tenants still hear of one: as long as its month may be posted, which waits for it."""
_HOURS_MAX = EXCLUDED_WINDOWS_MAX * WINDOW_S // 3_600


def exclude(
    actor: Actor,
    *,
    tenant: str | None,
    from_at: datetime,
    until_at: datetime,
    reason: str,
    now: datetime,
    notice: timedelta,
) -> ServiceExclusion:
    """Announce that [from, until) is taken out of the service levels of a tenant, or of all. Raises `NotFound`,
    `InvalidRequest` (it begins before `notice` is over), `LimitExceeded` (too much of a month).
    """
    if not reason.strip() or not reason.isprintable() or len(reason) > REASON_LENGTH_MAX:
        raise InvalidRequest(f"reason: 1 to {REASON_LENGTH_MAX} characters in one line required")
    if from_at < now + notice:
        raise InvalidRequest(
            f"from_at: {(now + notice).isoformat()} or later required: time is taken out of service levels only if"
            f" tenants know it {notice.total_seconds() / 3_600:g} hours before"
        )
    if not from_at < until_at:
        raise InvalidRequest("until_at: after from_at required")
    with transaction.atomic():
        row = None if tenant is None else _tenant(tenant)
        _check_bound(row, from_at, until_at)
        made = ServiceExclusion.objects.create(
            tenant=row, from_at=from_at, until_at=until_at, reason=reason, created_at=now
        )
        audit.record(
            actor,
            tenant=SYSTEM_TENANT if row is None else row.public_id,
            action="sla_exclusion.create",
            object_id=made.public_id,
            after=_said(made),
        )
        return made


def withdraw(actor: Actor, public_id: str, now: datetime) -> ServiceExclusion:
    """It excludes nothing any more. Months that were posted with it stay. Raises `NotFound`."""
    with locked(public_id) as row:
        if row.withdrawn_at is None:
            row.withdrawn_at = now
            row.save(update_fields=["withdrawn_at"])
            audit.record(
                actor,
                tenant=SYSTEM_TENANT if row.tenant is None else row.tenant.public_id,
                action="sla_exclusion.withdraw",
                object_id=row.public_id,
            )
        return row


def tell_tenants(now: datetime) -> int:
    """Write exclusions of all tenants, and their withdrawals, into each tenant's audit log: `ANNOUNCED_MAX` times
    at most. Returns how often. What was written is not written again, however often this stops and begins. A tenant
    whose entry cannot be written rests (`setbacks`), and keeps no other from hearing.
    """
    count = 0
    of_all = ServiceExclusion.objects.filter(tenant=None, until_at__gt=now - ANNOUNCED_FOR).order_by("pk")
    for row in of_all:
        for field in _fields(row):
            unannounced, tell = _unannounced(row, field), partial(_tell, row.public_id)
            count += setbacks.each(ANNOUNCING, unannounced, tell, most=ANNOUNCED_MAX - count)
            _advance(row, field)
            if count >= ANNOUNCED_MAX:
                return count
    return count


def check_announced(tenant: Tenant, first: datetime, end: datetime) -> None:
    """Raises `InvalidRequest` where an exclusion of all tenants, or its withdrawal, is about [first, end) and is not in
    the tenant's audit log yet.
    """
    of_all = ServiceExclusion.objects.filter(tenant=None, from_at__lt=end, until_at__gt=first)
    for row in of_all.order_by("pk"):
        for field in _fields(row):
            if _unannounced(row, field).filter(pk=tenant.pk).exists():
                raise InvalidRequest(
                    f"{tenant.public_id}: its audit log does not have exclusion {row.public_id} yet, so {first:%Y-%m} "
                    "cannot be posted; the log of the worker says why it is not announced"
                )


def _fields(row: ServiceExclusion) -> tuple[Field, ...]:
    return ("announced_to",) if row.withdrawn_at is None else ("announced_to", "withdrawal_announced_to")


def _concerned(row: ServiceExclusion, field: Field) -> QuerySet[Tenant]:
    """Tenants behind the field's whose reports name the exclusion, also those that came after its announcement; not
    those that came once it was over or withdrawn.
    """
    ends = row.until_at if row.withdrawn_at is None else min(row.until_at, row.withdrawn_at)
    tenants = Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(purged_at=None)
    return tenants.filter(created_at__lt=ends, pk__gt=getattr(row, field)).order_by("pk")


def _unannounced(row: ServiceExclusion, field: Field) -> QuerySet[Tenant]:
    """The concerned tenants whose audit log does not have it."""
    return audited.without_entry(_concerned(row, field), action=_ACTIONS[field], object_id=row.public_id)


def _tell(public_id: str, tenant: Tenant) -> None:
    """Write all that the tenant's log lacks of it, in its own transaction: no request waits for the logs of all."""
    with locked(public_id) as row:
        for field in _fields(row):
            if _unannounced(row, field).filter(pk=tenant.pk).exists():
                audit.record(
                    ANNOUNCER,
                    tenant=tenant.public_id,
                    action=_ACTIONS[field],
                    object_id=row.public_id,
                    after=_said(row),
                )


def _advance(row: ServiceExclusion, field: Field) -> None:
    """No tenant before the first unannounced one is looked at again."""
    first = _unannounced(row, field).first()
    announced = _concerned(row, field)
    last = (announced if first is None else announced.filter(pk__lt=first.pk)).last()
    if last is not None:
        ServiceExclusion.objects.filter(pk=row.pk, **{f"{field}__lt": last.pk}).update(**{field: last.pk})


def exclusion_of(public_id: str) -> ServiceExclusion:
    """Raises `NotFound`."""
    row = ServiceExclusion.objects.select_related("tenant").filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"exclusion {public_id[:64]!r}: not found")
    return row


@contextmanager
def locked(public_id: str) -> Iterator[ServiceExclusion]:
    """No one else changes it meanwhile. Raises `NotFound`."""
    with transaction.atomic():
        row = ServiceExclusion.objects.select_for_update(no_key=True).filter(public_id=public_id).first()
        if row is None:
            raise NotFound(f"exclusion {public_id[:64]!r}: not found")
        yield row


def _said(row: ServiceExclusion) -> dict[str, object]:
    return {
        "from_at": row.from_at.isoformat(),
        "until_at": row.until_at.isoformat(),
        "reason": row.reason,
        "announced_at": row.created_at.isoformat(),
        "all_tenants": row.tenant_id is None,
    }


def _tenant(public_id: str) -> Tenant:
    row = Tenant.objects.filter(public_id=public_id).exclude(public_id=SYSTEM_TENANT).first()
    if row is None:
        raise NotFound(f"tenant {public_id[:64]!r}: not found")
    return row


def _check_bound(tenant: Tenant | None, from_at: datetime, until_at: datetime) -> None:
    """No tenant loses more than `EXCLUDED_WINDOWS_MAX` windows of a month. Raises `LimitExceeded`."""
    first = from_at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    while first < until_at:
        end = month_after(first)
        concerned = ServiceExclusion.objects.filter(withdrawn_at=None, from_at__lt=end, until_at__gt=first)
        if tenant is not None:
            concerned = concerned.filter(Q(tenant=None) | Q(tenant=tenant))
        bounds_s = (int(first.timestamp()), int(end.timestamp()))
        by_tenant: dict[int | None, set[int]] = {None: windows_of([_span(from_at, until_at)], bounds_s)}
        for row in concerned.order_by(F("tenant").asc(nulls_first=True), "pk"):
            windows = windows_of([_span(row.from_at, row.until_at)], bounds_s)
            # Those of all come first, so each tenant's begin with them.
            by_tenant.setdefault(row.tenant_id, set(by_tenant[None])).update(windows)
        most = max(map(len, by_tenant.values()))
        if most > EXCLUDED_WINDOWS_MAX:
            raise LimitExceeded(
                f"{first:%Y-%m}: {most} windows of five minutes would be taken out, at most {EXCLUDED_WINDOWS_MAX}"
                f" ({_HOURS_MAX} hours) of a month may be; withdraw another exclusion, or name a shorter time",
                limit="EXCLUDED_WINDOWS_MAX",
            )
        first = end


def _span(from_at: datetime, until_at: datetime) -> tuple[int, int]:
    return int(from_at.timestamp()), int(until_at.timestamp())
