"""Compares every receivable with Stripe's invoices and names each difference. It changes nothing but the report."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from payments import queries
from payments.currencies import unit_micro
from payments.models import Payment, Receivable, ReconciliationReport, StripeCustomer
from payments.states import OWED, State
from payments.stripe_adapter import Gateway, StripeInvoice

SETTLING = timedelta(hours=1)
"""A receivable that is younger may be on its way to Stripe."""
DIFFERENCES_MAX = 1_000
"""A report names at most so many; `compared` counts all receivables."""
STATES = {
    State.OPEN: ("open",),
    State.PAST_DUE: ("open",),
    State.PAID: ("paid",),
    State.UNCOLLECTIBLE: ("uncollectible",),
    State.VOID: ("void",),
}
_log = logging.getLogger(__name__)


def reconcile(gateway: Gateway, now: datetime) -> ReconciliationReport:
    """Compare and store the report. Raises `PenstockError` when Stripe does not answer: then there is no report."""
    theirs = {one.id: one for one in gateway.invoices()}
    differences: list[dict[str, Any]] = []
    compared = 0
    customers = dict(StripeCustomer.objects.values_list("tenant", "stripe_id"))
    for row in queries.receivables().iterator(chunk_size=500):
        compared += 1
        found = theirs.pop(row.stripe_invoice, None)
        differences += _differences(row, found, customers.get(row.tenant_id, ""), now)
    differences += [
        _difference("unknown here", "", "", one.id, "", f"{one.status}, total {one.total}")
        for one in theirs.values()
    ]
    report = ReconciliationReport.objects.create(
        at=now, compared=compared, differences=differences[:DIFFERENCES_MAX]
    )
    for one in report.differences:
        _log.error("a receivable and Stripe differ", extra={"difference": one})
    return report


def _differences(
    row: Receivable, found: StripeInvoice | None, customer: str, now: datetime
) -> Iterator[dict[str, Any]]:
    tenant, invoice = row.tenant.public_id, row.invoice.public_id
    if found is None:
        missing = row.stripe_invoice or (
            row.state in OWED and row.open_micro and row.created_at < now - SETTLING
        )
        if missing:
            yield _difference("missing at Stripe", tenant, invoice, row.stripe_invoice, row.state, "")
        return
    if found.customer != customer:
        yield _difference("customer", tenant, invoice, found.id, customer, found.customer)
    if found.status not in STATES[State(row.state)]:
        yield _difference("state", tenant, invoice, found.id, row.state, found.status)
    minor = unit_micro(row.currency)
    credited = (found.total - found.credited) * minor
    # Void is void there, without a credit note.
    if found.status != "void" and credited != row.total_micro - row.credited_micro:
        yield _difference(
            "amount", tenant, invoice, found.id, str(row.total_micro - row.credited_micro), str(credited)
        )
    ours = sum(
        one.amount_micro
        for one in row.payments.filter(source=Payment.Source.STRIPE, kind=Payment.Kind.PAYMENT)
    )
    if found.status == "paid" and ours not in (found.amount_paid * minor, 0):
        yield _difference("paid", tenant, invoice, found.id, str(ours), str(found.amount_paid * minor))
    if found.status != "paid" and ours:
        yield _difference("paid", tenant, invoice, found.id, str(ours), "0")
    if row.overpaid_micro:
        yield _difference("to be refunded", tenant, invoice, found.id, str(row.overpaid_micro), "0")
    if row.problem:
        yield _difference("problem", tenant, invoice, found.id, row.problem, "")


def _difference(
    kind: str, tenant: str, invoice: str, stripe_invoice: str, ours: str, theirs: str
) -> dict[str, Any]:
    return {
        "kind": kind,
        "tenant": tenant,
        "invoice": invoice,
        "stripe_invoice": stripe_invoice,
        "ours": ours,
        "theirs": theirs,
    }
