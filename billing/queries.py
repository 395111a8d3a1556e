"""Reads usage, invoices and their documents: for callers always inside one tenant, for the service by public id."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Count, F, Prefetch, QuerySet, Sum
from django.db.models.fields.tuple_lookups import TupleGreaterThanOrEqual, TupleLessThanOrEqual

from billing import topic_names
from billing.completeness import PartitionRef, Vector
from billing.models import (
    BillingEntry,
    CoverageIssue,
    CreditedRange,
    CreditNote,
    CreditNoteLine,
    Cut,
    CutReading,
    CutUsage,
    DataSetRun,
    DataSetState,
    Invoice,
    InvoiceLine,
    MeasuredDay,
    PartitionWaiver,
    PriceBook,
    SlaWindow,
    UsageDay,
)
from billing.voids import with_void
from penstock.contract.documents import InvoiceDocument, read_document
from penstock.contract.errors import NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.tax_documents import TaxStatement
from penstock.rules.meters import LEADERLESS
from penstock.rules.timestamps import moment_of
from penstock.verification.measured_check import asks_for_earlier
from tenants.models import Tenant

Rows = TypeVar("Rows", bound=QuerySet[Any, Any])
_Groups = dict[tuple[Any, ...], dict[str, dict[str, int]]]
"""Group -> meter -> `quantity` and `billed`."""
_Parts = tuple[tuple[str, QuerySet[Any, Any]], ...]
"""Which of these numbers the rows add to."""

GROUPS = ("topic", "day")
SLA_VALID_MIN = 20
"""A window with fewer valid requests is counted as one with few requests."""


# -- usage ----------------------------------------------------------------------------------------------


def usage(
    tenant: Tenant,
    *,
    by: Sequence[str],
    first: date | None,
    end: date | None,
    only: Sequence[tuple[Any, ...]] | None = None,
) -> list[dict[str, Any]]:
    """Usage by any of `GROUPS`, days [first, end): one row for each group, with its meters. `only` is a page of
    `usage_groups`: groups that follow one another.

    `billed` is the part of `quantity` on issued invoices; `provisional` is the rest.
    """
    shown, invoiced = _usage_rows(tenant, first, end)
    measured = _in_days(MeasuredDay.objects.filter(tenant=tenant), first, end)
    if only is not None and not only:
        return []
    renamed = topic_names.renamed_topics(tenant) if "topic" in by else []
    groups: _Groups = {}
    parts: _Parts = (("quantity", shown), ("billed", invoiced), ("billed", measured))
    for name, rows in parts:
        of_page = _up_to(_from(rows, by, only[0]), by, only[-1]) if by and only else rows
        for *key, meter, total in _sums(of_page.exclude(topic_id__in=renamed), *by, "meter"):
            _numbers(groups, tuple(key), meter)[name] += total
    if renamed:
        _add_renamed(groups, parts, by, renamed)
    items = []
    for group in sorted(groups) if only is None else (group for group in only if group in groups):
        meters = groups[group]
        for numbers in meters.values():
            # The rows of a cut may be imported shortly before the rows of their day.
            numbers["quantity"] = max(numbers["quantity"], numbers["billed"])
            numbers["provisional"] = numbers["quantity"] - numbers["billed"]
        items.append({**dict(zip(by, group, strict=True)), "meters": dict(sorted(meters.items()))})
    return items


def _add_renamed(groups: _Groups, parts: _Parts, by: Sequence[str], renamed: Sequence[str]) -> None:
    """Usage of topics that had several names, of all groups: what is billed counts once, under a name that is shown."""
    position = by.index("topic")
    of_topics: dict[tuple[Any, ...], dict[str, dict[str, int]]] = {}
    for name, rows in parts:
        for *key, topic_id, meter, total in _sums(
            rows.filter(topic_id__in=renamed), *by, "topic_id", "meter"
        ):
            topic = key.pop(position)
            by_name = of_topics.setdefault((*key, topic_id, meter), {})
            by_name.setdefault(topic, {"quantity": 0, "billed": 0})[name] += total
    for (*key, _, meter), by_name in of_topics.items():
        topic_names.name_as_shown(by_name.values())
        for topic, numbers in by_name.items():
            if any(numbers.values()):
                there = _numbers(groups, (*key[:position], topic, *key[position:]), meter)
                for name, total in numbers.items():
                    there[name] += total


def _numbers(groups: _Groups, group: tuple[Any, ...], meter: str) -> dict[str, int]:
    return groups.setdefault(group, {}).setdefault(meter, {"quantity": 0, "billed": 0})


def _sums(rows: QuerySet[Any, Any], *columns: str) -> QuerySet[Any, Any]:
    summed: QuerySet[Any, Any] = rows.values_list(*columns).annotate(total=Sum("quantity"))
    return summed.order_by(*columns)


def usage_groups(
    tenant: Tenant,
    *,
    by: Sequence[str],
    first: date | None,
    end: date | None,
    after: Sequence[Any] | None,
    most: int,
) -> list[tuple[Any, ...]]:
    """The groups of `usage` in the database's order, without their sums: at most `most`, after the group `after`.

    Reads the rows of about twice as many groups, by an index: never all that a tenant used.
    """
    shown, invoiced = _usage_rows(tenant, first, end)
    if not by:
        return [()] if after is None and (shown.exists() or invoiced.exists()) else []
    parts = []
    for rows in (shown, invoiced):
        if after is not None:
            rows = _from(rows, by, after).exclude(**dict(zip(by, after, strict=True)))
        groups = rows.values_list(*by).distinct()
        # The union is sorted as a whole, so each part of it ends where the page ends at the latest.
        for last in groups.order_by(*by)[most - 1 : most]:
            groups = _up_to(groups, by, last)
        parts.append(groups)
    return list(parts[0].union(parts[1]).order_by(*by)[:most])


def _from(rows: Rows, by: Sequence[str], group: Sequence[Any]) -> Rows:
    """The rows of this group and of those after it. PostgreSQL takes a bound on a tuple for half of a table, however
    little it is; so it gets one on the first column, too.
    """
    return rows.filter(TupleGreaterThanOrEqual(tuple(map(F, by)), group), **{f"{by[0]}__gte": group[0]})


def _up_to(rows: Rows, by: Sequence[str], group: Sequence[Any]) -> Rows:
    """The rows of this group and of those before it; bounded as `_from`."""
    return rows.filter(TupleLessThanOrEqual(tuple(map(F, by)), group), **{f"{by[0]}__lte": group[0]})


def _usage_rows(
    tenant: Tenant, first: date | None, end: date | None
) -> tuple[QuerySet[UsageDay], QuerySet[CutUsage]]:
    """The usage of days [first, end), and the part of it on issued invoices."""
    shown = UsageDay.objects.filter(tenant=tenant).exclude(meter=LEADERLESS)
    invoiced = CutUsage.objects.filter(tenant=tenant, cut__invoice__status=Invoice.Status.ISSUED)
    for waiver in PartitionWaiver.objects.filter(tenant=tenant).select_related("from_cut"):
        invoiced = invoiced.exclude(
            topic_id=waiver.topic_id,
            partition=waiver.partition,
            cut__period_end__gte=waiver.from_cut.period_end,
        )
    return _in_days(shown, first, end), _in_days(invoiced, first, end)


def _in_days(rows: Rows, first: date | None, end: date | None) -> Rows:
    if first is not None:
        rows = rows.filter(day__gte=first)
    return rows if end is None else rows.filter(day__lt=end)


def availability(tenant: Tenant, *, first: datetime | None, end: datetime | None) -> list[dict[str, Any]]:
    """Requests by operation, windows [first, end), without those that failed by the client's fault."""
    rows = SlaWindow.objects.filter(tenant=tenant)
    if first is not None:
        rows = rows.filter(window__gte=first)
    if end is not None:
        rows = rows.filter(window__lt=end)
    summed = rows.values("operation").annotate(
        total_valid=Sum("valid"), total_bad=Sum("bad"), windows=Count("pk")
    )
    telling = dict(
        rows.filter(valid__gte=SLA_VALID_MIN).values_list("operation").annotate(windows=Count("pk"))
    )
    return [
        {
            "operation": row["operation"],
            "valid": row["total_valid"],
            "bad": row["total_bad"],
            "availability": ratio_text(row["total_valid"] - row["total_bad"], row["total_valid"]),
            "windows": row["windows"],
            "windows_with_few_requests": row["windows"] - telling.get(row["operation"], 0),
        }
        for row in summed.order_by("operation")
    ]


