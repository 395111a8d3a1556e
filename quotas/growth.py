"""Ceilings of cost: what grows by itself stops while a month is expected to cost more than its tenant allows.

    GROWING --the month is expected to cost the amount--> STOPPED --less than 95 % of it, or another amount--> GROWING

A ceiling is a budget of cost with the policy STOP_GROWTH. While it is STOPPED new topics, more partitions and copies,
and longer retention are refused, and the brokers let what the tenant keeps grow by a twentieth, and no more. What is
there goes on as before.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from django.db import transaction
from django.db.models import F

from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from control_plane.mail import actions as mails
from control_plane.mail.letter import Letter
from penstock.contract.errors import LimitExceeded
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.budgets import COST_CEILING, STOP_GROWTH
from penstock.rules.limit_words import PAYERS, limit_words
from penstock.rules.rating import grouped_amount
from quotas.models import Budget
from tenants import actions as tenants
from tenants.models import Tenant
from tenants.organisations.queries import owners_of

LOOK_EVERY = timedelta(minutes=5)
LOOKS_MAX = 50
"""Forecasts in one round, some 50 ms each; what is left comes first in the next one."""
CLEARS_PERCENT = 95
MORE_PART = 20
"""What is kept may grow by one part in so many after growth was stopped: storage that moves up and down stays below."""
MORE_BYTES_MIN = 64 << 20
MAIL_KIND = "ceiling"
ACTOR = system("budgets")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Of the present month."""

    cost_micro: int
    currency: str
    is_whole: bool = True
    """False: a part of the month costs something that is not known yet, so more is to be expected."""


Expect = Callable[[Tenant, datetime], Expected | None]
"""None: there are no prices."""
Kept = Callable[[Tenant], int | None]
"""Bytes of one copy; None: the brokers do not say it."""


def look(expect: Expect, kept: Kept, now: datetime) -> int:
    """Forecast each ceiling that is due, and stop or release growth; how many were changed."""
    due = (
        Budget.objects.filter(policy=STOP_GROWTH, tenant__closed_at=None)
        .exclude(forecast_at__gt=now - LOOK_EVERY)
        .select_related("tenant")
        .order_by(F("forecast_at").asc(nulls_first=True), "pk")
    )
    changed = 0
    for row in due[:LOOKS_MAX]:
        try:
            expected = expect(row.tenant, now)
            kept_bytes = None
            if expected is not None and not is_stopped(row) and expected.cost_micro >= row.amount:
                kept_bytes = kept(row.tenant)
            changed += _note(row, expected, kept_bytes, now)
        except Exception:
            # A fault of the service with one tenant. The others must not wait for it, nor what comes after this.
            _log.exception("a ceiling was not looked at", extra={"budget": row.public_id})
            Budget.objects.filter(pk=row.pk).update(forecast_at=now, look_failed_at=row.look_failed_at or now)
    return changed


def failing() -> int:
    """Ceilings whose last look failed: what they say of growth is of a time before."""
    return Budget.objects.filter(
        policy=STOP_GROWTH, tenant__closed_at=None, look_failed_at__isnull=False
    ).count()


def is_stopped(row: Budget) -> bool:
    """Whether growth is refused because of this budget."""
    return row.growth_stopped_at is not None


def changed_by_people(row: Budget) -> None:
    """After a change by people: an amount that is far enough above the forecast releases at once. The caller saves."""
    if row.policy != STOP_GROWTH:
        row.growth_stopped_at = row.kept_bytes_max = row.forecast_micro = row.forecast_at = None
        row.look_failed_at = None
    elif row.forecast_micro is None or _clears(row, row.forecast_micro):
        row.growth_stopped_at = row.kept_bytes_max = None


def refusal(tenant: Tenant, what: str) -> LimitExceeded | None:
    """Why `what` may not be now; None: it may."""
    row = (
        Budget.objects.filter(tenant=tenant, policy=STOP_GROWTH)
        .exclude(growth_stopped_at=None)
        .order_by("amount", "pk")
        .first()
    )
    if row is None:
        return None
    return LimitExceeded(
        limit_words(
            COST_CEILING,
            f"{what} would raise the cost, and this month is expected to cost"
            f" {grouped_amount(row.forecast_micro or 0)}, where the budget {row.name!r} allows"
            f" {grouped_amount(row.amount)}",
            clears=f"when less than {CLEARS_PERCENT} % of that is expected",
            raised_by=PAYERS,
        ),
        limit=COST_CEILING,
    )


