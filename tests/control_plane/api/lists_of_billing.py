"""What fills the lists of usage, invoices, payments and plans."""

from datetime import timedelta

from billing.models import (
    BillingEntry,
    CoverageIssue,
    Cut,
    CutReading,
    DataSetRun,
    DataSetState,
    Invoice,
    PriceBook,
    SlaWindow,
    UsageDay,
)
from payments.models import Payment, Receivable
from payments.states import State
from quotas.models import PlanVersion
from tests.control_plane.api.lists_of_terms import BEGINNING, LATER
from tests.control_plane.billing import invoice_rows
from tests.control_plane.world import House


def usage(house: House, said: object, numbers: range) -> None:
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=house.tenant,
            topic_id=f"{n // 2:032x}",
            topic=f"topic-{n // 2}",
            day=BEGINNING.date() + timedelta(days=n % 2),
            meter=meter,
            quantity=n,
        )
        for n in numbers
        for meter in ("messages_in", "bytes_in")
    )


def availability(house: House, said: object, numbers: range) -> None:
    SlaWindow.objects.bulk_create(
        SlaWindow(tenant=house.tenant, operation=f"operation-{n}", window=BEGINNING, valid=100, bad=1)
        for n in numbers
    )


def price_books(house: House, said: object, numbers: range) -> list[PriceBook]:
    return PriceBook.objects.bulk_create(
        PriceBook(
            public_id=f"pb_{n}",
            name="listed",
            version=n + 1,
            currency="USD",
            document={"minor_digits": 2},
            sha256=f"{n:064x}",
            effective_from=BEGINNING + timedelta(hours=n),
        )
        for n in numbers
    )


def plans(house: House, said: object, numbers: range) -> None:
    PlanVersion.objects.bulk_create(
        PlanVersion(name="listed", version=n + 1, limits={"partitions_max": n}) for n in numbers
    )


def drafts(house: House, said: object, numbers: range) -> list[Invoice]:
    """Each with its own period and prices; every other cut is answered, and not read."""
    cuts = invoice_rows.add_cuts(house.tenant, numbers, start=BEGINNING)
    Cut.objects.filter(pk__in=[cut.pk for cut in cuts[::2]]).update(delivered_at=None)
    CutReading.objects.bulk_create(
        invoice_rows.reading(cut, invoice_rows.TOPIC_ID, partition, last=bool(partition))
        for cut in cuts
        for partition in range(3)
    )
    invoice_rows.add_waivers(cuts, invoice_rows.TOPIC_ID, 2)
    return invoice_rows.add_drafts(numbers, cuts, price_books(house, said, numbers))


def invoices(house: House, said: object, numbers: range) -> None:
    """Issued ones, each with two lines and two credit notes, which have lines and ranges."""
    rows = drafts(house, said, numbers)
    invoice_rows.issue(rows, BEGINNING, [(1, "0" * 64)] * len(rows))
    doubled = range(2 * numbers.start, 2 * numbers.stop)
    later = invoice_rows.add_cuts(house.tenant, doubled, start=BEGINNING + timedelta(days=100))
    invoice_rows.credit(doubled, [row for row in rows for _ in range(2)], later)


def receivables(house: House, said: object, numbers: range) -> list[Receivable]:
    """Of issued invoices."""
    rows = drafts(house, said, numbers)
    invoice_rows.issue(rows, BEGINNING, [(1, "0" * 64)] * len(rows))
    return Receivable.objects.bulk_create(
        Receivable(
            tenant=house.tenant,
            invoice=row,
            state=State.OPEN,
            currency="USD",
            total_micro=row.total_micro or 0,
            due_at=LATER,
        )
        for row in rows
    )


def payments(house: House, said: object, numbers: range) -> None:
    Payment.objects.bulk_create(
        Payment(
            tenant=house.tenant,
            receivable=row,
            kind=Payment.Kind.PAYMENT,
            source=Payment.Source.BANK,
            reference=f"bank {row.public_id}",
            amount_micro=10_000,
            at=BEGINNING,
        )
        for row in receivables(house, said, numbers)
    )


def chain(house: House, said: object, numbers: range) -> None:
    BillingEntry.objects.bulk_create(
        BillingEntry(
            tenant=house.tenant,
            sequence=1_000 + n,
            kind=BillingEntry.Kind.PRICES,
            object_id=f"pb_{n}",
            document={"minor_digits": 2},
            document_sha256="0" * 64,
            at=BEGINNING,
            previous_hash=f"{n:064x}",
            hash=f"{n + 1:064x}",
        )
        for n in numbers
    )


def data_sets(house: House, said: object, numbers: range) -> None:
    DataSetState.objects.bulk_create(DataSetState(dataset=f"set-{n}", run_id=f"run-{n}") for n in numbers)
    DataSetRun.objects.bulk_create(
        DataSetRun(
            dataset=f"set-{n}",
            run_id=f"run-{n}",
            digest="0" * 64,
            code_version="1",
            inputs={},
            rows=n,
            skipped=0,
            imported_at=BEGINNING,
        )
        for n in numbers
    )
    CoverageIssue.objects.bulk_create(
        CoverageIssue(src_partition=0, first_missing=n, missing=1) for n in numbers
    )