def ratio_text(part: int, whole: int) -> str | None:
    """A ratio with six decimals, rounded down so that it never becomes 1; None when `whole` is 0."""
    if whole <= 0:
        return None
    millionths = part * 10**6 // whole
    return f"{millionths // 10**6}.{millionths % 10**6:06d}"


# -- invoices -------------------------------------------------------------------------------------------


def invoices(tenant: Tenant) -> QuerySet[Invoice]:
    """The tenant's invoices with their lines and credit notes, and when one was taken back."""
    lines = Prefetch("lines", queryset=InvoiceLine.objects.order_by("position"))
    return (
        with_void(Invoice.objects.filter(tenant=tenant))
        .select_related("tenant", "cut", "price_book")
        .prefetch_related(lines, Prefetch("credit_notes", queryset=CreditNote.objects.order_by("number")))
    )


def is_billed_until(tenant: Tenant, moment: datetime) -> bool:
    """Whether a period of the tenant that ends at the moment or later is closed."""
    return Cut.objects.filter(tenant=tenant, period_end__gte=moment).exists()


def is_invoiced_until(tenant: Tenant, moment: datetime) -> bool:
    """Whether that period's invoice is issued, and so are all before it."""
    drafts = Invoice.objects.filter(tenant=tenant, status=Invoice.Status.DRAFT)
    return is_billed_until(tenant, moment) and not drafts.exists()


