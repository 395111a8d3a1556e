"""Writes a tenant's access list: entries, default and groups of principals. Brokers get the list as a whole."""

import hashlib
from collections.abc import Iterable, Sequence

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.access import queries
from control_plane.access.models import AclEntry, PrincipalGroup, TenantAccessList
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_id
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions
from control_plane.outbox.registry import Delivered
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, Forbidden, InUse, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules import access as rules
from penstock.rules.access import AccessList, Acl
from penstock.rules.access_document import access_list_json, acl_document
from penstock.rules.access_gains import (
    described_right,
    gives_more_text,
    lock_out_text,
    right_beyond,
    right_given,
)
from penstock.rules.names import check_display_name
from quotas.account_actions import remove_account_limits
from quotas.queries import limits_of
from tenants import queries as tenants
from tenants.models import ApiKey, ServiceAccount, Tenant
from tenants.people import actions as people
from tenants.service_accounts import actions as accounts

KIND_ACCESS = "access_list"
_NAMED_MAX = 10
"""Of what names a group, in its refusal."""


# -- the list -------------------------------------------------------------------------------------------


def set_default(actor: Actor, tenant: Tenant, default: str) -> TenantAccessList:
    """What holds for what no entry speaks of. Raises `InvalidRequest`, `Forbidden` (it would lock its actor out)."""
    AccessList(default=default)
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        before = row.default
        if before == default:
            return row
        row.default = default
        row.save(update_fields=["default", "updated_at"])
        record_default(actor, row, before=before)
        return list_changed(actor, row, rights)


def add_acls(actor: Actor, tenant: Tenant, wanted: Sequence[Acl]) -> tuple[TenantAccessList, list[AclEntry]]:
    """New entries, all or none. One that is there already is not made again, and is among those returned.

    Raises `LimitExceeded`, `NotFound` (a principal is not the tenant's), `Forbidden` (they would lock their actor out),
    `InvalidRequest` (a topic that cannot be).
    """
    for acl in wanted:
        rules.check_can_exist(acl)
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        _check_principals(tenant, (acl.principal for acl in wanted), everyone=True)
        known = {entry.fingerprint: entry for entry in queries.acls(tenant)}
        entries, made = [], []
        for acl in wanted:
            fingerprint = fingerprint_of(acl)
            if fingerprint not in known:
                known[fingerprint] = entry_of(tenant, acl, new_id("acl"))
                made.append(known[fingerprint])
            entries.append(known[fingerprint])
        if not made:
            return row, entries
        if len(known) > limits.ACLS_PER_TENANT_MAX:
            raise LimitExceeded(
                f"the access list would have {len(known)} entries, at most {limits.ACLS_PER_TENANT_MAX} allowed;"
                " name prefixes and groups of principals instead of single ones",
                limit="ACLS_PER_TENANT_MAX",
            )
        for entry in made:
            audit.record(
                actor,
                tenant=tenant.public_id,
                action="acl.create",
                object_id=entry.public_id,
                after=in_audit(entry.acl),
            )
        return list_changed(actor, row, rights), entries


def remove_acl(actor: Actor, tenant: Tenant, public_id: str) -> tuple[TenantAccessList, AclEntry]:
    """The entry holds no longer. Raises `NotFound`, `Forbidden` (it would lock its actor out)."""
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        entry = queries.acl(tenant, public_id)
        record_removal(actor, tenant, entry)
        AclEntry.objects.filter(pk=entry.pk).delete()
        return list_changed(actor, row, rights), entry


def clear(actor: Actor, tenant: Tenant) -> None:
    """For a tenant that is purged: no entry and no group is left, and the brokers hear of it."""
    with transaction.atomic():
        entries, groups = queries.acls(tenant).count(), queries.groups(tenant).count()
        if not entries and not groups:
            return
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        AclEntry.objects.filter(tenant=tenant).delete()
        PrincipalGroup.objects.filter(tenant=tenant).delete()
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="access_list.clear",
            object_id=row.public_id,
            before={"entries": entries, "groups": groups},
        )
        list_changed(actor, row, rights)


def touch(actor: Actor, row: TenantAccessList, *, at_least: int = 0) -> TenantAccessList:
    """Brokers must get the list again, with a generation above `at_least`. The caller writes the audit entry."""
    with transaction.atomic():
        return _deliver(locked_list(row.tenant), at_least)


def fingerprint_of(acl: Acl) -> str:
    """The same for entries that say the same."""
    return hashlib.sha256(access_list_json(AccessList(acls=(acl,))).encode()).hexdigest()


