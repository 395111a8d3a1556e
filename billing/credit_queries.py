"""What is left of a tenant's prepaid credit, from its billing chain."""

from datetime import datetime

from billing import price_actions
from billing.models import BillingEntry
from penstock.contract.documents import Terms
from penstock.rules import charges
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


def standing(tenant: Tenant, terms: Terms, period_start: datetime) -> charges.StandingCredit:
    """What pays for the period that begins then and has these terms: what the chain's newest invoice left, and what its
    later credit notes gave back.
    """
    known = price_actions.grants_until(tenant, period_start)
    if not known and not terms.credits:
        return charges.StandingCredit(terms=terms, rests={})
    entries = BillingEntry.objects.filter(tenant=tenant)
    # Not the whole document: that of a large invoice is megabytes.
    before = (
        entries.filter(kind=BillingEntry.Kind.INVOICE)
        .order_by("-sequence")
        .values_list("sequence", "document__period_start_ms", "document__balances")
        .first()
    )
    left, since = charges.NOTHING_BEFORE, 0
    if before is not None:
        since, start_ms, balances = before
        rests = {one["grant"]: one["before_micro"] - one["used_micro"] for one in balances or ()}
        left = charges.LeftCredit(period_start_ms=start_ms, rests=rests)
    returned: dict[str, int] = {}
    notes = entries.filter(kind=BillingEntry.Kind.CREDIT_NOTE, sequence__gt=since)
    for changes in notes.values_list("document__charges", flat=True):
        for one in changes or ():
            if one["kind"] == "credit":
                returned[one["name"]] = returned.get(one["name"], 0) + one["amount_micro"]
    return charges.standing_credit(terms, known, left, returned, time_ms(period_start))