def invoice(tenant: Tenant, public_id: str) -> Invoice:
    """One invoice. Raises `NotFound`, for another tenant's too."""
    row = invoices(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"invoice {public_id[:64]!r} does not exist")
    return row


def credit_notes(tenant: Tenant) -> QuerySet[CreditNote]:
    """The tenant's credit notes with their lines and ranges."""
    lines = Prefetch("lines", queryset=CreditNoteLine.objects.order_by("position"))
    ranges = Prefetch("ranges", queryset=CreditedRange.objects.order_by("topic", "partition", "meter"))
    return (
        CreditNote.objects.filter(tenant=tenant)
        .select_related("tenant", "invoice__price_book", "cut")
        .prefetch_related(lines, ranges)
    )


def credit_note(tenant: Tenant, public_id: str) -> CreditNote:
    """One credit note. Raises `NotFound`, for another tenant's too."""
    row = credit_notes(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"credit note {public_id[:64]!r} does not exist")
    return row


def lost_ranges(note: CreditNote) -> list[dict[str, Any]]:
    """The lost offsets of each partition, with the usage that they were billed as."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in note.ranges.all():
        entry = found.setdefault(
            (row.topic_id, row.partition),
            {
                "topic": row.topic,
                "topic_id": row.topic_id,
                "partition": row.partition,
                "log_generation": row.log_generation,
                "first_offset": row.first_offset,
                "end_offset": row.end_offset,
                "quantities": {},
            },
        )
        entry["quantities"][row.meter] = row.quantity
    return list(found.values())


def evidence(invoice: Invoice) -> dict[str, Any]:
    """The invoice's document. A draft has gaps instead, and an invoice that is older than documents has none."""
    entry = BillingEntry.objects.filter(
        tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
    ).first()
    return {
        "status": invoice.status,
        "gaps": invoice.gaps,
        "document": None if entry is None else entry.document,
        "document_sha256": None if entry is None else entry.document_sha256,
    }


