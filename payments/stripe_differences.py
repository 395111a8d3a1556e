"""The differences between a receivable, with those that it carries, and Stripe's invoice. It asks and changes
nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from payments import carrying
from payments.actions import Kind, Source
from payments.currencies import unit_micro
from payments.models import Receivable
from payments.states import OWED, State
from payments.stripe_shapes import StripeInvoice

SETTLING = timedelta(hours=1)
"""A receivable that is younger may be on its way to Stripe."""
STATES = {
    State.OPEN: ("open",),
    State.PAST_DUE: ("open",),
    State.PAID: ("paid", "void"),
    State.UNCOLLECTIBLE: ("uncollectible", "void"),
    State.VOID: ("void",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    kind: str
    tenant: str = ""
    invoice: str = ""
    stripe_invoice: str = ""
    ours: str = ""
    theirs: str = ""


def differences(
    group: Sequence[Receivable], found: StripeInvoice | None, customers: Sequence[str], now: datetime
) -> list[dict[str, str]]:
    """`group` is a receivable that is not carried, and those that it carries. `found`: what Stripe has of it.
    `customers`: the tenant's there, and those before that were deleted.
    """
    rows = list(_of_each(group))
    rows += _missing(group[0], now) if found is None else _of_invoice(group, found, customers)
    return [asdict(one) for one in rows]


def _of_each(group: Sequence[Receivable]) -> Iterator[Difference]:
    for row in group:
        names = {"tenant": row.tenant.public_id, "invoice": row.invoice.public_id}
        if row.overpaid_micro:
            yield Difference(
                kind="to be refunded",
                **names,
                stripe_invoice=row.stripe_invoice,
                ours=str(row.overpaid_micro),
                theirs="0",
            )
        if row.problem:
            yield Difference(kind="problem", **names, stripe_invoice=row.stripe_invoice, ours=row.problem)


def _missing(row: Receivable, now: datetime) -> Iterator[Difference]:
    late = row.state in OWED and row.open_micro and not row.waits and row.created_at < now - SETTLING
    if row.stripe_invoice or late:
        yield Difference(
            kind="missing at Stripe",
            tenant=row.tenant.public_id,
            invoice=row.invoice.public_id,
            stripe_invoice=row.stripe_invoice,
            ours=row.state,
        )


def _of_invoice(
    group: Sequence[Receivable], found: StripeInvoice, customers: Sequence[str]
) -> Iterator[Difference]:
    row = group[0]

    def differ(kind: str, ours: object, theirs: object) -> Difference:
        return Difference(
            kind=kind,
            tenant=row.tenant.public_id,
            invoice=row.invoice.public_id,
            stripe_invoice=found.id,
            ours=str(ours),
            theirs=str(theirs),
        )

    minor = unit_micro(row.currency)
    if found.customer not in customers:
        yield differ("customer", customers[0] if customers else "", found.customer)
    # Its money came, and was taken back: Stripe calls it paid for good.
    taken_back = row.state in (State.UNCOLLECTIBLE, State.VOID) and row.paid_micro > 0
    # Credited in whole before it was paid, Stripe calls it paid as well.
    nothing_left = row.state == State.VOID and found.credited >= found.total
    if found.status not in ("paid",) * (taken_back or nothing_left) + STATES[State(row.state)]:
        yield differ("state", row.state, found.status)
    asked = row.asked_micro + sum(map(carrying.asked_of_stripe_micro, group[1:]))
    theirs = (found.total - found.credited) * minor
    # Void is void there, without a credit note.
    if found.status != "void" and theirs != asked:
        yield differ("amount", asked, theirs)
    # Once it is closed here, an operator has decided what becomes of it.
    moved = row.state in OWED and found.moved
    if moved or (found.status == "draft" and found.starting_balance):
        yield differ("balance", 0, found.moved * minor or found.starting_balance * minor)
    ours = sum(
        payment.amount_micro
        for one in group
        for payment in one.payments.filter(source=Source.STRIPE, kind=Kind.PAYMENT)
    )
    if found.status == "paid" and ours not in (found.amount_paid * minor, 0):
        yield differ("paid", ours, found.amount_paid * minor)
    if found.status != "paid" and ours:
        yield differ("paid", ours, 0)
