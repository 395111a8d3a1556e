"""Reads invoices that are drafts: for operators, with why each waits and what helps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, Min, OuterRef, QuerySet
from django.db.models.functions import Greatest

from billing import price_actions
from billing.models import CutCoverage, CutReading, DataSetState, Invoice, PartitionWaiver

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An invoice that waits: how long, why, and what helps."""

    invoice: Invoice
    age_s: int
    """Since its period ended and its cut was made."""
    overdue: bool
    reasons: tuple[str, ...]
    to_do: tuple[str, ...]


def explained(invoices: Sequence[Invoice], now: datetime, refused: list[str]) -> list[Draft]:
    """Each of `drafts` with its reasons, in as many queries for many as for one. `refused` is from
    `refused_data_sets`."""
    before = _drafts_before(invoices)
    lacking = _lacking(invoices)
    found = []
    for invoice in invoices:
        age = now - max(invoice.cut.period_end, invoice.cut.created_at)
        first = before.get((invoice.tenant_id, invoice.cut.period_start))
        found.append(
            Draft(
                invoice=invoice,
                age_s=max(0, int(age.total_seconds())),
                overdue=age >= OVERDUE,
                reasons=tuple(_reasons(invoice, first, refused)),
                to_do=tuple(_to_do(invoice, first, lacking[invoice.pk], refused)),
            )
        )
    return found


def reasons(invoice: Invoice, refused: list[str]) -> list[str]:
    """Everything that keeps the invoice a draft; empty when it is issued."""
    if invoice.status == Invoice.Status.ISSUED:
        return []
    before = _drafts_before([invoice]).get((invoice.tenant_id, invoice.cut.period_start))
    return _reasons(invoice, before, refused)


def _reasons(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    if cut.delivered_at is None:
        found = [f"the brokers have not answered the cut: {cut.error or 'they were not asked yet'}"]
        if before is not None:
            found.append(f"the invoice before, {before.public_id}, is a draft still")
    else:
        found = list(invoice.gaps)
    return [*found, *(f"a data set is refused: {text}" for text in refused)]


def _to_do(invoice: Invoice, before: Invoice | None, lacking: "_Lacking", refused: list[str]) -> list[str]:
    cut = invoice.cut
    mend = f"penstock billing mend {cut.public_id}"
    found = []
    if before is not None:
        found.append(f"Mend the invoice before first: penstock billing mend {before.cut.public_id}")
    if cut.delivered_at is None:
        found.append(f"Bring back the brokers that are named, then: {mend}")
    elif lacking.unread:
        found.append(f"Have the brokers write the cut's readings again: {mend}")
    if refused:
        found.append("See why the pipeline's data sets are refused: GET /v1/billing/data-sets")
    if cut.delivered_at is None or lacking.deleted:
        found.append(f"Give up what cannot be had back of a deleted topic: {mend} --waive TOPIC_ID-PARTITION")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lacking:
    """What stands in the way of a cut's invoice, of its vector."""

    unread: bool
    """The data sets do not cover all of its partitions, as `queries.unread` counts them."""
    deleted: bool
    """It has partitions of deleted topics."""


def _drafts_before(invoices: Sequence[Invoice]) -> dict[tuple[int, datetime], Invoice]:
    """Drafts that one of these waits for, by the tenant's key and the period's end."""
    rows = Invoice.objects.filter(
        status=Invoice.Status.DRAFT,
        tenant__in={invoice.tenant_id for invoice in invoices},
        cut__period_end__in={invoice.cut.period_start for invoice in invoices},
    )
    return {(row.tenant_id, row.cut.period_end): row for row in rows.select_related("cut")}


def _lacking(invoices: Sequence[Invoice]) -> dict[int, _Lacking]:
    """By the invoice's key."""
    readings = CutReading.objects.filter(cut=OuterRef("cut"))
    place = {"topic_id": OuterRef("topic_id"), "partition": OuterRef("partition")}
    covered = CutCoverage.objects.filter(cut=OuterRef("cut"), status="covered", **place)
    given_up = PartitionWaiver.objects.filter(
        tenant=OuterRef("cut__tenant"), from_cut__period_end__lte=OuterRef("cut__period_end"), **place
    )
    rows = Invoice.objects.filter(pk__in=[invoice.pk for invoice in invoices]).annotate(
        unread=Exists(readings.filter(~Exists(covered), ~Exists(given_up))),
        deleted=Exists(readings.filter(last=True)),
    )
    return {
        pk: _Lacking(unread=unread, deleted=deleted)
        for pk, unread, deleted in rows.values_list("pk", "unread", "deleted")
    }
