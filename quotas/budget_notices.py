"""Says when a budget reaches one of its thresholds: once a period each, to the tenant's owners and in its audit log.

    percent said in this period --use reaches a higher threshold--> that one is said, and those below it are passed over
    a later period, or another amount--> none is said

Webhooks get the entry of the audit log as the signed event `audit.budget.threshold`.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from django.db import transaction

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from control_plane.brokers.view import BudgetUseSeen
from control_plane.mail import actions as mails
from control_plane.mail.letter import Letter
from penstock.rules.budgets import BYTES, COST, NOTIFY, REFUSE, REFUSE_PRODUCE, SLOW, STOP_GROWTH
from penstock.rules.rating import grouped_amount
from penstock.rules.timestamps import moment_of
from quotas.budget_queries import Rates, unit_of
from quotas.models import Budget
from quotas.storage_warnings import size
from tenants.models import Tenant
from tenants.organisations.queries import owners_of

MAIL_KIND = "budget"
ACTOR = system("budgets")


def note(rows: Iterable[Budget], seen: Mapping[tuple[str, str], BudgetUseSeen], rates: Rates) -> int:
    """Write about what brokers have just said; how many notices were written."""
    written = 0
    for row in rows:
        use = seen.get((row.tenant.public_id, row.public_id))
        if use is not None and _is_due(row, use):
            written += _say(row, use, rates)
    return written


def reached(row: Budget, used: int, *, spent: bool = False) -> int:
    """The highest threshold that was reached; 0 = none. `spent`: what is left was too little for what came."""
    return max(
        (one for one in row.thresholds if used * 100 >= row.amount * one or (spent and one <= 100)), default=0
    )


def percent(row: Budget, used: int) -> int:
    """Rounded down, so that it says 100 only of what is used up."""
    return used * 100 // row.amount


def _is_due(row: Budget, use: BudgetUseSeen) -> bool:
    if use.began_ms < row.noted_period_ms:
        return False  # a broker that is behind
    said = row.noted_percent if use.began_ms == row.noted_period_ms else 0
    return reached(row, use.used, spent=use.spent) > said


def _say(seen: Budget, use: BudgetUseSeen, rates: Rates) -> bool:
    with transaction.atomic():
        # Before its objects, as all who change a budget do.
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=seen.tenant_id)
        row = Budget.objects.filter(pk=seen.pk).first()
        if row is None or tenant.closed_at is not None or not _is_due(row, use):
            return False  # another worker was first, or it was changed
        row.tenant = tenant
        row.noted_period_ms, row.noted_percent, row.noted_used = (
            use.began_ms,
            reached(row, use.used, spent=use.spent),
            use.used,
        )
        row.save(update_fields=["noted_period_ms", "noted_percent", "noted_used"])
        audit.record(
            ACTOR,
            tenant=row.tenant.public_id,
            action="budget.threshold",
            object_id=row.public_id,
            after={
                "name": row.name,
                "threshold_percent": row.noted_percent,
                "used": use.used,
                "amount": row.amount,
                "measure": row.measure,
                "policy": row.policy,
                "period_began": moment_of(use.began_ms).isoformat(),
                "period_ends": moment_of(use.ends_ms).isoformat(),
            },
        )
        letter = letter_of(row, use, _currency(row.tenant, rates) if row.measure == COST else "")
        for owner in owners_of(row.tenant):
            mails.put(owner.email, MAIL_KIND, letter)
    return True


def _currency(tenant: Tenant, rates: Rates) -> str:
    found = rates(tenant)
    return "" if found is None else found.currency


def shown(measure: str, amount: int, currency: str) -> str:
    """As people read it: 41.2 GB, 1,200 messages, 12.50 USD, 0.0042 USD."""
    if measure == BYTES:
        return size(amount)
    if measure == COST:
        return f"{grouped_amount(amount)} {currency}" if currency else f"{amount:,} {unit_of('')}"
    return f"{amount:,} message{'' if amount == 1 else 's'}"


def letter_of(row: Budget, use: BudgetUseSeen, currency: str) -> Letter:
    """To an owner: a threshold is reached."""
    ends = f"{moment_of(use.ends_ms):%-d %B %Y}, 00:00 UTC"
    used, amount = shown(row.measure, use.used, currency), shown(row.measure, row.amount, currency)
    full = use.used >= row.amount
    of = row.tenant.name
    return Letter(
        subject=f"{of} has used {percent(row, use.used)} % of its budget {row.name}",
        paragraphs=(
            f"{used} of {amount} are used in the period that ends at {ends}. This count is provisional; the invoice "
            "is made from readings.",
            _NOW[row.policy] if full else _LATER[row.policy],
        ),
        link=f"{config.current().public_url.rstrip('/')}/t/{quote(row.tenant.public_id)}/budgets",
        link_says="Look at the budgets",
        after=(f"You own {of}. We write at each threshold of a budget, once in a period.",),
    )


_WITHIN = " Owners, admins and people with the role billing can raise the amount; that works within seconds."
_LATER = {
    STOP_GROWTH: "Everything works as before. What grows by itself stops while the month is expected to cost more.",
    NOTIFY: "Everything works as before, also above the whole amount.",
    SLOW: "Everything works as before. Above the whole amount, messages are taken at the lower rate that is set.",
    REFUSE: "Everything works as before. Above the whole amount, new messages and reads are refused.",
    REFUSE_PRODUCE: "Everything works as before. Above the whole amount, new messages are refused.",
}
_NOW = {
    STOP_GROWTH: "New topics, more partitions and longer retention are refused, and storage grows no more."
    + _WITHIN,
    NOTIFY: "Everything works as before: this budget only counts.",
    SLOW: "Messages are taken at the lower rate that is set, until the period ends." + _WITHIN,
    REFUSE: "New messages and reads are refused until the period ends." + _WITHIN,
    REFUSE_PRODUCE: "New messages are refused until the period ends. What is stored can be read." + _WITHIN,
}
