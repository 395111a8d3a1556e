"""Takes time out of service levels, and posts each ended month once: its report, and its credit in the terms."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from billing import queries, service_level_reports, terms_actions
from billing.models import DataSetState, Invoice
from billing.service_level_models import (
    REASON_LENGTH_MAX,
    ServiceExclusion,
    ServiceLevelReport,
    ServiceLevelStart,
)
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from penstock.contract import documents
from penstock.contract.errors import InvalidRequest, NotFound, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.invariant import InvariantBroken
from penstock.contract.service_level_documents import ServiceLevelDocument
from penstock.rules import charges
from penstock.rules.allocation import month_after
from penstock.rules.service_level_months import grant_reason
from penstock.rules.timestamps import DAY_MS, time_ms
from tenants.models import Tenant

POSTER = system("billing.sla")
GRACE = timedelta(days=2)
"""After a month's end: readings that are late, and exclusions that operators still declare, count until then."""
OVERDUE = timedelta(days=1)
"""After that: a month that is not posted by then is an alert."""
CREDIT_DAYS = 730
"""A credit pays for periods that begin within so many days: so a tenant has at most 24 of them at a time."""
MONTHS_BACK_MAX = 24
"""Ended months that are still posted, whatever held them up."""
POSTED_MAX = 200
"""Of one call: the rest comes with the next one."""
DATA_SETS = ("sla_5m", "sla_minute", "sla_slow_5m")
"""What a month is measured from. While one of them is refused, no month is posted."""
EXCLUSION_MAX = timedelta(days=31)
_log = logging.getLogger(__name__)


