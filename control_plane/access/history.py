"""What a tenant's access list, groups and service accounts were, read from the audit log; and what is gone of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from control_plane.access import queries
from control_plane.access.models import AclEntry, PrincipalGroup
from control_plane.audit import queries as audit
from control_plane.audit.models import AuditEntry
from control_plane.audit.versions import Changes, Field, Version
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.rules import access as rules
from penstock.rules.access import Acl
from penstock.rules.access_document import acl_of_document
from quotas.queries import limits_of
from tenants.models import ApiKey, ServiceAccount, Tenant
from tenants.queries import keys, people, service_accounts

ACL_CREATE, ACL_DELETE, ACL_RESTORED = "acl.create", "acl.delete", "acl.restored"
DEFAULT, LIST_RESTORED = "access.default", "access.restored"
GROUP_CREATE, GROUP_CHANGE = "principal_group.create", "principal_group.change"
GROUP_DELETE, GROUP_RESTORED = "principal_group.delete", "principal_group.restored"
ACCOUNT_DELETE, KEY_REVOKE = "service_account.delete", "key.revoke"
KEY_END = "key.end"
REMOVALS = (ACL_DELETE, GROUP_DELETE, ACCOUNT_DELETE, KEY_REVOKE)
CHANGES_UNDONE_MAX = 20_000
"""Changes of a list that are gone back through for one restore: twice as many as a list has entries."""


# -- histories ------------------------------------------------------------------------------------------


def of_list(tenant: Tenant) -> Changes:
    """The changes of the list's entries and default."""
    return Changes(
        tenant=tenant.public_id,
        called="the access list",
        actions=(ACL_CREATE, ACL_DELETE, ACL_RESTORED, DEFAULT, LIST_RESTORED),
    )


def of_group(tenant: Tenant, public_id: str) -> Changes:
    """The changes of a group of principals, which may be gone. Raises `NotFound`: the tenant never had it."""
    found = Changes(
        tenant=tenant.public_id,
        called=f"the group of principals {public_id[:64]}",
        actions=(GROUP_CREATE, GROUP_CHANGE, GROUP_DELETE, GROUP_RESTORED),
        object_id=public_id,
    )
    if not found.rows().exists():
        raise NotFound(f"group of principals {public_id[:64]!r} does not exist")
    return found


def members_in(version: Version) -> list[str]:
    """The group's members after that change; of its removal, those that it had."""
    return _texts(_state(version).get("members"), version)


def _state(version: Version) -> Mapping[str, Any]:
    entry = version.entry
    state: Mapping[str, Any] = entry.before if entry.action == GROUP_DELETE else entry.after
    return state


def _texts(value: object, version: Version) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidRequest(f"version {version.number}: the audit log does not say the members of it")
    return value


def name_of_removed(version: Version) -> str:
    """The name of a group in the version of its removal."""
    return str(version.entry.before.get("name", ""))


# -- the list at a time ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ListThen:
    """A list as it was after a change. Its groups are not part of it: they have their own history."""

    version: int
    replaced_at: datetime | None
    """When the next change was made; None: it is so now."""
    default: str
    acls: Mapping[str, Acl]
    """By id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """What has to be done to a list, for it to be as it was."""

    then: ListThen
    add: Mapping[str, Acl]
    """By the id that the entry had."""
    remove: tuple[AclEntry, ...]
    default_now: str
    gone: Mapping[str, str]
    """Principals of `add` that are not the tenant's any more, with what people called them."""

    @property
    def default(self) -> str:
        """The one to set; empty: it is the same."""
        return "" if self.then.default == self.default_now else self.then.default

    @property
    def changes(self) -> bool:
        return bool(self.add or self.remove or self.default)


def version_at(tenant: Tenant, at: datetime) -> int:
    """The number of the tenant's last change until then. Raises `InvalidRequest`: there is none yet."""
    if at > timezone.now():
        raise InvalidRequest(f"at: {at.isoformat()} is not past")
    rows = audit.entries(tenant.public_id).filter(at__lte=at).order_by("-at", "-sequence")
    number = rows.values_list("sequence", flat=True).first()
    if number is None:
        raise InvalidRequest(f"at: {at.isoformat()} is before the audit log of the tenant begins")
    return number