def entry_of(tenant: Tenant, acl: Acl, public_id: str) -> AclEntry:
    """The entry in the tenant's list. The caller has the list's lock, and knows that no entry says the same."""
    return AclEntry.objects.create(
        public_id=public_id,
        tenant=tenant,
        effect=acl.effect,
        principal=acl.principal,
        resource=acl.resource,
        name=acl.name,
        literal=acl.literal,
        operations=sorted(set(acl.operations)),
        addresses=sorted(set(acl.addresses)),
        fingerprint=fingerprint_of(acl),
    )


def in_audit(acl: Acl) -> dict[str, object]:
    """What the audit log says of an entry: in words, and so that it can be made again."""
    return {"entry": rules.described(acl), "acl": acl_document(acl)}


def record_removal(actor: Actor, tenant: Tenant, entry: AclEntry) -> None:
    """Part of the transaction that removes the entry."""
    audit.record(
        actor,
        tenant=tenant.public_id,
        action="acl.delete",
        object_id=entry.public_id,
        before=in_audit(entry.acl),
    )


def record_default(actor: Actor, row: TenantAccessList, *, before: str) -> None:
    """Part of the transaction that sets the default."""
    audit.record(
        actor,
        tenant=row.tenant.public_id,
        action="access.default",
        object_id=row.public_id,
        before={"default": before},
        after={"default": row.default},
    )


# -- groups of principals -------------------------------------------------------------------------------


def create_group(
    actor: Actor, tenant: Tenant, *, name: str, members: Sequence[str]
) -> tuple[TenantAccessList, PrincipalGroup]:
    """Raises `InvalidRequest`, `NotFound` (a member is not the tenant's), `AlreadyExists`, `LimitExceeded`."""
    check_display_name("name", name, limits.KEY_NAME_LENGTH_MAX)
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        _check_principals(tenant, members, everyone=False)
        try:
            with transaction.atomic():
                group = PrincipalGroup.objects.create(
                    public_id=new_id("grp"), tenant=tenant, name=name, members=sorted(set(members))
                )
        except IntegrityError:
            raise AlreadyExists(f"name: the tenant has a group of principals called {name!r}") from None
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="principal_group.create",
            object_id=group.public_id,
            after={"name": name, "members": group.members},
        )
        return list_changed(actor, row, rights), group


def set_members(
    actor: Actor, tenant: Tenant, public_id: str, members: Sequence[str]
) -> tuple[TenantAccessList, PrincipalGroup]:
    """The members, all of them. Raises as `create_group`; `InvalidRequest` for groups in a circle."""
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        group = queries.group(tenant, public_id)
        _check_principals(tenant, members, everyone=False)
        before, group.members = group.members, sorted(set(members))
        if before == group.members:
            return row, group
        group.save(update_fields=["members"])
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="principal_group.change",
            object_id=group.public_id,
            before={"members": before},
            after={"members": group.members},
        )
        return list_changed(actor, row, rights), group


def remove_group(actor: Actor, tenant: Tenant, public_id: str) -> tuple[TenantAccessList, PrincipalGroup]:
    """Raises `NotFound`, `InUse` (entries or other groups name it)."""
    with transaction.atomic():
        row, rights = locked_list(tenant), rights_before(actor, tenant)
        group = queries.group(tenant, public_id)
        principal = f"{rules.GROUP_KIND}{public_id}"
        entries = [one.public_id for one in queries.acls(tenant).filter(principal=principal).order_by("pk")]
        if entries:
            raise InUse(
                f"group {group.name!r}: named by {_listed('entry', 'entries', entries)}; delete what names it first"
            )
        holders = [repr(one.name) for one in queries.groups(tenant) if principal in one.members]
        if holders:
            raise InUse(
                f"group {group.name!r}: member of {_listed('the group', 'the groups', holders)}; take it out first"
            )
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="principal_group.delete",
            object_id=public_id,
            before={"name": group.name, "members": group.members},
        )
        PrincipalGroup.objects.filter(pk=group.pk).delete()
        return list_changed(actor, row, rights), group


def _listed(one: str, several: str, names: Sequence[str]) -> str:
    """All of them, or the first with the number of the others."""
    shown, others = names[:_NAMED_MAX], len(names) - _NAMED_MAX
    return f"{one if len(names) == 1 else several} {', '.join(shown)}" + (
        f" and {others} more" if others > 0 else ""
    )


# -- service accounts -----------------------------------------------------------------------------------


def create_account(actor: Actor, tenant: Tenant, *, name: str) -> ServiceAccount:
    """Raises `InvalidRequest`, `AlreadyExists`, `LimitExceeded`."""
    check_display_name("name", name, limits.KEY_NAME_LENGTH_MAX)
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        check_new_account(tenant, name)
        return accounts.create_service_account(actor, tenant, name=name)