def tax_statement(invoice: Invoice) -> TaxStatement | None:
    """What an issued invoice's tax was stated by."""
    # Not the whole document: that of a large invoice is megabytes.
    found = (
        BillingEntry.objects.filter(
            tenant=invoice.tenant, kind=BillingEntry.Kind.INVOICE, object_id=invoice.public_id
        )
        .values_list("document__tax_statement", flat=True)
        .first()
    )
    return None if found is None else read_document(found, TaxStatement, "statement")


def invoices_to_compare(invoice: Invoice, *, lost: bool = True) -> QuerySet[Invoice]:
    """The tenant's issued invoices whose documents proving one asks for: the one before on, the later ones only if
    something was `lost`, and all before where its rows of days or topics that are gone need them.
    """
    issued = Invoice.objects.filter(tenant=invoice.tenant, status=Invoice.Status.ISSUED)
    document = evidence(invoice)["document"]
    if document is None or not asks_for_earlier(read_document(document, InvoiceDocument, invoice.public_id)):
        issued = issued.filter(cut__period_end__gte=invoice.cut.period_start)
    if not lost:
        issued = issued.filter(number__lte=invoice.number)
    return issued.order_by("number")


def chain(tenant: Tenant) -> QuerySet[BillingEntry]:
    """The tenant's billing chain. Primary keys are in the order of the chain."""
    return BillingEntry.objects.filter(tenant=tenant)


def line_evidence(invoice: Invoice) -> dict[str, list[dict[str, Any]]]:
    """The usage rows of each line, by meter: topic, partition, day and offsets. A line of 0 may have none."""
    found: dict[str, list[dict[str, Any]]] = {line.meter: [] for line in invoice.lines.all()}
    waived = waived_partitions(invoice.cut)
    for row in invoice.cut.usage.order_by("topic", "topic_id", "partition", "first_offset", "day"):
        if (row.topic_id, row.partition) in waived:
            continue
        found.setdefault(row.meter, []).append(
            {
                "topic": row.topic,
                "topic_id": row.topic_id,
                "partition": row.partition,
                "log_generation": row.log_generation,
                "day": row.day.isoformat(),
                "first_offset": row.first_offset,
                "end_offset": row.end_offset,
                "quantity": row.quantity,
            }
        )
    for measured in invoice.measured.order_by("meter", "topic", "topic_id", "day"):
        found.setdefault(measured.meter, []).append(
            {
                "topic": measured.topic,
                "topic_id": measured.topic_id,
                "day": measured.day.isoformat(),
                "quantity": measured.quantity,
            }
        )
    return found


# -- cuts -----------------------------------------------------------------------------------------------


def cut(public_id: str) -> Cut:
    """Any tenant's cut: for operators. Raises `NotFound`."""
    row = Cut.objects.select_related("tenant", "invoice").filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"cut {public_id[:64]!r} does not exist")
    return row


def cut_for_delivery(public_id: str) -> Cut:
    """A cut by its id: for the service itself."""
    return Cut.objects.select_related("tenant").get(public_id=public_id)


def cut_before(cut: Cut) -> Cut | None:
    """The tenant's previous cut; None for the first."""
    return Cut.objects.filter(tenant=cut.tenant, period_end=cut.period_start).first()


def cut_after(public_id: str) -> Cut | None:
    """The tenant's next cut, if there is one."""
    row = Cut.objects.get(public_id=public_id)
    return Cut.objects.filter(tenant=row.tenant, period_start=row.period_end).first()