def list_then(tenant: Tenant, number: int) -> ListThen:
    """The list as it was after the change of that number in the audit log, of whatever the change was. All later
    changes of the list are taken back from what it is now. Raises `NotFound` (the log has no such number),
    `LimitExceeded` (too many changes since).
    """
    if audit.hash_at(tenant.public_id, number) is None:
        raise NotFound(f"version {number} of the access list does not exist")
    later = of_list(tenant).rows().filter(sequence__gt=number)
    undone = list(later.order_by("-sequence")[: CHANGES_UNDONE_MAX + 1])
    if len(undone) > CHANGES_UNDONE_MAX:
        raise LimitExceeded(
            f"version: over {CHANGES_UNDONE_MAX} changes of the access list since version {number}, which are too many"
            " to go back through at once; restore a later version first"
        )
    known = queries.access_of(tenant)
    default = rules.ALLOW if known is None else known.default
    acls = {row.public_id: row.acl for row in queries.acls(tenant)}
    for entry in undone:
        if entry.action == DEFAULT:
            default = str(entry.before.get("default"))
        elif entry.action in (ACL_CREATE, ACL_RESTORED):
            acls.pop(entry.object_id, None)
        elif entry.action == ACL_DELETE:
            acls[entry.object_id] = acl_in(entry)
    return ListThen(
        version=number,
        replaced_at=undone[-1].at if undone else None,
        default=default,
        acls=acls,
    )


def way_back(tenant: Tenant, then: ListThen, fingerprint_of: Callable[[Acl], str]) -> WayBack:
    """What restoring the list would change now."""
    known = queries.access_of(tenant)
    rows = {row.fingerprint: row for row in queries.acls(tenant).order_by("pk")}
    wanted = {fingerprint_of(acl): (public_id, acl) for public_id, acl in then.acls.items()}
    add = {public_id: acl for text, (public_id, acl) in wanted.items() if text not in rows}
    return WayBack(
        then=then,
        add=add,
        remove=tuple(row for text, row in rows.items() if text not in wanted),
        default_now=rules.ALLOW if known is None else known.default,
        gone=gone(tenant, {acl.principal for acl in add.values()}),
    )


def acl_in(entry: AuditEntry) -> Acl:
    """The entry of a list that was made or removed. Raises `InvalidRequest` where the log does not say."""
    state = entry.before if entry.action == ACL_DELETE else entry.after
    written = state.get("acl")
    if written is None:
        raise InvalidRequest(
            f"entry {entry.object_id}: the audit log says it in words only ({state.get('entry')}); add it again"
        )
    return acl_of_document(written)


def removal_of_acl(tenant: Tenant, public_id: str) -> AuditEntry:
    """When the entry was removed last. Raises `NotFound`: it never was."""
    return _removal(tenant, public_id, ACL_DELETE, f"entry {public_id[:64]!r} of the access list")


def removal_of_account(tenant: Tenant, public_id: str) -> AuditEntry:
    """When the service account was deleted last. Raises `NotFound`: it never was."""
    return _removal(tenant, public_id, ACCOUNT_DELETE, f"service account {public_id[:64]!r}")


def _removal(tenant: Tenant, public_id: str, action: str, called: str) -> AuditEntry:
    rows = audit.entries(tenant.public_id).filter(object_id=public_id, action=action)
    entry = rows.order_by("-sequence").first()
    if entry is None:
        raise NotFound(f"{called} does not exist")
    return entry


def gone_with(removal: AuditEntry, principal: str) -> list[AuditEntry]:
    """The removals of entries and members that one of the principal itself brought along, in their order: they follow
    it in the log, because one transaction writes them under the log's lock."""
    rows = audit.entries(removal.tenant).filter(sequence__gt=removal.sequence).order_by("sequence")
    found = []
    for entry in rows[:CHANGES_UNDONE_MAX].iterator():
        written = entry.before.get("acl")
        if entry.action == ACL_DELETE and isinstance(written, dict):
            belongs = written.get("principal") == principal
        else:
            belongs = entry.action == GROUP_CHANGE and principal in entry.before.get("members", ())
        if not belongs:
            break
        found.append(entry)
    return found


# -- keys -----------------------------------------------------------------------------------------------


