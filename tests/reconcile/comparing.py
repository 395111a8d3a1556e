"""Compares what was invoiced and collected with what is owed."""

from collections.abc import Iterator
from dataclasses import dataclass

from billing.models import CreditNote, Invoice
from payments.models import Receivable
from tests.reconcile.clock import ms
from tests.reconcile.oracle import CENT, Ledger, Owed

CHARGED_FROM = 50 * CENT
"""Stripe takes no smaller charge in dollars, so less than this may wait for an invoice that never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of an invoice, of all its credit notes, or of what was collected."""

    where: str
    found: Owed
    wanted: Owed

    def __str__(self) -> str:
        parts = zip(("messages", "bytes", "micro-units"), self.found, self.wanted, strict=True)
        return f"{self.where}: " + ", ".join(f"{a} {name}, not {b}" for name, a, b in parts if a != b)

    def amounts(self) -> Owed:
        return Owed(*(abs(a - b) for a, b in zip(self.found, self.wanted, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    invoices: int
    credit_notes: int
    differences: list[Difference]
    problems: list[str]
    """Invoices that were not issued, or that no one owes."""

    @property
    def right(self) -> bool:
        return not self.differences and not self.problems and self.invoices > 0

    def verdict(self) -> str:
        """The report's last line."""
        sums = Owed(*map(sum, zip((0, 0, 0), *(one.amounts() for one in self.differences), strict=True)))
        return (
            f"difference {sums.messages} messages {sums.size} bytes {sums.micro} micro-units"
            f" over {self.invoices} invoices"
        )


def compare(ledger: Ledger, collected_cents: int) -> Compared:
    """All invoices of the database with all periods of the ledger."""
    differences: list[Difference] = []
    problems: list[str] = []
    left = dict(ledger.periods)
    invoices = Invoice.objects.select_related("cut", "tenant").order_by("pk")
    for invoice in invoices:
        period = left.pop((invoice.tenant.public_id, ms(invoice.cut.period_end)), None)
        name = f"{invoice.public_id} of {invoice.tenant.name} until {invoice.cut.period_end:%Y-%m-%d %H:%M}"
        if period is None:
            problems.append(f"{name}: no one owes it")
            continue
        if invoice.status != Invoice.Status.ISSUED:
            problems.append(f"{name}: is still a draft: {'; '.join(invoice.gaps[:3])}")
        differences += _differs(name, _invoiced(invoice), period.issued())
        differences += _differs(f"{name}, credited", _credited(invoice), period.credited())
    problems += [f"{tenant} until {end}: no invoice" for tenant, end in left]
    waiting = waiting_micro()
    problems += [
        f"{tenant}: {micro} micro-units wait for a later invoice, which Stripe would charge"
        for tenant, micro in waiting.items()
        if micro >= CHARGED_FROM
    ]
    problems += [
        f"{row.public_id} of {row.tenant.public_id}: {row.open_micro} micro-units are {row.state}"
        for row in Receivable.objects.filter(waits=False).select_related("tenant").order_by("pk")
        if row.open_micro
    ]
    collected = Owed(0, 0, collected_cents * CENT + sum(waiting.values()))
    differences += _differs("collected by Stripe, or too little", collected, Owed(0, 0, ledger.net_micro()))
    return Compared(
        invoices=len(invoices),
        credit_notes=CreditNote.objects.count(),
        differences=differences,
        problems=problems,
    )


def waiting_micro() -> dict[str, int]:
    """By tenant, what waits for a later invoice that carries it."""
    found: dict[str, int] = {}
    for row in Receivable.objects.filter(waits=True).select_related("tenant").order_by("pk"):
        found[row.tenant.public_id] = found.get(row.tenant.public_id, 0) + row.open_micro
    return found


def _invoiced(invoice: Invoice) -> Owed:
    lines = {line.meter: line.quantity for line in invoice.lines.all()}
    return Owed(
        int(lines.get("messages_in", 0)), int(lines.get("bytes_in", 0)), int(invoice.total_micro or 0)
    )


def _credited(invoice: Invoice) -> Owed:
    found = Owed(0, 0, 0)
    for note in CreditNote.objects.filter(invoice=invoice):
        lines = {line.meter: line.quantity for line in note.lines.all()}
        found = Owed(
            found.messages + int(lines.get("messages_in", 0)),
            found.size + int(lines.get("bytes_in", 0)),
            found.micro + note.total_micro,
        )
    return found


def _differs(where: str, found: Owed, wanted: Owed) -> Iterator[Difference]:
    if found != wanted:
        yield Difference(where=where, found=found, wanted=wanted)
