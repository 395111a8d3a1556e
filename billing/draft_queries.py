"""Reads invoices that are drafts: for operators, with why each waits and what helps."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, QuerySet
from django.db.models.functions import Greatest

from billing import price_actions, queries
from billing.models import DataSetState, Invoice

OVERDUE = timedelta(days=1)
"""A draft that waits longer is an alert: readings come within seconds, rounds of the pipeline within minutes."""
RESTS_ON = ("cut_coverage", "cut_usage")
"""Data sets without which no invoice is issued."""


def drafts() -> QuerySet[Invoice]:
    """Every tenant's drafts. Each waits since its period has ended and its cut was made."""
    return Invoice.objects.filter(status=Invoice.Status.DRAFT).select_related("tenant", "cut__tenant")


def overdue(now: datetime) -> QuerySet[Invoice]:
    """Drafts that wait too long."""
    latest = now - OVERDUE
    return drafts().filter(cut__period_end__lte=latest, cut__created_at__lte=latest)


def waiting(now: datetime) -> tuple[int, datetime | None]:
    """How many drafts wait too long, and since when the oldest draft waits."""
    since = Min(Greatest("cut__period_end", "cut__created_at"))
    return overdue(now).count(), drafts().aggregate(first=since)["first"]


def alerts(now: datetime) -> list[str]:
    """What an operator has to look at, one sentence each."""
    found = []
    number, _ = waiting(now)
    if number:
        found.append(f"{number} {'draft waits' if number == 1 else 'drafts wait'} for over a day")
    problem = price_actions.configured_file_problem(now)
    if problem:
        found.append(problem)
    return found


def refused_data_sets() -> list[str]:
    """Why newer data sets that invoices rest on are not imported."""
    states = DataSetState.objects.filter(dataset__in=RESTS_ON).exclude(error="").order_by("dataset")
    return [state.error for state in states]


def shown_draft(invoice: Invoice, now: datetime, refused: list[str]) -> dict[str, Any]:
    """One of `drafts`. `refused` is from `refused_data_sets`."""
    cut, before = invoice.cut, _draft_before(invoice)
    since = max(cut.period_end, cut.created_at)
    return {
        "tenant": invoice.tenant.public_id,
        "tenant_name": invoice.tenant.name,
        "invoice": invoice.public_id,
        "number": invoice.number,
        "cut": cut.public_id,
        "period_start": cut.period_start.isoformat(),
        "period_end": cut.period_end.isoformat(),
        "age_s": max(0, int((now - since).total_seconds())),
        "overdue": now - since >= OVERDUE,
        "delivered": cut.delivered_at is not None,
        "reasons": _reasons(invoice, before, refused),
        "to_do": _to_do(invoice, before, refused),
    }


def reasons(invoice: Invoice, refused: list[str]) -> list[str]:
    """Everything that keeps the invoice a draft; empty when it is issued."""
    if invoice.status == Invoice.Status.ISSUED:
        return []
    return _reasons(invoice, _draft_before(invoice), refused)


def _reasons(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    if cut.delivered_at is None:
        found = [f"the brokers have not answered the cut: {cut.error or 'they were not asked yet'}"]
        if before is not None:
            found.append(f"the invoice before, {before.public_id}, is a draft still")
    else:
        found = list(invoice.gaps)
    return [*found, *(f"a data set is refused: {text}" for text in refused)]


def _to_do(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    mend = f"penstock billing mend {cut.public_id}"
    found = []
    if before is not None:
        found.append(f"Mend the invoice before first: penstock billing mend {before.cut.public_id}")
    if cut.delivered_at is None:
        found.append(f"Bring back the brokers that are named, then: {mend}")
    elif queries.unread(cut):
        found.append(f"Have the brokers write the cut's readings again: {mend}")
    if refused:
        found.append("See why the pipeline's data sets are refused: GET /v1/billing/data-sets")
    if cut.delivered_at is None or cut.readings.filter(last=True).exists():
        found.append(f"Give up what cannot be had back of a deleted topic: {mend} --waive TOPIC_ID-PARTITION")
    return found


def _draft_before(invoice: Invoice) -> Invoice | None:
    return (
        Invoice.objects.filter(
            tenant=invoice.tenant, status=Invoice.Status.DRAFT, cut__period_end=invoice.cut.period_start
        )
        .select_related("cut")
        .first()
    )