def grows(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Which setting of a topic would make it cost more for good; empty: none."""
    for name in ("retention_ms", "retention_bytes"):
        if before[name] != UNLIMITED and (after[name] == UNLIMITED or after[name] > before[name]):
            return name
    return "replication" if after["replication"] > before["replication"] else ""


def kept_max_by_tenant(only: Tenant | None = None) -> dict[int, int]:
    """What tenants whose growth is stopped may keep, by tenant; of others nothing is said."""
    found: dict[int, int] = {}
    rows = Budget.objects.filter(policy=STOP_GROWTH).exclude(kept_bytes_max=None).order_by("pk")
    if only is not None:
        rows = rows.filter(tenant=only)
    for tenant, kept_max in rows.values_list("tenant_id", "kept_bytes_max"):
        found[tenant] = min(kept_max or 0, found.get(tenant, kept_max or 0))
    return found


def _clears(row: Budget, expected_micro: int) -> bool:
    return expected_micro * 100 < row.amount * CLEARS_PERCENT


def _note(seen: Budget, expected: Expected | None, kept_bytes: int | None, now: datetime) -> bool:
    with transaction.atomic():
        # Before its objects, as all who change a budget do: else each could wait for the other, and what one has read
        # the other would write over.
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=seen.tenant_id)
        row = Budget.objects.filter(pk=seen.pk).first()
        if row is None or row.policy != STOP_GROWTH or tenant.closed_at is not None:
            return False  # it was changed meanwhile
        row.tenant = tenant
        row.forecast_at, row.look_failed_at, before = now, None, is_stopped(row)
        row.forecast_micro = None if expected is None else expected.cost_micro
        if expected is not None and not before and expected.cost_micro >= row.amount:
            row.growth_stopped_at = now
            if kept_bytes is not None:
                row.kept_bytes_max = max(kept_bytes + kept_bytes // MORE_PART, kept_bytes + MORE_BYTES_MIN)
        elif before and (expected is None or (expected.is_whole and _clears(row, expected.cost_micro))):
            row.growth_stopped_at = row.kept_bytes_max = None
        row.save(
            update_fields=[
                *("forecast_at", "look_failed_at", "forecast_micro"),
                *("growth_stopped_at", "kept_bytes_max"),
            ]
        )
        if is_stopped(row) == before:
            return False
        _say(row, "" if expected is None else expected.currency)
        tenants.touch_tenant(ACTOR, row.tenant)
    return True


def _say(row: Budget, currency: str) -> None:
    stopped = is_stopped(row)
    audit.record(
        ACTOR,
        tenant=row.tenant.public_id,
        action="budget.growth_stopped" if stopped else "budget.growth_released",
        object_id=row.public_id,
        after={
            "name": row.name,
            "amount": row.amount,
            "forecast": row.forecast_micro,
            "kept_bytes_max": row.kept_bytes_max,
        },
    )
    letter = letter_of(row, currency)
    for owner in owners_of(row.tenant):
        mails.put(owner.email, MAIL_KIND, letter)


def letter_of(row: Budget, currency: str) -> Letter:
    """To an owner: growth is stopped, or goes on."""
    of, stopped = row.tenant.name, is_stopped(row)
    expected = f"{grouped_amount(row.forecast_micro or 0)} {currency}".rstrip()
    amount = f"{grouped_amount(row.amount)} {currency}".rstrip()
    return Letter(
        subject=f"{of} {'has reached' if stopped else 'is below'} its ceiling {row.name}",
        paragraphs=(
            f"This month is expected to cost {expected}, and the ceiling is {amount}.",
            "New topics, more partitions and copies, and longer retention are refused until less is expected. What is"
            " kept grows by a twentieth at most: then new messages wait until retention has freed space. Owners, admins"
            " and people with the role billing can raise the amount; that works within seconds."
            if stopped
            else "Topics, partitions and storage may grow again.",
        ),
        link=f"{config.current().public_url.rstrip('/')}/t/{quote(row.tenant.public_id)}/budgets",
        link_says="Look at the budgets",
        after=(f"You own {of}. We write when growth is stopped and when it goes on.",),
    )
