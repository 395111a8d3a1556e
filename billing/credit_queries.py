"""What is left of a tenant's prepaid credit, from its billing chain."""

from datetime import datetime

from msgspec import UNSET

from billing import price_actions
from billing.models import BillingEntry
from penstock.contract.documents import CreditNoteDocument, InvoiceDocument, Terms, read_document
from penstock.rules import charges
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant


def standing(tenant: Tenant, terms: Terms, period_start: datetime) -> charges.StandingCredit:
    """What pays for the period that begins then and has these terms: what the chain's newest invoice left, and what its
    later credit notes gave back.
    """
    entries = BillingEntry.objects.filter(tenant=tenant)
    before = entries.filter(kind=BillingEntry.Kind.INVOICE).order_by("-sequence").first()
    left, since = charges.NOTHING_BEFORE, 0
    if before is not None:
        since = before.sequence
        issued = read_document(before.document, InvoiceDocument, before.object_id)
        balances = () if issued.balances is UNSET else issued.balances
        left = charges.LeftCredit(
            period_start_ms=issued.period_start_ms,
            rests={one.grant: one.before_micro - one.used_micro for one in balances},
        )
    returned: dict[str, int] = {}
    for entry in entries.filter(kind=BillingEntry.Kind.CREDIT_NOTE, sequence__gt=since):
        note = read_document(entry.document, CreditNoteDocument, entry.object_id)
        for one in () if note.charges is UNSET else note.charges:
            if one.kind == "credit":
                returned[one.name] = returned.get(one.name, 0) + one.amount_micro
    known = price_actions.grants_until(tenant, period_start)
    return charges.standing_credit(terms, known, left, returned, time_ms(period_start))
