"""Reports stated tax to Stripe Tax: the invoice as sold, and each credit note or the void as given back.

Stripe files taxes by these transactions. Each has a reference of ours, of which Stripe keeps one, so nothing is
reported twice. What an operator gives up as uncollectible stays reported: tax offices have rules of their own for it.
"""

from collections.abc import Iterator

from billing import queries as billing
from payments.models import Receivable, TaxReport
from payments.stripe_adapter import Gateway
from payments.stripe_items import parts_of
from payments.stripe_tax_calls import TaxTransaction

SALE = "sale"


def report(gateway: Gateway, row: Receivable) -> None:
    """Report what is not reported yet of an invoice whose tax was stated. It may be repeated. No transaction is open.

    Raises as the calls to Stripe do; what was reported until then is noted.
    """
    statement = billing.tax_statement(row.invoice)
    if statement is None:
        return
    known = {one.part: one for one in TaxReport.objects.filter(receivable=row)}
    invoice = row.invoice.public_id
    if SALE not in known:
        made = gateway.tax.report(statement.calculation, invoice, f"{invoice}/tax sale/{row.key_version}")
        known[SALE] = _noted(row, SALE, made)
    left = known[SALE].amount + sum(one.amount for part, one in known.items() if part != SALE)
    for part, amount in _lowered(row):
        if part in known or not left:
            continue
        whole = amount >= left == known[SALE].amount
        made = gateway.tax.reverse(
            known[SALE].stripe_id,
            f"{invoice} {part}",
            None if whole else min(amount, left),
            f"{invoice}/tax {part}/{row.key_version}",
        )
        left += _noted(row, part, made).amount


def _lowered(row: Receivable) -> Iterator[tuple[str, int]]:
    """What lowers the invoice alone, in Stripe's minor units: a carried invoice is taxed as it was issued."""
    for part in parts_of([row]):
        if part.lowers and not part.by_bank and part.amount:
            yield part.id, -part.amount


def _noted(row: Receivable, part: str, made: TaxTransaction) -> TaxReport:
    found, _ = TaxReport.objects.get_or_create(
        receivable=row,
        part=part,
        defaults={
            "tenant": row.tenant,
            "stripe_id": made.id,
            "amount": made.amount,
            "tax": made.tax,
        },
    )
    return found
