"""Makes keys, bound to a part of their tenant's topics or to all, and withdraws those that the brokers refused."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from control_plane.access.models import KeyBinding
from control_plane.audit.actor import Actor
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.rules.names import OPERATIONS, check_operations, check_topic_prefix
from tenants import actions as tenants
from tenants.models import ApiKey, Tenant


def create_key(
    actor: Actor,
    tenant: Tenant,
    *,
    name: str,
    expires_at: datetime | None = None,
    topic_prefix: str | None = None,
    operations: Sequence[str] = (),
    within_service: bool = False,
) -> tuple[ApiKey, KeyText]:
    """A key of the tenant and its text. Bound if a prefix or operations are given. `within_service`: as in `tenants`.

    Raises `InvalidRequest`, `Forbidden`.
    """
    bound = topic_prefix is not None or bool(operations)
    prefix = topic_prefix or ""
    check_topic_prefix(prefix)
    check_operations(operations)
    chosen = [operation for operation in OPERATIONS if operation in operations]
    with transaction.atomic():
        binding: dict[str, object] = {"topic_prefix": prefix, "operations": chosen} if bound else {}
        key, text = tenants.create_key(
            actor, tenant, name=name, expires_at=expires_at, bound_to=binding, within_service=within_service
        )
        if bound:
            KeyBinding.objects.create(key=key, topic_prefix=prefix, operations=chosen)
    return key, text


def withdraw_key(actor: Actor, key: ApiKey, why: str) -> bool:
    """The brokers refused a new key: it never existed. False if a process delivers it or it was changed."""
    with transaction.atomic():
        mark = transaction.savepoint()
        KeyBinding.objects.filter(key=key).delete()
        if tenants.withdraw_key(actor, key, why):
            return True
        transaction.savepoint_rollback(mark)
        return False
