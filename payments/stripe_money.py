"""Follows what Stripe says of money: payments, refunds, also those that fail later or were made by hand, and disputes.

What is of an invoice that carries others is split: each receivable gets its part, under a reference of its own.
"""

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from django.db.models import Q

from payments import actions, carrying, queries
from payments.actions import Kind, Source
from payments.currencies import unit_micro
from payments.models import Payment, Receivable
from payments.states import OWED, State
from payments.stripe_adapter import Gateway
from payments.stripe_shapes import Money, StripeInvoice
from penstock.rules.rating import grouped_amount

_log = logging.getLogger(__name__)
RETURNS = {Kind.REFUND: Kind.REFUND_FAILED, Kind.DISPUTE: Kind.DISPUTE_WON}


def follow(gateway: Gateway, receivable: str, found: StripeInvoice) -> None:
    """Count what was paid through Stripe for the invoice, and what was given or taken back. Again changes nothing."""
    paid = gateway.payments(found.id)
    refunds = [one for payment in paid for one in gateway.refunds(payment.id)]
    disputes = [one for payment in paid for one in gateway.disputes(payment.id)]
    with actions.locked(receivable) as row:
        group = [row, *(_with_tenant(one, row) for one in queries.with_group(row)[1:])]
        for one in paid:
            _note(Kind.PAYMENT, one, group, _wanted(group))
        outside = _paid_outside(found, paid, group)
        if outside:
            elsewhere = Money(id=found.id, amount=outside, at_s=found.paid_at_s or int(time.time()))
            _note(Kind.PAYMENT, elsewhere, group, _wanted(group), Source.OUT_OF_BAND)
        for kind, rows in ((Kind.REFUND, refunds), (Kind.DISPUTE, disputes)):
            for one in rows:
                _note_return(kind, one, group)
        if paid and found.status == "paid" and row.state in OWED:
            _log.error(
                "Stripe has an invoice as paid of which something is open",
                extra={"invoice": row.invoice.public_id, "open_micro": row.open_micro},
            )


def _paid_outside(found: StripeInvoice, paid: Sequence[Money], group: Sequence[Receivable]) -> int:
    """What someone has marked as paid at Stripe, without Stripe, beyond what is noted here as paid by bank."""
    if found.status != "paid":
        return 0
    unit = unit_micro(group[0].currency)
    asked = found.total - found.moved - found.credited_unpaid
    noted_micro = sum(
        payment.amount_micro
        for row in group
        for payment in row.payments.filter(kind=Kind.PAYMENT, source=Source.BANK)
    )
    # It stands on the invoice as an item or a credit note.
    noted_micro -= sum(carrying.by_bank_micro(row) for row in group[1:])
    return max(0, asked - sum(one.amount for one in paid) - noted_micro // unit)


def trouble(row: Receivable) -> str:
    """What an operator must do about money that was taken or given back; empty: nothing."""
    digits = int(row.invoice.price_book.document["minor_digits"])

    def amount(micro: int) -> str:
        return f"{grouped_amount(micro, digits)} {row.currency}"

    if row.overpaid_micro and queries.failed_refunds_micro(row):
        return (
            f"a refund failed at Stripe: give {amount(row.overpaid_micro)} back by bank, and note it with "
            f"`penstock payment refunded {row.invoice.public_id}`"
        )
    if row.state == State.PAID and row.open_micro:
        return (
            f"{amount(row.open_micro)} was given or taken back at Stripe without a credit note. Issue one with "
            f"`penstock billing credit {row.invoice.public_id}`, note a payment by bank with `penstock payment paid`, "
            "or give it up with `penstock payment give-up`"
        )
    return ""


def _with_tenant(one: Receivable, row: Receivable) -> Receivable:
    one.tenant = row.tenant
    return one


def _wanted(group: Sequence[Receivable]) -> list[tuple[Receivable, int]]:
    """How a payment is split: what is asked of each, then what came twice, and what is left is the first's."""
    first, *carried = group
    once = [(first, first.asked_micro), *((row, carrying.asked_of_stripe_micro(row)) for row in carried)]
    twice = [(row, carrying.by_bank_micro(row)) for row in carried]
    return [*once, *twice, (first, 2**62)]


def _note_return(kind: Payment.Kind, one: Money, group: Sequence[Receivable]) -> None:
    counted = _counted(kind, one.id, group[0])
    if not counted and not one.returned:
        kept = [(row, queries.kept_micro(row, Source.STRIPE)) for row in group]
        overpaid = [(row, min(row.overpaid_micro, micro)) for row, micro in kept]
        rest = [(row, micro - over) for (row, micro), (_, over) in zip(kept, overpaid, strict=True)]
        _note(kind, one, group, [*overpaid, *rest])
    if counted and one.returned and not _counted(RETURNS[kind], one.id, group[0]):
        by_pk = {row.pk: row for row in group}
        for before in counted:
            _count(RETURNS[kind], one, by_pk[before.receivable_id], before.reference, before.amount_micro)


def _counted(
    kind: Payment.Kind, reference: str, row: Receivable, source: Payment.Source = Source.STRIPE
) -> list[Payment]:
    """Rows of it: one, or one of each receivable that it was split to."""
    known = Payment.objects.filter(tenant=row.tenant, kind=kind, source=source)
    return list(
        known.filter(Q(reference=reference) | queries.begins_with("reference", f"{reference}/")).order_by(
            "pk"
        )
    )


def _note(
    kind: Payment.Kind,
    one: Money,
    group: Sequence[Receivable],
    wanted: Sequence[tuple[Receivable, int]],
    source: Payment.Source = Source.STRIPE,
) -> None:
    if _counted(kind, one.id, group[0], source):
        return
    amount = one.amount * unit_micro(group[0].currency)
    sums: dict[int, int] = {}
    for (row, _), part in zip(wanted, carrying.shares(amount, [micro for _, micro in wanted]), strict=True):
        sums[row.pk] = sums.get(row.pk, 0) + part
    for row in group:
        if sums.get(row.pk):
            reference = one.id if row is group[0] else f"{one.id}/{row.invoice.number}"
            _count(kind, one, row, reference, sums[row.pk], source)
    if sum(sums.values()) < amount:
        _log.error(
            "more was taken back at Stripe than was paid",
            extra={"invoice": group[0].invoice.public_id, "reference": one.id, "amount": one.amount},
        )


def _count(
    kind: Payment.Kind,
    one: Money,
    row: Receivable,
    reference: str,
    amount_micro: int,
    source: Payment.Source = Source.STRIPE,
) -> None:
    actions.note_money(
        actions.ACTOR,
        row,
        kind,
        source,
        reference=reference,
        amount_micro=amount_micro,
        at=datetime.fromtimestamp(one.at_s, UTC),
    )
