"""Posts each ended month of service once: its report, and its credit in the terms."""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from billing import exclusion_actions, queries, service_level_reports, terms_actions
from billing.models import DataSetState, Invoice
from billing.service_level_models import ServiceLevelReport, ServiceLevelStart
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from penstock.contract import documents
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.service_level_documents import ServiceLevelDocument
from penstock.rules import charges
from penstock.rules.allocation import month_after
from penstock.rules.service_level_months import grant_reason
from penstock.rules.timestamps import DAY_MS, time_ms
from tenants.models import Tenant

POSTER = system("billing.sla")
GRACE = timedelta(days=2)
"""After a month's end: readings that are late count until then."""
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
_log = logging.getLogger(__name__)


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
            except Exception:
                # A refusal, or a fault of the service with one tenant.
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
        exclusion_actions.check_announced(tenant, first, month_after(first))
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
