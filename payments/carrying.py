"""Receivables that are less than Stripe charges: they wait, and a later invoice of the tenant carries them.

Stripe would finalize such an invoice as paid and ask for its amount with the customer's next one, on a balance that
anyone at Stripe may change. So Stripe does not get it alone: it waits until it and what waits beside it, or a later
invoice, are enough, and is an item of that one. A receivable is with one carrier at most, so it is asked for once.
"""

from collections.abc import Sequence

from payments import actions, queries
from payments.actions import Source
from payments.currencies import least_charge_micro
from payments.models import Receivable
from payments.states import OWED

CARRIED_MAX = 100
"""Receivables that one carries. Stripe takes 250 items on an invoice."""


def is_enough(rows: Sequence[Receivable]) -> bool:
    """Whether Stripe charges what is open of these."""
    return open_of(rows) >= max(1, least_charge_micro(rows[0].currency))


def open_of(rows: Sequence[Receivable]) -> int:
    return sum(row.open_micro for row in rows if row.state in OWED)


def gathered(receivable: str) -> bool:
    """Take what waits along, if that is enough for Stripe to charge; else the receivable waits too, and it is False.

    It is not at Stripe, nor is anything that it carries.
    """
    with actions.locked(receivable) as row:
        if row.carried_by is not None:
            return False
        if row.state not in OWED or row.open_micro == 0:
            row.waits = False
            row.save(update_fields=["waits"])
            _tell(_released(row))
            return False
        waiting = list(
            Receivable.objects.filter(
                tenant=row.tenant, currency=row.currency, waits=True, carried_by=None, state__in=OWED
            )
            .exclude(pk=row.pk)
            .order_by("pk")[:CARRIED_MAX]
        )
        carried = [one for one in queries.with_group(row)[1:] if one.state in OWED]
        more_carried_max = max(0, CARRIED_MAX - len(carried))
        if not is_enough([row, *carried, *waiting[:more_carried_max]]):
            _wait(row)
            _released(row)
            return False
        row.waits = False
        row.save(update_fields=["waits"])
        for one in waiting[:more_carried_max]:
            one.carried_by, one.waits, one.due_at = row, False, row.due_at
            one.save(update_fields=["carried_by", "waits", "due_at"])
        return True


def put_back(receivable: str) -> None:
    """Stripe has nothing of the receivable any more: it waits, if something of it is owed, and so does what it
    carried.
    """
    with actions.locked(receivable) as row:
        row.stripe_invoice = row.stripe_state = row.pay_url = ""
        # The keys of what was taken away would be answered with it.
        row.key_version += 1
        row.changed_there = False
        row.asked_again = False
        row.save(
            update_fields=[
                "stripe_invoice",
                "stripe_state",
                "pay_url",
                "key_version",
                "changed_there",
                "asked_again",
            ]
        )
        if row.state in OWED and row.open_micro:
            _wait(row)
        _tell(_released(row))


def ask_again(receivable: str) -> None:
    """Put it back, and have Stripe ask for it with another invoice."""
    put_back(receivable)
    with actions.locked(receivable) as row:
        actions.tell_stripe(row)


def release(receivable: str) -> None:
    """Stripe asks for the receivable no more. What it carries and is still owed waits for another one."""
    with actions.locked(receivable) as row:
        _tell(_released(row))


def _tell(rows: Sequence[Receivable]) -> None:
    """Together they may be enough."""
    for one in rows:
        actions.tell_stripe(one)


def _wait(row: Receivable) -> None:
    row.waits = True
    row.save(update_fields=["waits"])


def _released(row: Receivable) -> list[Receivable]:
    found = [one for one in queries.with_group(row)[1:] if one.state in OWED]
    for one in found:
        one.carried_by, one.waits = None, True
        one.save(update_fields=["carried_by", "waits"])
    return found


def by_bank_micro(row: Receivable) -> int:
    """The part of a carried receivable that came by bank before Stripe collected it, so that Stripe must not. What was
    given back by bank since was more than is asked for: it changes nothing that stands at Stripe.
    """
    came = row.payments.filter(kind=actions.Kind.PAYMENT)
    if came.filter(source__in=(Source.STRIPE, Source.OUT_OF_BAND)).exists():
        return 0
    return sum(payment.amount_micro for payment in came.filter(source=Source.BANK))


def asked_of_stripe_micro(row: Receivable) -> int:
    """The amount that Stripe is to ask for a carried receivable. It is 0 where credit notes give back bank payments."""
    return max(0, row.asked_micro - by_bank_micro(row))


def shares(amount: int, wanted: Sequence[int]) -> list[int]:
    """`amount` in parts, each at most what is wanted, in order. What is left stays left.

    >>> shares(7, [3, 5])
    [3, 4]
    """
    parts = []
    for most in wanted:
        part = min(amount, max(0, most))
        parts.append(part)
        amount -= part
    return parts