def vector(cut: Cut) -> Vector:
    """The end offsets that the brokers answered."""
    return {
        (reading.topic_id, reading.partition, reading.log_generation): reading.end_offset
        for reading in cut.readings.all()
    }


def waived_partitions(cut: Cut) -> frozenset[PartitionRef]:
    """Partitions that were waived at this cut or earlier: they are in no later cut and are not billed."""
    rows = PartitionWaiver.objects.filter(
        tenant=cut.tenant, from_cut__period_end__lte=cut.period_end
    ).values_list("topic_id", "partition")
    return frozenset(rows)


def uncovered_partitions(cut: Cut) -> int:
    """How many partitions of the cut's vector the data sets do not cover."""
    covered = set(cut.coverage.filter(status="covered").values_list("topic_id", "partition"))
    waived = waived_partitions(cut)
    refs = set(cut.readings.values_list("topic_id", "partition"))
    return len(refs - covered - waived)


def undelivered_up_to(cut: Cut) -> list[str]:
    """Public ids of the tenant's cuts up to this one that the brokers have not answered, in their order."""
    rows = Cut.objects.filter(tenant=cut.tenant, period_end__lte=cut.period_end, delivered_at=None)
    return list(rows.order_by("period_end").values_list("public_id", flat=True))


def drafts_to_finalize() -> QuerySet[Cut]:
    """Cuts that the brokers have answered and whose invoice is a draft."""
    return Cut.objects.filter(delivered_at__isnull=False, invoice__status=Invoice.Status.DRAFT)


def readings(cut: Cut) -> QuerySet[CutReading]:
    """The cut's vector, in its order."""
    return cut.readings.order_by("topic_id", "partition", "log_generation")


# -- the service ----------------------------------------------------------------------------------------


def tenants_to_close(end: datetime) -> list[str]:
    """Public ids of the tenants whose running period began before `end`, oldest tenant first."""
    # No tenant is older than 1970, and year 1 has nothing before it to subtract.
    before = max(end, moment_of(0)) - timedelta(milliseconds=1)
    rows = Tenant.objects.exclude(public_id=SYSTEM_TENANT).filter(created_at__lt=before)
    later = rows.exclude(cuts__period_end__gt=end)
    return list(later.order_by("pk").values_list("public_id", flat=True))


def price_books() -> QuerySet[PriceBook]:
    """Every version of the prices; they are the same for all tenants."""
    return PriceBook.objects.order_by("effective_from")


def data_set_states() -> list[dict[str, Any]]:
    """The imported run of each data set, and refused ones: for operators."""
    runs = {(run.dataset, run.run_id): run for run in DataSetRun.objects.filter(run_id__in=_current_runs())}
    shown = []
    for state in DataSetState.objects.order_by("dataset"):
        run = runs.get((state.dataset, state.run_id))
        shown.append(
            {
                "dataset": state.dataset,
                "run_id": state.run_id,
                "error": state.error,
                "rows": 0 if run is None else run.rows,
                "skipped": 0 if run is None else run.skipped,
                "disagreements": [] if run is None else run.disagreements,
                "imported_at": None if run is None else run.imported_at.isoformat(),
            }
        )
    return shown


def missing_usage() -> list[dict[str, int]]:
    """Lost offsets of `__usage`: for operators."""
    return [
        {"partition": issue.src_partition, "first_offset": issue.first_missing, "offsets": issue.missing}
        for issue in CoverageIssue.objects.order_by("src_partition", "first_missing")
    ]


def newest_usage_run() -> DataSetRun | None:
    """The imported run of `usage_day`; None before the first."""
    run_id = DataSetState.objects.filter(dataset="usage_day").values_list("run_id", flat=True).first()
    return None if not run_id else DataSetRun.objects.filter(dataset="usage_day", run_id=run_id).first()


def _current_runs() -> QuerySet[DataSetState, str]:
    return DataSetState.objects.annotate(run=F("run_id")).values_list("run", flat=True)
