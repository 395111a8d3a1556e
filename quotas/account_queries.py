"""Reads the limits that service accounts have beside their tenant's."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from penstock.rules.access import ACCOUNT_KIND
from penstock.rules.principal_limits import EVERY_ACCOUNT, PRINCIPAL_LIMIT_NAMES, PrincipalLimits
from quotas.models import AccountLimits
from tenants.models import ServiceAccount, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimitsFound:
    """What was set, and what follows from it."""

    account: ServiceAccount | None
    """None = each service account of the tenant that has no limits of its own."""
    own: dict[str, int | None]
    """As set; None = what each account has."""
    effective: PrincipalLimits
    """Beside the tenant's limits."""


def own_limits(tenant: Tenant) -> QuerySet[AccountLimits]:
    """Of the accounts that have limits of their own."""
    return _present().filter(tenant=tenant).exclude(account=None)


def limits_of_account(tenant: Tenant, account: ServiceAccount | None) -> AccountLimitsFound:
    """Of one of the tenant's accounts, or None: of each."""
    rows = {
        row.account_id: row for row in _present().filter(Q(account=account) | Q(account=None), tenant=tenant)
    }
    return found_of(account, rows.get(account.pk if account else None), rows.get(None))


def of_each(tenant: Tenant) -> AccountLimits | None:
    """What each account has that has no limits of its own."""
    return AccountLimits.objects.filter(tenant=tenant, account=None).first()


def found_of(
    account: ServiceAccount | None, row: AccountLimits | None, each: AccountLimits | None
) -> AccountLimitsFound:
    """Of an account with the row, where `each` is the row of each account."""
    return AccountLimitsFound(
        account=account,
        own={name: getattr(row, name, None) for name in PRINCIPAL_LIMIT_NAMES},
        effective=_effective(row, each),
    )


def limits_on_brokers(tenant: Tenant) -> dict[str, PrincipalLimits]:
    """As brokers get them, by principal; empty: no account has any."""
    return _by_principal(_present().filter(tenant=tenant))


def principal_limits_by_tenant() -> dict[str, dict[str, PrincipalLimits]]:
    """Of every tenant that has some, by public id."""
    rows: dict[str, list[AccountLimits]] = {}
    for row in _present().select_related("tenant"):
        rows.setdefault(row.tenant.public_id, []).append(row)
    return {tenant: _by_principal(found) for tenant, found in rows.items()}


def _present() -> QuerySet[AccountLimits]:
    return AccountLimits.objects.filter(Q(account=None) | Q(account__ended_at=None)).select_related("account")


def _by_principal(found: Iterable[AccountLimits]) -> dict[str, PrincipalLimits]:
    rows = list(found)
    each = next((row for row in rows if row.account is None), None)
    return {
        EVERY_ACCOUNT if row.account is None else f"{ACCOUNT_KIND}{row.account.public_id}": _effective(
            row, each
        )
        for row in rows
    }


def _effective(row: AccountLimits | None, each: AccountLimits | None) -> PrincipalLimits:
    values = {}
    for name in PRINCIPAL_LIMIT_NAMES:
        own = getattr(row, name, None)
        values[name] = (getattr(each, name, None) if own is None else own) or 0
    return PrincipalLimits(**values)