def exclude(
    actor: Actor, *, tenant: str | None, from_at: datetime, until_at: datetime, reason: str
) -> ServiceExclusion:
    """Take [from, until) out of the service levels of a tenant, or of all. Months that were posted stay. Raises
    `NotFound`, `InvalidRequest`.
    """
    if not reason.strip() or not reason.isprintable() or len(reason) > REASON_LENGTH_MAX:
        raise InvalidRequest(f"reason: 1 to {REASON_LENGTH_MAX} characters in one line required")
    if not (from_at < until_at and until_at - from_at <= EXCLUSION_MAX):
        raise InvalidRequest(f"until_at: after from_at, and at most {EXCLUSION_MAX.days} days after it")
    with transaction.atomic():
        row = None if tenant is None else _tenant(tenant)
        made = ServiceExclusion.objects.create(tenant=row, from_at=from_at, until_at=until_at, reason=reason)
        audit.record(
            actor,
            tenant=SYSTEM_TENANT if row is None else row.public_id,
            action="sla_exclusion.create",
            object_id=made.public_id,
            after={"from_at": from_at.isoformat(), "until_at": until_at.isoformat(), "reason": reason},
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


def _tenant(public_id: str) -> Tenant:
    row = Tenant.objects.filter(public_id=public_id).exclude(public_id=SYSTEM_TENANT).first()
    if row is None:
        raise NotFound(f"tenant {public_id[:64]!r}: not found")
    return row


def post_months(now: datetime) -> int:
    """Post each tenant's ended months that are complete and not posted. Returns how many.

    A month of one tenant that cannot be posted is logged, and keeps no other waiting.
    """
    sound = DataSetState.objects.filter(dataset__in=DATA_SETS, error="").exclude(run_id="")
    if sound.count() < len(DATA_SETS):
        return 0
    count = 0
    for first, end in _months(now):
        due = _tenants(end).exclude(sla_reports__month=first.date())
        for tenant in due.order_by("pk"):
            if count == POSTED_MAX:
                return count
            try:
                if _is_invoiced(tenant, first, end):
                    count += post_month(tenant, first, now) is not None
            except (PenstockError, InvariantBroken):
                _log.exception(
                    "service level not posted", extra={"tenant": tenant.public_id, "month": f"{first:%Y-%m}"}
                )
    return count


def overdue_months(now: datetime) -> int:
    """Months of tenants that could have been posted `OVERDUE` ago, and are not: their invoices are drafts, a data set
    is refused or never came, or the log says why.
    """
    months = _months(now - OVERDUE)
    if not months:
        return 0
    tenants = _tenants(months[-1][1])
    due = tenants.aggregate(
        **{f"m{number}": Count("pk", filter=Q(created_at__lt=end)) for number, (_, end) in enumerate(months)}
    )
    posted = ServiceLevelReport.objects.filter(
        tenant__in=tenants, month__gte=months[0][0].date(), month__lte=months[-1][0].date()
    )
    return sum(int(count) for count in due.values()) - posted.count()


def _months(now: datetime) -> list[tuple[datetime, datetime]]:
    """[first, end) of each month that may be posted by now, the oldest first."""
    begins = ServiceLevelStart.objects.order_by("pk").values_list("first", flat=True).first()
    end = (now - GRACE).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    months: list[tuple[datetime, datetime]] = []
    for _ in range(MONTHS_BACK_MAX):
        first = (end - timedelta(days=1)).replace(day=1)
        if begins is not None and first.date() < begins:
            break
        months.append((first, end))
        end = first
    return months[::-1]


def _tenants(end: datetime) -> QuerySet[Tenant]:
    """Those whose months up to this moment are posted."""
    return Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(created_at__lt=end, purged_at=None)


def _is_invoiced(tenant: Tenant, first: datetime, end: datetime) -> bool:
    """Whether all of the month is on issued invoices; later ones may be drafts."""
    return (
        queries.is_billed_until(tenant, end)
        and not Invoice.objects.filter(
            tenant=tenant, status=Invoice.Status.DRAFT, cut__period_start__lt=end, cut__period_end__gt=first
        ).exists()
    )


def post_month(tenant: Tenant, first: datetime, now: datetime) -> ServiceLevelReport | None:
    """Post the month that began then, with its credit, once: None if it was. The caller has seen that its invoices are
    issued.
    """
    with transaction.atomic(), terms_actions.locked(tenant) as own:
        if ServiceLevelReport.objects.filter(tenant=tenant, month=first.date()).exists():
            return None
        document = service_level_reports.measure(tenant, first, month_after(first))
        sha256 = documents.document_sha256(document)
        report = ServiceLevelReport.objects.create(
            tenant=tenant,
            month=first.date(),
            document=documents.plain(document),
            document_sha256=sha256,
            credit_micro=document.credit_micro,
            posted_at=now,
        )
        audit.record(
            POSTER,
            tenant=tenant.public_id,
            action="sla.post",
            object_id=report.public_id,
            after={
                "month": document.month,
                "binding_parts": document.binding_parts,
                "basis_points": document.basis_points,
                "credit_micro": document.credit_micro,
                "document_sha256": sha256,
            },
        )
        if document.credit_micro:
            terms = documents.read_document(own.document, documents.Terms, "terms")
            kept = [one for one in terms.credits if not charges.is_expired(one, time_ms(now))]
            terms_actions.change_terms(
                POSTER,
                tenant.public_id,
                terms={
                    **documents.plain(terms),
                    "credits": [documents.plain(one) for one in (*kept, _grant(document, sha256, now))],
                },
                price_book_sha256=None if own.price_book is None else own.price_book.sha256,
                now=now,
                for_service_level=True,
            )
            _log.info(
                "service level credited",
                extra={"tenant": tenant.public_id, "month": document.month, "micro": document.credit_micro},
            )
        return report


def _grant(document: ServiceLevelDocument, sha256: str, now: datetime) -> documents.CreditGrant:
    return documents.CreditGrant(
        id=document.grant,
        amount_micro=document.credit_micro,
        currency=document.currency,
        granted_ms=time_ms(now),
        expires_ms=time_ms(now) + CREDIT_DAYS * DAY_MS,
        reason=grant_reason(document, sha256),
    )