def check_new_account(tenant: Tenant, name: str) -> None:
    """May there be one more service account, of this name? Under the tenant's lock. Raises `AlreadyExists`,
    `LimitExceeded`.
    """
    there = ServiceAccount.objects.filter(tenant=tenant, ended_at=None)
    if there.filter(name=name).exists():
        raise AlreadyExists(f"name: the tenant has a service account called {name!r}")
    used, allowed = there.count(), limits_of(tenant).service_accounts_max
    if allowed and used >= allowed:
        raise LimitExceeded(
            f"service_accounts_max: {name} needs 1, {used} of {allowed} are used by the tenant; delete one first,"
            " or ask for a higher limit",
            limit="service_accounts_max",
        )
    if used >= limits.SERVICE_ACCOUNTS_PER_TENANT_MAX:
        raise LimitExceeded(
            f"the tenant has {used} service accounts, at most {limits.SERVICE_ACCOUNTS_PER_TENANT_MAX} allowed;"
            " delete one first",
            limit="SERVICE_ACCOUNTS_PER_TENANT_MAX",
        )


def end_account(actor: Actor, tenant: Tenant, account: ServiceAccount) -> None:
    """Delete it: its keys are revoked, and entries and groups that name it no longer do. Raises `Forbidden` (it is the
    actor's own).
    """
    principal = f"{rules.ACCOUNT_KIND}{account.public_id}"
    with transaction.atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if actor.kind is ActorKind.KEY and ApiKey.objects.filter(
            tenant=tenant, public_id=actor.id, service_account=account
        ):
            raise Forbidden("a service account does not delete itself; use another key or sign in")
        remove_account_limits(actor, tenant, account)
        accounts.end_service_account(actor, account)
        _forget(actor, tenant, principal)


def remove_person(actor: Actor, tenant: Tenant, person: str) -> None:
    """`people.remove`; and entries and groups that name the person no longer do, so that one who comes back has what
    they are given then. Raises what that raises.
    """
    with transaction.atomic():
        people.remove(actor, tenant, person)
        # By the tenant's organisation they may belong to it still.
        if not tenants.people(tenant).filter(public_id=person).exists():
            forget_person(actor, tenant, person)


def forget_person(actor: Actor, tenant: Tenant, person: str) -> None:
    """Part of the transaction, under the tenant's lock, in which the person (a public id) ceased to belong to it."""
    _forget(actor, tenant, f"{rules.PERSON_KIND}{person}")


def _forget(actor: Actor, tenant: Tenant, principal: str) -> None:
    """Part of the caller's transaction, under the tenant's lock."""
    if queries.access_of(tenant) is None:
        return
    row, rights = locked_list(tenant), rights_before(actor, tenant)
    named = queries.acls(tenant).filter(principal=principal)
    holding = [group for group in queries.groups(tenant) if principal in group.members]
    if not named.exists() and not holding:
        return
    for entry in named:
        record_removal(actor, tenant, entry)
    named.delete()
    for group in holding:
        before = list(group.members)
        group.members = [member for member in group.members if member != principal]
        group.save(update_fields=["members"])
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="principal_group.change",
            object_id=group.public_id,
            before={"members": before},
            after={"members": group.members},
        )
    list_changed(actor, row, rights)


# -- parts ----------------------------------------------------------------------------------------------


def locked_list(tenant: Tenant) -> TenantAccessList:
    """The tenant's list under the tenant's lock, made if it is not there. Raises `InvalidRequest`."""
    if tenant.public_id == SYSTEM_TENANT:
        raise InvalidRequest(f"{SYSTEM_TENANT} is the service's own tenant; it has no access list")
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    row, _ = TenantAccessList.objects.get_or_create(
        tenant=tenant, defaults={"public_id": new_id("acs"), "generation": 0}
    )
    return (
        TenantAccessList.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .get(pk=row.pk)
    )


def rights_before(actor: Actor, tenant: Tenant) -> AccessList | None:
    """The list as it is, for `list_changed` to compare with; None where the actor acts by no list. Under its lock."""
    return queries.access_list(tenant) if actor.kind is ActorKind.KEY else None


