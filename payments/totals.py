"""What is owed over all tenants, in sums for operators."""

from dataclasses import dataclass

from django.db.models import Case, Count, F, Q, QuerySet, Sum, Value, When

from payments import queries
from payments.currencies import unit_micro
from payments.models import Receivable
from payments.states import OWED, State

DIGITS = {1_000_000: 0, 10_000: 2, 1_000: 3}
"""Of amounts whose smallest coin is so many micro-units."""
SHOWN = ("owed", State.OPEN.value, State.PAST_DUE.value, "problem", "waits", "unsent", "overpaid", "all")
"""What a list of receivables can be narrowed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Of one currency. Amounts are micro-units."""

    currency: str
    minor_digits: int
    owed: int
    owed_micro: int
    past_due: int
    past_due_micro: int
    to_refund_micro: int


def by_currency() -> list[Total]:
    """One for each currency in which something is owed or overpaid."""
    asked = F("total_micro") - F("credited_micro") - F("voided_micro")
    kept = F("paid_micro") - F("refunded_micro")
    late = Q(state=State.PAST_DUE)
    owed = Q(state__in=OWED)
    over = Sum(Case(When(paid_micro__gt=asked + F("refunded_micro"), then=kept - asked), default=Value(0)))
    rows = (
        Receivable.objects.filter(owed | queries.is_overpaid())
        .order_by("currency")
        .values("currency")
        .annotate(
            owed=Count("pk", filter=owed),
            owed_micro=Sum(asked - kept, filter=owed),
            past_due=Count("pk", filter=late),
            past_due_micro=Sum(asked - kept, filter=late),
            to_refund_micro=over,
        )
    )
    return [
        Total(
            currency=row["currency"],
            minor_digits=DIGITS[unit_micro(row["currency"])],
            owed=row["owed"],
            owed_micro=row["owed_micro"] or 0,
            past_due=row["past_due"],
            past_due_micro=row["past_due_micro"] or 0,
            to_refund_micro=row["to_refund_micro"] or 0,
        )
        for row in rows
    ]


def narrowed(show: str, text: str = "") -> QuerySet[Receivable]:
    """Receivables of `SHOWN`, oldest first, of tenants whose name has the text or whose id or invoice it is."""
    rows = queries.receivables()
    if show in (State.OPEN, State.PAST_DUE):
        rows = rows.filter(state=show)
    elif show == "owed":
        rows = rows.filter(state__in=OWED)
    elif show == "problem":
        rows = rows.exclude(problem="")
    elif show == "waits":
        rows = rows.filter(waits=True, state__in=OWED)
    elif show == "unsent":
        rows = rows.filter(unsent_since__isnull=False)
    elif show == "overpaid":
        rows = rows.filter(queries.is_overpaid())
    if text:
        of_tenant = Q(tenant__name__icontains=text) | Q(tenant__public_id=text)
        # Who pays by bank names the issuer's number.
        of_invoice = Q(invoice__public_id=text) | Q(invoice__issuer_number__in=(text, text.upper()))
        rows = rows.filter(of_tenant | of_invoice)
    return rows
