"""Reads drafts for operators: why each invoice is still a draft, and the next steps."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Min, QuerySet
from django.db.models.functions import Greatest

from billing import price_actions, queries
from billing.models import DataSetState, Invoice

OVERDUE = timedelta(days=1)
"""An older draft raises an alert: readings come within seconds, runs of the usage pipeline within minutes."""
REQUIRED_DATA_SETS = ("cut_coverage", "cut_usage")
"""The completeness check reads these data sets."""


def drafts() -> QuerySet[Invoice]:
    """The drafts of every tenant. Its age counts from its period's end, or from its cut if that is later."""
    return Invoice.objects.filter(status=Invoice.Status.DRAFT).select_related("tenant", "cut__tenant")


def overdue(now: datetime) -> QuerySet[Invoice]:
    """Drafts that are older than `OVERDUE`."""
    latest = now - OVERDUE
    return drafts().filter(cut__period_end__lte=latest, cut__created_at__lte=latest)


def waiting(now: datetime) -> tuple[int, datetime | None]:
    """How many drafts are overdue, and since when the oldest draft waits."""
    since = Min(Greatest("cut__period_end", "cut__created_at"))
    return overdue(now).count(), drafts().aggregate(first=since)["first"]


def alerts(now: datetime) -> list[str]:
    """What needs an operator, one sentence each."""
    found = []
    number, _ = waiting(now)
    if number:
        found.append(
            f"{number} {'invoice has' if number == 1 else 'invoices have'} been a draft for over a day"
        )
    problem = price_actions.configured_file_problem(now)
    if problem:
        found.append(problem)
    return found


def refused_data_sets() -> list[str]:
    """Why the newest run of a required data set was refused, one text for each data set."""
    states = DataSetState.objects.filter(dataset__in=REQUIRED_DATA_SETS).exclude(error="").order_by("dataset")
    return [state.error for state in states]


def shown_draft(invoice: Invoice, now: datetime, refused: list[str]) -> dict[str, Any]:
    """One of `drafts` as REST shows it. `refused` is from `refused_data_sets`."""
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
        "next_steps": _next_steps(invoice, before, refused),
    }


def reasons(invoice: Invoice, refused: list[str]) -> list[str]:
    """Why the invoice is still a draft; empty when it is issued."""
    if invoice.status == Invoice.Status.ISSUED:
        return []
    return _reasons(invoice, _draft_before(invoice), refused)


def _reasons(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    if cut.delivered_at is None:
        found = [f"the brokers have not answered the cut: {cut.error or 'they have not been asked yet'}"]
        if before is not None:
            found.append(f"the previous invoice {before.public_id} is still a draft")
    else:
        found = list(invoice.gaps)
    return [*found, *(f"a data set is refused: {text}" for text in refused)]


def _next_steps(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    command = f"penstock billing finalize {cut.public_id}"
    found = []
    if before is not None:
        found.append(f"Finalize the previous invoice first: penstock billing finalize {before.cut.public_id}")
    if cut.delivered_at is None:
        found.append(f"Bring the named brokers back, then run: {command}")
    elif queries.uncovered_partitions(cut):
        found.append(f"Ask the brokers for the cut's readings again: {command}")
    if refused:
        found.append("See why the data sets are refused: GET /v1/billing/data-sets")
    if cut.delivered_at is None or cut.readings.filter(last=True).exists():
        found.append(
            f"Waive a deleted topic's partition whose reading is lost: {command} --waive TOPIC_ID-PARTITION"
        )
    return found


def _draft_before(invoice: Invoice) -> Invoice | None:
    return (
        Invoice.objects.filter(
            tenant=invoice.tenant, status=Invoice.Status.DRAFT, cut__period_end=invoice.cut.period_start
        )
        .select_related("cut")
        .first()
    )