def list_changed(actor: Actor, row: TenantAccessList, before: AccessList | None) -> TenantAccessList:
    """Check the list as it is now, and deliver it. `before`: from `rights_before`, ahead of the change. Raises
    `InvalidRequest`, `LimitExceeded`, `Forbidden` (it locks its actor out, or gives what the actor does not have).
    """
    now = queries.access_list(row.tenant)
    circle = rules.circle_among(now.members)
    if circle:
        names = {f"{rules.GROUP_KIND}{group.public_id}": group.name for group in queries.groups(row.tenant)}
        raise InvalidRequest(
            "members: groups would hold one another in a circle: "
            + " holds ".join(names.get(one, one) for one in circle)
        )
    access_list_json(now)
    if before is not None:
        _check_gives_no_more(actor, row.tenant, before, now)
    _check_not_locked_out(actor, row.tenant)
    return _deliver(row, 0)


def _check_gives_no_more(actor: Actor, tenant: Tenant, before: AccessList, now: AccessList) -> None:
    """A key must give no one a right that its own principal does not have: else who is denied would change what denies.
    People act by their role.
    """
    key = tenants.key(tenant, actor.id)
    giver = queries.owner_of(key)
    right = None if giver == rules.SERVICE else right_given(before, now, giver, queries.bearers(tenant))
    if right is not None:
        raise Forbidden(gives_more_text(right, giver))


def check_restored(actor: Actor, tenant: Tenant, account: ServiceAccount) -> None:
    """A key brings no account back that may do what its own principal may not: while the account was away, what denied
    it could be removed without anyone's gain. Raises `Forbidden`. Under the list's lock.
    """
    if actor.kind is not ActorKind.KEY:
        return
    giver = queries.owner_of(tenants.key(tenant, actor.id))
    principal = f"{rules.ACCOUNT_KIND}{account.public_id}"
    right = None if giver == rules.SERVICE else right_beyond(queries.access_list(tenant), principal, giver)
    if right is not None:
        raise Forbidden(
            f"service account {account.name} would come back with what {giver} may not ({described_right(right)}): a"
            " key gives no right that it does not have; sign in as an owner or admin"
        )


def _check_not_locked_out(actor: Actor, tenant: Tenant) -> None:
    """A key must not take from itself the right to change the list: it could not undo that. People act by their role,
    whatever the list says, so an owner can undo everything.
    """
    if actor.kind is not ActorKind.KEY:
        return
    key = (
        ApiKey.objects.select_related("tenant", "service_account", "maker")
        .filter(tenant=tenant, public_id=actor.id)
        .first()
    )
    if key is not None and not queries.KeyRights(key, actor.source).allows(rules.ALTER, rules.TENANT, ""):
        raise Forbidden(lock_out_text(key.public_id, queries.owner_of(key)))


def _deliver(row: TenantAccessList, at_least: int) -> TenantAccessList:
    row.generation = max(row.generation, at_least) + 1
    row.save(update_fields=["generation", "updated_at"])
    outbox.enqueue(
        kind=KIND_ACCESS,
        object_id=row.public_id,
        tenant=row.tenant.public_id,
        generation=row.generation,
    )
    return row


def _check_principals(tenant: Tenant, principals: Iterable[str], *, everyone: bool) -> None:
    """Raises `InvalidRequest` (no principal's form), `NotFound` (another tenant's, or none)."""
    wanted = set(principals)
    for principal in wanted:
        rules.check_principal(principal, groups=True)
        if principal == rules.EVERYONE and not everyone:
            raise InvalidRequest(
                "members: everyone is no member of a group; name everyone in the entry instead"
            )
    missing = sorted(wanted - queries.known_principals(tenant))
    if missing:
        raise NotFound(f"principal {missing[0]!r} does not exist")


# -- what became of a delivery --------------------------------------------------------------------------


def note_delivered(public_id: str, done: Delivered) -> None:
    """The brokers have this generation."""
    row = TenantAccessList.objects.select_for_update(no_key=True).get(public_id=public_id)
    row.delivered_generation = max(row.delivered_generation, done.generation)
    row.delivered_revision = max(row.delivered_revision, done.revision)
    row.conditions = conditions.without(row.conditions, conditions.DELIVERY)
    row.save(update_fields=["delivered_generation", "delivered_revision", "conditions", "updated_at"])


def put_condition(public_id: str, kind: str, reason: str, message: str) -> None:
    """Show a condition on the list."""
    with transaction.atomic():
        row = TenantAccessList.objects.select_for_update(no_key=True).get(public_id=public_id)
        row.conditions = conditions.put(row.conditions, kind, reason, message, timezone.now())
        row.save(update_fields=["conditions", "updated_at"])


def clear_condition(public_id: str, kind: str) -> None:
    """Show it no more."""
    with transaction.atomic():
        row = TenantAccessList.objects.select_for_update(no_key=True).get(public_id=public_id)
        row.conditions = conditions.without(row.conditions, kind)
        row.save(update_fields=["conditions", "updated_at"])
