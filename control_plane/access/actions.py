"""Makes keys with their scopes, exchanges them, and withdraws those that the brokers refused."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from control_plane.access.models import KeyBinding
from control_plane.audit.actor import Actor
from penstock.contract import limits
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.errors import InvalidRequest, LimitExceeded
from penstock.rules.access import Scope, check_scope
from penstock.rules.names import OPERATIONS, check_operations, check_topic_prefix
from quotas.queries import limits_of
from tenants import actions as tenants
from tenants.models import ApiKey, ServiceAccount, Tenant
from tenants.queries import counted_keys
from tenants.service_accounts import actions as accounts

OVERLAP_MAX = timedelta(days=30)
"""The most that an exchanged key goes on beside the new one."""


def create_key(
    actor: Actor,
    tenant: Tenant,
    *,
    name: str,
    expires_at: datetime | None = None,
    topic_prefix: str | None = None,
    operations: Sequence[str] = (),
    scopes: Sequence[Scope] = (),
    account: ServiceAccount | None = None,
    within_service: bool = False,
    replaces: ApiKey | None = None,
) -> tuple[ApiKey, KeyText]:
    """A key of the tenant and its text. It may do everything, unless a prefix or operations (which make one scope) or
    scopes are given. `account` and `within_service`: as in `tenants`.
    `replaces`: a key that ends in the same transaction, and is not counted beside the new one.

    Raises `InvalidRequest`, `LimitExceeded`, `Forbidden`.
    """
    all_scopes = list(scopes)
    if topic_prefix is not None or operations:
        check_topic_prefix(topic_prefix or "")
        check_operations(operations)
        chosen = tuple(operation for operation in OPERATIONS if operation in operations)
        all_scopes.insert(0, Scope(name=topic_prefix or "", operations=chosen))
    if len(all_scopes) > limits.KEY_BINDINGS_MAX:
        raise LimitExceeded(
            f"scopes: {len(all_scopes)} of one key, at most {limits.KEY_BINDINGS_MAX} allowed; name prefixes, or use"
            " several keys",
            limit="KEY_BINDINGS_MAX",
        )
    for scope in all_scopes:
        check_scope(scope)
    with transaction.atomic():
        if not within_service:
            _check_count(tenant, replaces)
        key, text = tenants.create_key(
            actor,
            tenant,
            name=name,
            expires_at=expires_at,
            account=account,
            bound_to=_in_audit(all_scopes, account),
            within_service=within_service,
        )
        KeyBinding.objects.bulk_create(
            KeyBinding(
                key=key,
                topic_prefix=scope.name,
                operations=list(scope.operations),
                resource=scope.resource,
                literal=scope.literal,
            )
            for scope in all_scopes
        )
    return key, text


def rotate_key(actor: Actor, key: ApiKey, *, overlap: timedelta) -> tuple[ApiKey, KeyText, ApiKey]:
    """A new key with the name, scopes and service account of `key`, its text, and `key`, which ends after `overlap`.
    Until then both are valid. The new key ends when the old one would have.

    Raises `InvalidRequest` (it is revoked, or the overlap is out of bounds), `Forbidden`, `LimitExceeded` (both are
    counted while they overlap).
    """
    if not timedelta(0) <= overlap <= OVERLAP_MAX:
        raise InvalidRequest(f"overlap_s: 0 to {OVERLAP_MAX.total_seconds():.0f} required")
    with transaction.atomic():
        # First, as ending a service account does.
        Tenant.objects.select_for_update(no_key=True).get(pk=key.tenant_id)
        locked = ApiKey.objects.select_for_update(no_key=True).select_related("tenant").get(pk=key.pk)
        now = timezone.now()
        if locked.revoked_at is not None or (locked.expires_at is not None and locked.expires_at <= now):
            raise InvalidRequest(f"key {key.public_id} is no longer valid; make another one instead")
        made, text = create_key(
            actor,
            locked.tenant,
            name=locked.name,
            expires_at=locked.expires_at,
            scopes=[row.scope for row in locked.bindings.order_by("pk")],
            account=locked.service_account,
            replaces=None if overlap else locked,
        )
        if (made.maker_id, made.service_account_id) != (locked.maker_id, locked.service_account_id):
            raise InvalidRequest(
                f"key {key.public_id} belongs to another principal, whose keys you do not make; make a new key instead"
            )
        ended = accounts.end_key_at(actor, locked, now + overlap)
    return made, text, ended


def _check_count(tenant: Tenant, replaces: ApiKey | None) -> None:
    """Under the tenant's lock, so that two requests do not both take the last one. Raises `LimitExceeded`."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    allowed = limits_of(tenant).keys_max
    if not allowed:
        return
    there = counted_keys(tenant)
    used = (there if replaces is None else there.exclude(pk=replaces.pk)).count()
    if used >= allowed:
        raise LimitExceeded(
            f"keys_max: a key needs 1, {used} of {allowed} are used by the tenant; revoke one, or exchange one without"
            " an overlap, or ask for a higher limit",
            limit="keys_max",
        )


def _in_audit(scopes: Sequence[Scope], account: ServiceAccount | None) -> dict[str, object]:
    """What the audit entry of a new key says of it."""
    said: dict[str, object] = {}
    if len(scopes) == 1 and not scopes[0].resource and not scopes[0].literal:
        said = {"topic_prefix": scopes[0].name, "operations": list(scopes[0].operations)}
    elif scopes:
        said = {
            "scopes": [
                {
                    "resource": s.resource,
                    "name": s.name,
                    "literal": s.literal,
                    "operations": list(s.operations),
                }
                for s in scopes
            ]
        }
    if account is not None:
        said["service_account"] = account.public_id
    return said


def withdraw_key(actor: Actor, key: ApiKey, why: str) -> bool:
    """The brokers refused a new key: it never existed. False if a process delivers it or it was changed."""
    with transaction.atomic():
        mark = transaction.savepoint()
        KeyBinding.objects.filter(key=key).delete()
        if tenants.withdraw_key(actor, key, why):
            return True
        transaction.savepoint_rollback(mark)
        return False
