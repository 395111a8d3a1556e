"""Reads drafts for operators: why each invoice is still a draft, and the next steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, Min, OuterRef, QuerySet
from django.db.models.functions import Greatest

from billing import price_actions
from billing.models import CutCoverage, CutReading, DataSetState, Invoice, PartitionWaiver

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An invoice that is still a draft: its age, the reasons and the next steps."""

    invoice: Invoice
    age_s: int
    """Since its period's end, or since its cut if that is later."""
    overdue: bool
    reasons: tuple[str, ...]
    next_steps: tuple[str, ...]


def explained(invoices: Sequence[Invoice], now: datetime, refused: list[str]) -> list[Draft]:
    """Each of `drafts` with its reasons; the number of queries does not grow with them. `refused` is from
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
                next_steps=tuple(_next_steps(invoice, first, lacking[invoice.pk], refused)),
            )
        )
    return found


def reasons(invoice: Invoice, refused: list[str]) -> list[str]:
    """Why the invoice is still a draft; empty when it is issued."""
    if invoice.status == Invoice.Status.ISSUED:
        return []
    before = _drafts_before([invoice]).get((invoice.tenant_id, invoice.cut.period_start))
    return _reasons(invoice, before, refused)


def _reasons(invoice: Invoice, before: Invoice | None, refused: list[str]) -> list[str]:
    cut = invoice.cut
    if cut.delivered_at is None:
        found = [f"the brokers have not answered the cut: {cut.error or 'they have not been asked yet'}"]
        if before is not None:
            found.append(f"the previous invoice {before.public_id} is still a draft")
    else:
        found = list(invoice.gaps)
    return [*found, *(f"a data set is refused: {text}" for text in refused)]


def _next_steps(
    invoice: Invoice, before: Invoice | None, lacking: "_Lacking", refused: list[str]
) -> list[str]:
    cut = invoice.cut
    command = f"penstock billing finalize {cut.public_id}"
    found = []
    if before is not None:
        found.append(f"Finalize the previous invoice first: penstock billing finalize {before.cut.public_id}")
    if cut.delivered_at is None:
        found.append(f"Bring the named brokers back, then run: {command}")
    elif lacking.uncovered:
        found.append(f"Ask the brokers for the cut's readings again: {command}")
    if refused:
        found.append("See why the data sets are refused: GET /v1/billing/data-sets")
    if cut.delivered_at is None or lacking.deleted:
        found.append(
            f"Waive a deleted topic's partition whose reading is lost: {command} --waive TOPIC_ID-PARTITION"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lacking:
    """What keeps the invoice of a delivered cut a draft."""

    uncovered: bool
    """The data sets do not cover each partition of the cut, as in `queries.uncovered_partitions`."""
    deleted: bool
    """The cut has partitions of deleted topics."""


def _drafts_before(invoices: Sequence[Invoice]) -> dict[tuple[int, datetime], Invoice]:
    """The previous invoices of these that are drafts, by the tenant's key and the period's end."""
    rows = Invoice.objects.filter(
        status=Invoice.Status.DRAFT,
        tenant__in={invoice.tenant_id for invoice in invoices},
        cut__period_end__in={invoice.cut.period_start for invoice in invoices},
    )
    return {(row.tenant_id, row.cut.period_end): row for row in rows.select_related("cut")}


def _lacking(invoices: Sequence[Invoice]) -> dict[int, _Lacking]:
    """By the invoice's key."""
    readings = CutReading.objects.filter(cut=OuterRef("cut"))
    partition = {"topic_id": OuterRef("topic_id"), "partition": OuterRef("partition")}
    covered = CutCoverage.objects.filter(cut=OuterRef("cut"), status="covered", **partition)
    waived = PartitionWaiver.objects.filter(
        tenant=OuterRef("cut__tenant"), from_cut__period_end__lte=OuterRef("cut__period_end"), **partition
    )
    rows = Invoice.objects.filter(pk__in=[invoice.pk for invoice in invoices]).annotate(
        uncovered=Exists(readings.filter(~Exists(covered), ~Exists(waived))),
        deleted=Exists(readings.filter(last=True)),
    )
    return {
        pk: _Lacking(uncovered=uncovered, deleted=deleted)
        for pk, uncovered, deleted in rows.values_list("pk", "uncovered", "deleted")
    }
