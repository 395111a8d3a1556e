"""Writes what was removed from a tenant's access list, groups, service accounts and keys once more, as it was.

Each is a change like any other: checked by today's rules, and written into the audit log. A secret never comes back: a
key that was revoked stays so, and its scopes go to a new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.access import actions as keys
from control_plane.access import history, list_actions, queries
from control_plane.access.models import AclEntry, PrincipalGroup, TenantAccessList
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from control_plane.audit.versions import check_in_time
from penstock.contract import limits
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.rules import access as rules
from penstock.rules.access import Acl
from penstock.rules.names import check_display_name
from quotas import budget_queries
from quotas.queries import limits_of
from tenants.models import ApiKey, ServiceAccount, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRestored:
    """What became of a list."""

    row: TenantAccessList
    added: tuple[AclEntry, ...] = ()
    removed: tuple[AclEntry, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    """Principals that are gone, and whose entries were therefore left out, with what people called them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestored:
    row: TenantAccessList
    group: PrincipalGroup
    left_out: dict[str, str]
    """Members that are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRestored:
    row: TenantAccessList
    account: ServiceAccount
    entries: tuple[AclEntry, ...] = ()
    """Of the access list, that came back with it."""
    groups: tuple[PrincipalGroup, ...] = ()
    """That hold it again."""
    left_out: tuple[str, ...] = ()
    """Ids of groups that held it, and are gone."""


# -- the list -------------------------------------------------------------------------------------------


def restore_acl(actor: Actor, tenant: Tenant, public_id: str) -> tuple[TenantAccessList, AclEntry]:
    """The entry that was removed, under its id. If it is there, or one that says the same, nothing changes.

    Raises `NotFound` (the tenant never had it; its principal is gone), `LimitExceeded` (too long ago, too many
    entries), `InvalidRequest` (a topic that cannot be), `Forbidden` (it would lock its actor out).
    """
    with transaction.atomic():
        row, rights = list_actions.locked_list(tenant), list_actions.rights_before(actor, tenant)
        there = queries.acls(tenant).filter(public_id=public_id).first()
        if there is not None:
            return row, there
        removal = history.removal_of_acl(tenant, public_id)
        check_in_time(f"entry {public_id}", removal.at, limits_of(tenant).bin_days)
        acl = history.acl_in(removal)
        _check_there(history.gone(tenant, {acl.principal}), f"entry {public_id}")
        made, entry = _put(actor, tenant, public_id, acl)
        return (list_actions.list_changed(actor, row, rights) if made else row), entry


def restore_list(
    actor: Actor,
    tenant: Tenant,
    *,
    version: int | None = None,
    at: datetime | None = None,
    leave_out_gone: bool = False,
) -> ListRestored:
    """The entries and the default as they were after the change `version` of the audit log, or at a time. Entries that
    have come since are removed. Groups keep their members.

    Raises as `restore_acl`; `NotFound` names principals that are gone, unless `leave_out_gone`.
    """
    with transaction.atomic():
        row, rights = list_actions.locked_list(tenant), list_actions.rights_before(actor, tenant)
        if (version is None) == (at is None):
            raise InvalidRequest("version: either this or at required")
        number = version if version is not None else history.version_at(tenant, _moment(at))
        then = history.list_then(tenant, number)
        if then.replaced_at is not None:
            days = limits_of(tenant).bin_days
            check_in_time(f"version {number} of the access list", then.replaced_at, days)
        way = history.way_back(tenant, then, list_actions.fingerprint_of)
        if not leave_out_gone:
            _check_there(way.gone, f"version {number} of the access list")
        wanted = {one: acl for one, acl in way.add.items() if acl.principal not in way.gone}
        if not (wanted or way.remove or way.default):
            return ListRestored(row=row, left_out=dict(way.gone))
        # First what goes: a full list has capacity for what comes then.
        for entry in way.remove:
            list_actions.record_removal(actor, tenant, entry)
        AclEntry.objects.filter(pk__in=[entry.pk for entry in way.remove]).delete()
        added = [_put(actor, tenant, public_id, acl)[1] for public_id, acl in wanted.items()]
        if way.default:
            row.default = way.default
            row.save(update_fields=["default", "updated_at"])
            list_actions.record_default(actor, row, before=way.default_now)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action=history.LIST_RESTORED,
            object_id=row.public_id,
            after={
                "restored_version": number,
                "entries_added": len(added),
                "entries_removed": len(way.remove),
                "left_out": sorted(way.gone),
            },
        )
        return ListRestored(
            row=list_actions.list_changed(actor, row, rights),
            added=tuple(added),
            removed=way.remove,
            left_out=dict(way.gone),
        )


def _moment(at: datetime | None) -> datetime:
    if at is None:
        raise InvalidRequest("at: required")
    return at


def _put(actor: Actor, tenant: Tenant, public_id: str, acl: Acl) -> tuple[bool, AclEntry]:
    """Was the entry made, and the entry that says it now. Part of the caller's transaction, under the list's lock."""
    rules.check_can_exist(acl)
    same = queries.acls(tenant).filter(fingerprint=list_actions.fingerprint_of(acl)).first()
    if same is not None:
        return False, same
    if queries.acls(tenant).count() >= limits.ACLS_PER_TENANT_MAX:
        raise LimitExceeded(
            f"the access list has {limits.ACLS_PER_TENANT_MAX} entries, and may have no more; remove one first"
        )
    entry = list_actions.entry_of(tenant, acl, public_id)
    audit.record(
        actor,
        tenant=tenant.public_id,
        action=history.ACL_RESTORED,
        object_id=public_id,
        after=list_actions.in_audit(acl),
    )
    return True, entry


def _check_there(missing: Mapping[str, str], called: str) -> None:
    if missing:
        raise NotFound(
            f"{called}: {history.in_words(missing)} is gone; restore that first, or leave out what names it"
        )


# -- groups of principals -------------------------------------------------------------------------------


def restore_group(
    actor: Actor,
    tenant: Tenant,
    public_id: str,
    *,
    version: int | None = None,
    name: str | None = None,
    leave_out_gone: bool = False,
) -> GroupRestored:
    """The group with the members of that version; without one, as it was when it was removed. It keeps its id, so that
    entries which name it mean it again. `name` is for one that was removed, where its name is taken.

    Raises `NotFound` (the tenant never had it, no such version; members are gone, unless `leave_out_gone`),
    `AlreadyExists` (the name is taken), `LimitExceeded` (too long ago, too many), `InvalidRequest` (the group is there,
    and no version is named; groups in a circle; the name), `Forbidden` (it would lock its actor out).
    """
    if name is not None:
        check_display_name("name", name, limits.KEY_NAME_LENGTH_MAX)
    with transaction.atomic():
        row, rights = list_actions.locked_list(tenant), list_actions.rights_before(actor, tenant)
        known = history.of_group(tenant, public_id)
        group = queries.groups(tenant).filter(public_id=public_id).first()
        if group is not None and name is not None:
            raise InvalidRequest(f"name: the group {group.name!r} is there, and keeps its name")
        last = known.newest()
        chosen = last if version is None else known.version(version)
        if chosen is None or last is None:
            raise NotFound(f"group of principals {public_id[:64]!r} does not exist")
        days = limits_of(tenant).bin_days
        if group is None:
            check_in_time(f"the group of principals {public_id}", last.entry.at, days)
        known.check_restorable(chosen, days)
        members = history.members_in(chosen)
        missing = history.gone(tenant, members)
        if not leave_out_gone:
            _check_there(missing, f"version {chosen.number} of the group of principals {public_id}")
        wanted = sorted(set(members) - missing.keys())
        before = None if group is None else group.members
        if before == wanted and group is not None:
            return GroupRestored(row=row, group=group, left_out=missing)
        if group is None:
            group = _new_group(tenant, public_id, name or history.name_of_removed(last), wanted)
        else:
            group.members = wanted
            group.save(update_fields=["members"])
        audit.record(
            actor,
            tenant=tenant.public_id,
            action=history.GROUP_RESTORED,
            object_id=public_id,
            before={} if before is None else {"name": group.name, "members": before},
            after={"name": group.name, "members": wanted, "restored_version": chosen.number},
        )
        return GroupRestored(row=list_actions.list_changed(actor, row, rights), group=group, left_out=missing)


def _new_group(tenant: Tenant, public_id: str, name: str, members: list[str]) -> PrincipalGroup:
    try:
        with transaction.atomic():
            return PrincipalGroup.objects.create(
                public_id=public_id, tenant=tenant, name=name, members=members
            )
    except IntegrityError:
        raise AlreadyExists(
            f"name: the tenant has a group of principals called {name!r}; give another name"
        ) from None


# -- service accounts and keys --------------------------------------------------------------------------


def restore_account(
    actor: Actor, tenant: Tenant, public_id: str, *, name: str | None = None
) -> AccountRestored:
    """The service account that was deleted, with the entries and groups that named it then. Its keys stay revoked. If
    it is there, nothing changes. `name`: another one, where its name is taken.

    Raises `NotFound`, `AlreadyExists` (the name), `LimitExceeded` (too long ago, too many), `InvalidRequest` (the
    name), `Forbidden` (it would lock its actor out, or come back with what the actor's key may not).
    """
    if name is not None:
        check_display_name("name", name, limits.KEY_NAME_LENGTH_MAX)
    principal = f"{rules.ACCOUNT_KIND}{public_id}"
    with transaction.atomic():
        row, rights = list_actions.locked_list(tenant), list_actions.rights_before(actor, tenant)
        account = ServiceAccount.objects.filter(tenant=tenant, public_id=public_id).first()
        if account is None:
            raise NotFound(f"service account {public_id[:64]!r} does not exist")
        if account.ended_at is None:
            return AccountRestored(row=row, account=account)
        check_in_time(f"service account {public_id}", account.ended_at, limits_of(tenant).bin_days)
        removal = history.removal_of_account(tenant, public_id)
        before, account.name = account.name, account.name if name is None else name
        list_actions.check_new_account(tenant, account.name)
        account.ended_at = None
        account.save(update_fields=["name", "ended_at"])
        budget_queries.check_count(tenant)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="service_account.restored",
            object_id=public_id,
            before={"name": before},
            after={"name": account.name, "restored_version": removal.sequence},
        )
        entries, groups, left_out = [], [], []
        for change in history.gone_with(removal, principal):
            if change.action == history.ACL_DELETE:
                made, entry = _put(actor, tenant, change.object_id, history.acl_in(change))
                if made:
                    entries.append(entry)
                continue
            group = queries.groups(tenant).filter(public_id=change.object_id).first()
            if group is None:
                left_out.append(change.object_id)
            elif principal not in group.members:
                groups.append(_hold_again(actor, tenant, group, principal, change.sequence))
        if entries or groups:
            row = list_actions.list_changed(actor, row, rights)
        list_actions.check_restored(actor, tenant, account)
        return AccountRestored(
            row=row,
            account=account,
            entries=tuple(entries),
            groups=tuple(groups),
            left_out=tuple(left_out),
        )


def _hold_again(
    actor: Actor, tenant: Tenant, group: PrincipalGroup, principal: str, version: int
) -> PrincipalGroup:
    before, group.members = group.members, sorted({*group.members, principal})
    group.save(update_fields=["members"])
    audit.record(
        actor,
        tenant=tenant.public_id,
        action=history.GROUP_RESTORED,
        object_id=group.public_id,
        before={"name": group.name, "members": before},
        after={"name": group.name, "members": group.members, "restored_version": version},
    )
    return group


def restore_key(actor: Actor, key: ApiKey, *, expires_at: datetime | None = None) -> tuple[ApiKey, KeyText]:
    """A new key with the name, scopes and service account of one that was revoked or has expired, and its text. The old
    one stays as it is: its secret never works again. Without `expires_at` the new one ends when the old one would have,
    where that is still to come.

    Raises `InvalidRequest` (it is valid; it belongs to another principal), `NotFound` (its service account is gone),
    `LimitExceeded` (too long ago, too many keys), `Forbidden` (the actor may hold no keys).
    """
    with transaction.atomic():
        # First, as ending a service account does.
        Tenant.objects.select_for_update(no_key=True).get(pk=key.tenant_id)
        locked = (
            ApiKey.objects.select_for_update(no_key=True, of=("self",))
            .select_related("tenant")
            .get(pk=key.pk)
        )
        now = timezone.now()
        ended = [at for at in (locked.revoked_at, locked.expires_at) if at is not None and at <= now]
        if not ended:
            raise InvalidRequest(f"key {key.public_id} is valid; exchange it for a new one instead")
        check_in_time(f"key {key.public_id}", min(ended), limits_of(locked.tenant).bin_days)
        last = history.end_without_exchange(locked)
        made, text = keys.create_key(
            actor,
            locked.tenant,
            name=locked.name,
            expires_at=expires_at or (last if last is not None and last > now else None),
            scopes=[row.scope for row in locked.bindings.order_by("pk")],
            account=locked.service_account,
        )
        if (made.maker_id, made.service_account_id) != (locked.maker_id, locked.service_account_id):
            raise InvalidRequest(
                f"key {key.public_id} belongs to another principal, whose keys you do not make; make a new key instead"
            )
        audit.record(
            actor,
            tenant=locked.tenant.public_id,
            action="key.restored",
            object_id=made.public_id,
            after={"name": made.name, "scopes_of": locked.public_id},
        )
    return made, text