def end_without_exchange(key: ApiKey) -> datetime | None:
    """When the key ends, or would have, had it never been exchanged; None: never."""
    rows = audit.entries(key.tenant.public_id).filter(object_id=key.public_id, action=KEY_END)
    first = rows.order_by("sequence").first()
    if first is None:
        return key.expires_at
    before = first.before.get("expires_at")
    return datetime.fromisoformat(before) if isinstance(before, str) else None


# -- who is gone ----------------------------------------------------------------------------------------


def gone(tenant: Tenant, principals: Collection[str]) -> dict[str, str]:
    """Those that entries and groups cannot name any more, with what people called them."""
    missing = sorted(set(principals) - queries.known_principals(tenant))
    return {principal: _called(tenant, principal) for principal in missing}


def called(tenant: Tenant, principals: Collection[str]) -> dict[str, str]:
    """What service accounts are called, deleted ones too, by principal."""
    ids = [one.removeprefix(rules.ACCOUNT_KIND) for one in principals if one.startswith(rules.ACCOUNT_KIND)]
    rows = ServiceAccount.objects.filter(tenant=tenant, public_id__in=ids)
    return {f"{rules.ACCOUNT_KIND}{row.public_id}": row.name for row in rows}


def _called(tenant: Tenant, principal: str) -> str:
    kind, _, public_id = principal.partition(":")
    if f"{kind}:" == rules.ACCOUNT_KIND:
        account = ServiceAccount.objects.filter(tenant=tenant, public_id=public_id).first()
        return "" if account is None else account.name
    if f"{kind}:" == rules.GROUP_KIND:
        rows = audit.entries(tenant.public_id).filter(object_id=public_id, action=GROUP_DELETE)
        entry = rows.order_by("-sequence").first()
        return "" if entry is None else str(entry.before.get("name", ""))
    return ""


def in_words(missing: Mapping[str, str], most: int = 5) -> str:
    """Those principals in one line."""
    words = [f"{principal} ({name})" if name else principal for principal, name in missing.items()]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


# -- what can be restored -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Something that was removed from what a tenant's principals may do, and can be restored."""

    entry: AuditEntry
    until: datetime
    """How long."""
    text: str
    """What it is, for people."""

    @property
    def kind(self) -> str:
        """`acl`, `principal_group`, `service_account` or `key`."""
        return self.entry.object_kind


def removed(tenant: Tenant, below: int | None, most: int) -> list[Removed]:
    """At most so many, from the last removal of which is below that number on, the newest first. What has come back is
    not among them; of keys, only those of people and service accounts, whose scopes a new key gets."""
    days = limits_of(tenant).bin_days
    if not days:
        return []
    rows = audit.entries(tenant.public_id).filter(
        action__in=REMOVALS, at__gt=timezone.now() - timedelta(days=days)
    )
    again: QuerySet[AuditEntry] = audit.entries(tenant.public_id).filter(
        object_id=OuterRef("object_id"), action=OuterRef("action"), sequence__gt=OuterRef("sequence")
    )
    services = keys(tenant).filter(maker=None, service_account=None)
    for present in (
        AclEntry.objects.filter(tenant=tenant),
        PrincipalGroup.objects.filter(tenant=tenant),
        service_accounts(tenant),
        services,
    ):
        rows = rows.exclude(object_id__in=present.values("public_id"))
    if below is not None:
        rows = rows.filter(sequence__lt=below)
    return [
        Removed(entry=entry, until=entry.at + timedelta(days=days), text=_text_of(entry))
        for entry in rows.filter(~Exists(again)).order_by("-sequence")[:most]
    ]


def _text_of(entry: AuditEntry) -> str:
    if entry.action == ACL_DELETE:
        return str(entry.before.get("entry", ""))
    name = str(entry.before.get("name", ""))
    if entry.action == GROUP_DELETE:
        members = entry.before.get("members", ())
        return f"{name} with {len(members)} member{'' if len(members) == 1 else 's'}"
    return name


def people_called(tenant: Tenant) -> dict[str, str]:
    """Public id -> e-mail address of the tenant's people, for pages."""
    return {row.public_id: row.email for row in people(tenant)}


def fields_in_words(fields: Collection[Field]) -> list[Field]:
    """Without what is said twice: an entry of a list is for people in words."""
    return [field for field in fields if field.field != "acl"]
