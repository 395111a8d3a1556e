"""Sets the limits that service accounts have beside their tenant's. Brokers get them with the tenant.

A limit above the tenant's is allowed: it then only says that the account may have all, and plans change without every
account being looked at.
"""

from collections.abc import Mapping

from django.db import transaction

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from penstock.contract import limits
from penstock.contract.errors import Forbidden, InvalidRequest, LimitExceeded
from penstock.rules.principal_limits import PRINCIPAL_LIMIT_NAMES
from quotas.account_queries import own_limits
from quotas.actions import check_limit
from quotas.models import AccountLimits
from tenants import actions as tenants
from tenants import queries
from tenants.models import ApiKey, ServiceAccount, Tenant

EVERY_NAME = "every service account"
"""What the audit log calls all those that have no limits of their own."""


def set_account_limits(
    actor: Actor, tenant: Tenant, account: ServiceAccount | None, wanted: Mapping[str, int | None]
) -> Tenant:
    """Set the limits of an account, all of them; or of each that has none of its own (None). What is None or is not
    named, an account has from those of each. The tenant as it is delivered.

    Raises `InvalidRequest` (a value; no limit; the service's own tenant), `NotFound` (the account was deleted),
    `LimitExceeded` (too many accounts), `Forbidden` (they are those of the account whose key acts).
    """
    tenants.check_not_the_service(tenant)
    for name in PRINCIPAL_LIMIT_NAMES:
        check_limit(name, wanted.get(name))
    values = {name: wanted.get(name) for name in PRINCIPAL_LIMIT_NAMES}
    if all(value is None for value in values.values()):
        raise InvalidRequest(f"no limit is set; name one of {', '.join(values)}, or remove the limits")
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if account is not None:
            queries.service_account(tenant, account.public_id)
        row = AccountLimits.objects.filter(tenant=locked, account=account).first()
        before = _described(row)
        if before == values:
            return locked
        _check_not_its_own(actor, locked, account, before, values)
        if row is None:
            if account is not None:
                _check_one_more(locked)
            row = AccountLimits(tenant=locked, account=account)
        for name, value in values.items():
            setattr(row, name, value)
        row.save()
        _record(actor, locked, account, "account_limits.set", before, values)
        return tenants.touch_tenant(actor, locked)


def remove_account_limits(actor: Actor, tenant: Tenant, account: ServiceAccount | None) -> Tenant:
    """The account has no limits of its own any more, or there are none of each (None). The tenant as it is delivered;
    nothing changes if there were none. Raises `Forbidden` (they are those of the account whose key acts)."""
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = AccountLimits.objects.filter(tenant=locked, account=account).first()
        if row is None:
            return locked
        before = _described(row)
        _check_not_its_own(actor, locked, account, before, {})
        row.delete()
        _record(actor, locked, account, "account_limits.remove", before, {})
        return tenants.touch_tenant(actor, locked)


def _check_not_its_own(
    actor: Actor,
    tenant: Tenant,
    account: ServiceAccount | None,
    before: Mapping[str, int | None],
    after: Mapping[str, int | None],
) -> None:
    """A key of a service account must not lift the account's limits, nor change those of each where it has them. Under
    the tenant's lock.
    """
    if actor.kind is not ActorKind.KEY:
        return
    own = ServiceAccount.objects.filter(
        pk__in=ApiKey.objects.filter(tenant=tenant, public_id=actor.id).values("service_account")
    ).first()
    if own is None:
        return
    if account is None:
        row = AccountLimits.objects.filter(tenant=tenant, account=own).first()
        taken = [name for name in PRINCIPAL_LIMIT_NAMES if getattr(row, name, None) is None]
        concerned = any((before.get(name) or 0) != (after.get(name) or 0) for name in taken)
    else:
        concerned = account.pk == own.pk
    if concerned:
        raise Forbidden(
            f"{own.name}: a service account does not change its own limits; use another key or sign in"
        )


def _check_one_more(tenant: Tenant) -> None:
    most = limits.PRINCIPAL_LIMITS_PER_TENANT_MAX
    if own_limits(tenant).count() >= most:
        raise LimitExceeded(
            f"{most} service accounts have limits of their own, and no more may; remove some, or set those of each"
            " service account",
            limit="PRINCIPAL_LIMITS_PER_TENANT_MAX",
        )


def _described(row: AccountLimits | None) -> dict[str, int | None]:
    return {} if row is None else {name: getattr(row, name) for name in PRINCIPAL_LIMIT_NAMES}


def _record(
    actor: Actor,
    tenant: Tenant,
    account: ServiceAccount | None,
    action: str,
    before: Mapping[str, int | None],
    after: Mapping[str, int | None],
) -> None:
    name = EVERY_NAME if account is None else account.name
    audit.record(
        actor,
        tenant=tenant.public_id,
        action=action,
        object_id=tenant.public_id if account is None else account.public_id,
        before={"name": name, **before},
        after={"name": name, **after},
    )
