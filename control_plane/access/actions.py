"""Makes keys with their scopes, exchanges them, and withdraws those that the brokers refused."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from control_plane.access import history, queries
from control_plane.access.models import KeyBinding
from control_plane.audit.actor import Actor, ActorKind
from penstock.contract import limits
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.errors import Forbidden, InvalidRequest, LimitExceeded
from penstock.rules.access import (
    ACCOUNT_KIND,
    SERVICE,
    TOPIC,
    VERIFY,
    Scope,
    check_reads_audit_topic,
    check_scope,
    names_audit_topic,
    only_verifies,
)
from penstock.rules.access_gains import account_beyond_text, right_beyond
from penstock.rules.names import AUDIT_TOPIC, OPERATIONS, check_operations, check_topic_prefix
from quotas.account_queries import own_limits
from quotas.queries import limits_of
from tenants import actions as tenants
from tenants.models import ApiKey, Membership, Person, ServiceAccount, Tenant
from tenants.queries import counted_keys, role_in
from tenants.queries import key as key_of
from tenants.roles import Permission, Role, Standing, allowed
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
    if not within_service:
        _check_audit_scopes(actor, tenant, all_scopes)
    with transaction.atomic():
        if not within_service:
            _check_count(tenant, replaces)
            _check_gives_no_more(actor, tenant, account)
        key, text = tenants.create_key(
            actor,
            tenant,
            name=name,
            expires_at=expires_at,
            account=account,
            bound_to=_in_audit(all_scopes, account),
            within_service=within_service,
            verifies=only_verifies(all_scopes),
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


def create_verifying_key(
    actor: Actor,
    tenant: Tenant,
    *,
    name: str,
    expires_at: datetime | None = None,
    topic_prefix: str = "",
) -> tuple[ApiKey, KeyText]:
    """A key that proves invoices, of topics whose names begin so, and reads no message. Raises as `create_key`."""
    check_topic_prefix(topic_prefix)
    scope = Scope(resource=TOPIC, name=topic_prefix, operations=(VERIFY,))
    return create_key(actor, tenant, name=name, expires_at=expires_at, scopes=[scope])


def rotate_key(actor: Actor, key: ApiKey, *, overlap: timedelta) -> tuple[ApiKey, KeyText, ApiKey]:
    """A new key with the name, scopes and service account of `key`, its text, and `key`, which ends after `overlap`.
    Until then both are valid. The new key ends when the old one would have, had it never been exchanged: a second
    exchange, after an answer that was lost, makes as good a key as the first.

    Raises `InvalidRequest` (it is revoked, or the overlap is out of bounds), `Forbidden`, `LimitExceeded` (both are
    counted while they overlap).
    """
    if not timedelta(0) <= overlap <= OVERLAP_MAX:
        raise InvalidRequest(f"overlap_s: 0 to {OVERLAP_MAX.total_seconds():.0f} required")
    with transaction.atomic():
        # First, as ending a service account does.
        Tenant.objects.select_for_update(no_key=True).get(pk=key.tenant_id)
        locked = (
            ApiKey.objects.select_for_update(no_key=True, of=("self",))
            .select_related("tenant")
            .get(pk=key.pk)
        )
        now = timezone.now()
        if locked.revoked_at is not None or (locked.expires_at is not None and locked.expires_at <= now):
            raise InvalidRequest(f"key {key.public_id} is no longer valid; make another one instead")
        made, text = create_key(
            actor,
            locked.tenant,
            name=locked.name,
            expires_at=history.end_without_exchange(locked),
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


def _check_audit_scopes(actor: Actor, tenant: Tenant, scopes: Sequence[Scope]) -> None:
    """A key that reads the topic with the audit log is made by those alone who may read the log; no key makes one.

    Raises `Forbidden`, `InvalidRequest` (it would do more than read).
    """
    named = [scope for scope in scopes if names_audit_topic(scope)]
    for scope in named:
        check_reads_audit_topic(scope)
    if not named or actor.kind is ActorKind.SYSTEM:
        return
    person = Person.objects.filter(public_id=actor.id).first() if actor.kind is ActorKind.PERSON else None
    role = None if person is None else role_in(tenant, person)
    if role is None or not allowed(Standing(role.value), Permission.AUDIT_READ):
        raise Forbidden(
            f"{Permission.AUDIT_READ.value} is required of the person who makes a key that reads {AUDIT_TOPIC}"
        )


def _check_gives_no_more(actor: Actor, tenant: Tenant, account: ServiceAccount | None) -> None:
    """A key makes keys for an account that may no more than its own principal, and for none where its own account has
    limits: those would not hold for the other's. Under the tenant's lock, as the access list changes under it.
    """
    if actor.kind is not ActorKind.KEY or account is None:
        return
    maker = key_of(tenant, actor.id)
    giver = queries.owner_of(maker)
    if giver == SERVICE or maker.service_account_id == account.pk:
        return
    right = right_beyond(queries.access_list(tenant), f"{ACCOUNT_KIND}{account.public_id}", giver)
    if right is not None:
        raise Forbidden(account_beyond_text(account.name, right, giver))
    if (
        maker.service_account is not None
        and own_limits(tenant).filter(account=maker.service_account).exists()
    ):
        raise Forbidden(
            f"{giver} has limits of its own, which would not hold for a key of {account.name}; use another key or"
            " sign in as an owner or admin"
        )


def revoke_audit_keys_beyond_their_makers(actor: Actor) -> list[ApiKey]:
    """Revoke keys of all tenants that read the topic with the audit log, whose maker may no longer read the log."""
    readers = [role for role in Role if allowed(Standing(role.value), Permission.AUDIT_READ)]
    may = Membership.objects.filter(
        tenant=OuterRef("tenant"), person=OuterRef("maker"), person__is_active=True, role__in=readers
    )
    reads = KeyBinding.objects.filter(
        key=OuterRef("pk"), resource=TOPIC, literal=True, topic_prefix=AUDIT_TOPIC
    )
    found = ApiKey.objects.filter(~Exists(may), Exists(reads), maker__isnull=False, revoked_at=None)
    revoked = []
    for key in list(found.select_related("tenant", "maker").order_by("pk")):
        # By their organisation they may have a role that does.
        role = None if key.maker is None else role_in(key.tenant, key.maker)
        if role not in readers:
            revoked.append(
                tenants.revoke_key(actor, key, reason=f"its maker may no longer read {AUDIT_TOPIC}")
            )
    return revoked


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


def forget_bindings(tenant: Tenant) -> None:
    """For a tenant that is purged: none of its keys is made again."""
    KeyBinding.objects.filter(key__tenant=tenant).delete()
