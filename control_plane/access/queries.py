"""Reads what keys and principals may do: scopes, owners, access lists, and the answers that follow from them."""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone

from control_plane.access.models import AclEntry, KeyBinding, PrincipalGroup, TenantAccessList
from penstock.contract.errors import NotFound
from penstock.rules import access as rules
from penstock.rules.access import Access, AccessList, Question
from penstock.rules.access_gains import is_unlimited, right_by_new_name
from penstock.rules.access_hides import hidden, hint, may_read
from tenants.models import ApiKey, Person, ServiceAccount, Tenant
from tenants.queries import people, people_with_roles
from tenants.roles import KEY_ROLES

# -- keys -----------------------------------------------------------------------------------------------


def bindings(key: ApiKey) -> list[KeyBinding]:
    """The scopes of the key; none = it may do everything that its principal may."""
    return sorted(key.bindings.all(), key=lambda binding: binding.pk)


def scopes_of(key: ApiKey) -> list[rules.Scope]:
    """The same as the rules take them."""
    return [binding.scope for binding in bindings(key)]


def owner_of(key: ApiKey) -> str:
    """The principal that access lists name: the key's service account, else the person behind it, else the service."""
    if key.service_account is not None:
        return f"{rules.ACCOUNT_KIND}{key.service_account.public_id}"
    return rules.SERVICE if key.maker is None else f"{rules.PERSON_KIND}{key.maker.public_id}"


# -- access lists ---------------------------------------------------------------------------------------


def access_of(tenant: Tenant) -> TenantAccessList | None:
    """The tenant's access list as an object that is delivered; None: it has set nothing."""
    return TenantAccessList.objects.filter(tenant=tenant).select_related("tenant").first()


def access_for_delivery(public_id: str) -> TenantAccessList:
    """One of any tenant: for the service itself."""
    return TenantAccessList.objects.select_related("tenant").get(public_id=public_id)


def accesses_of_all() -> QuerySet[TenantAccessList]:
    """Those of every tenant: for reconciliation."""
    return TenantAccessList.objects.select_related("tenant")


def access_list(tenant: Tenant) -> AccessList:
    """All that the tenant's access list says."""
    known = access_of(tenant)
    return AccessList(
        default=rules.ALLOW if known is None else known.default,
        acls=tuple(row.acl for row in acls(tenant).order_by("pk")),
        members=tuple(
            (f"{rules.GROUP_KIND}{row.public_id}", tuple(row.members))
            for row in groups(tenant).order_by("pk")
        ),
    )


def acls(tenant: Tenant) -> QuerySet[AclEntry]:
    """The entries of a tenant's access list."""
    return AclEntry.objects.filter(tenant=tenant)


def acl(tenant: Tenant, public_id: str) -> AclEntry:
    """One of them. Raises `NotFound`."""
    row = acls(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"entry {public_id[:64]!r} of the access list does not exist")
    return row


def groups(tenant: Tenant) -> QuerySet[PrincipalGroup]:
    """The tenant's groups of principals."""
    return PrincipalGroup.objects.filter(tenant=tenant)


def group(tenant: Tenant, public_id: str) -> PrincipalGroup:
    """One of them. Raises `NotFound`."""
    row = groups(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"group of principals {public_id[:64]!r} does not exist")
    return row


def principals(tenant: Tenant) -> dict[str, str]:
    """Everyone who may hold keys of the tenant: principal -> e-mail address or name of a service account."""
    names = {
        f"{rules.PERSON_KIND}{one.person.public_id}": one.person.email
        for one in people_with_roles(tenant, among=KEY_ROLES)
    }
    for account in ServiceAccount.objects.filter(tenant=tenant, ended_at=None).order_by("pk"):
        names[f"{rules.ACCOUNT_KIND}{account.public_id}"] = account.name
    return names


def known_principals(tenant: Tenant) -> set[str]:
    """Everyone whom entries and groups may name: the tenant's people, service accounts and groups, and everyone."""
    known = {rules.EVERYONE}
    known |= {f"{rules.PERSON_KIND}{one}" for one in people(tenant).values_list("public_id", flat=True)}
    known |= {
        f"{rules.ACCOUNT_KIND}{one}"
        for one in ServiceAccount.objects.filter(tenant=tenant, ended_at=None).values_list(
            "public_id", flat=True
        )
    }
    known |= {f"{rules.GROUP_KIND}{one}" for one in groups(tenant).values_list("public_id", flat=True)}
    return known


def bearers(tenant: Tenant) -> list[str]:
    """Every person and service account of the tenant: people too who hold no key in the role that they have now."""
    kinds = (rules.PERSON_KIND, rules.ACCOUNT_KIND)
    return sorted(principal for principal in known_principals(tenant) if principal.startswith(kinds))


def group_names(tenant: Tenant) -> dict[str, str]:
    """The tenant's groups of principals: principal -> name."""
    return {f"{rules.GROUP_KIND}{row.public_id}": row.name for row in groups(tenant).order_by("name")}


GIVES_NO_MORE = "; with a key it gives no right that it does not have itself"
"""What an answer adds for a principal that may change the list, while something is denied to it."""

# -- answers --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """May it be done, and why."""

    principal: str
    name: str
    """The principal's, for people: an e-mail address or the name of a service account."""
    allowed: bool
    reason: str
    entry: AclEntry | None
    """That decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAnswer:
    """May a key do it, and why: its scopes and its principal must both grant it."""

    allowed: bool
    scopes_grant: bool
    of_principal: Answer
    reason: str


class KeyRights:
    """What a key may do now, from one address."""

    def __init__(self, key: ApiKey, address: str) -> None:
        self._scopes = scopes_of(key)
        self.owner = owner_of(key)
        self._address = address
        known = access_of(key.tenant)
        self._access = None if known is None else Access(access_list(key.tenant))

    @property
    def scoped(self) -> bool:
        """It is limited to a part of what its principal may."""
        return bool(self._scopes)

    @property
    def visible_topics(self) -> "VisibleTopics | None":
        """Which topics the key may describe, by name; None = all."""
        if not self._scopes and self._access is None:
            return None
        return VisibleTopics(self)

    def hint(self, resource: str, name: str) -> str:
        """Words behind "does not exist", for callers who may know that the access list hides names; else empty. They
        are the same for a name that exists and for one that does not.
        """
        if self._access is None:
            return ""
        return hint(self._access, self.owner, resource, name, self._address, scoped=self.scoped)

    def hidden(self, resource: str) -> str:
        """Things of this kind that the access list hides from the key, and by what; empty: none, or it may not know."""
        if self._access is None or not may_read(self._access, self.owner, self._address, scoped=self.scoped):
            return ""
        return hidden(self._access, self.owner, resource)

    def principal_allows(self, operation: str, resource: str, name: str) -> bool:
        """May its principal do it?"""
        if self._access is None:
            return True
        asked = Question(
            principal=self.owner, operation=operation, resource=resource, name=name, address=self._address
        )
        return self._access.decide(asked).allowed

    def gained_by_name(self, old: str, new: str) -> Question | None:
        """A right that its principal would have on a topic under a new name and has not under its old one."""
        if self._access is None or self.owner == rules.SERVICE:
            return None
        return right_by_new_name(self._access.rules, self.owner, rules.TOPIC, old, new)

    def allows(self, operation: str, resource: str, name: str) -> bool:
        """May the key do it?"""
        return rules.scopes_grant(self._scopes, operation, resource, name) and self.principal_allows(
            operation, resource, name
        )


class VisibleTopics:
    """The topics of a tenant that a key may describe: called with a name, it says whether that is one of them."""

    def __init__(self, rights: KeyRights) -> None:
        self._rights = rights

    def __call__(self, name: str) -> bool:
        return self._rights.allows(rules.DESCRIBE, rules.TOPIC, name)

    def hint(self, name: str) -> str:
        """Words behind "topic … does not exist", as `KeyRights.hint` gives them."""
        return self._rights.hint(rules.TOPIC, name)


def answer_for_key(key: ApiKey, operation: str, resource: str, name: str, address: str) -> KeyAnswer:
    """May the key do this from there, and why not?"""
    asked = rules.asked_of_principal(operation)
    found = answer_for(key.tenant, owner_of(key), asked, resource, name, address)
    granted = rules.scopes_grant(scopes_of(key), operation, resource, name)
    why = found.reason
    valid = True
    if key.revoked_at is not None:
        valid, why = False, f"the key was revoked at {key.revoked_at.isoformat()}"
    elif key.expires_at is not None and key.expires_at <= timezone.now():
        valid, why = False, f"the key expired at {key.expires_at.isoformat()}"
    elif key.tenant.closed_at is not None:
        valid, why = False, "the tenant is closed"
    elif key.tenant.suspended:
        valid, why = False, "the tenant is suspended"
    elif scopes_of(key) and (resource == rules.TENANT or operation in (rules.CREATE, rules.ALTER)):
        # As the table of roles has it for bound keys.
        valid, why = (
            False,
            f"a key with scopes does not {operation} a {resource}, whatever they say: use one without",
        )
    elif not granted:
        valid, why = False, f"no scope of the key grants {operation} of this {resource}"
    return KeyAnswer(allowed=valid and found.allowed, scopes_grant=granted, of_principal=found, reason=why)


def answer_for(
    tenant: Tenant, principal: str, operation: str, resource: str, name: str, address: str
) -> Answer:
    """May the principal do this from there, and why not?"""
    return _answers(tenant, {principal: _name_of(tenant, principal)}, operation, resource, name, address)[0]


def person_may(tenant: Tenant, person: Person, operation: str, name: str, address: str) -> bool:
    """May the person do it to the topic from there, by the tenant's access list?"""
    asked = Question(
        principal=f"{rules.PERSON_KIND}{person.public_id}",
        operation=operation,
        resource=rules.TOPIC,
        name=name,
        address=address,
    )
    return access_of(tenant) is None or Access(access_list(tenant)).decide(asked).allowed


def who_may(tenant: Tenant, operation: str, resource: str, name: str, address: str) -> list[Answer]:
    """Everyone who may hold keys of the tenant, each with the answer: those who may come first."""
    found = _answers(tenant, principals(tenant), operation, resource, name, address)
    return sorted(found, key=lambda answer: not answer.allowed)


def _answers(
    tenant: Tenant, names: dict[str, str], operation: str, resource: str, name: str, address: str
) -> list[Answer]:
    rules.check_resource(resource, name, resource != rules.TENANT, (operation,))
    rows = {row.acl: row for row in acls(tenant).order_by("pk")}
    ready = Access(access_list(tenant))
    manages = (operation, resource) == (rules.ALTER, rules.TENANT)
    answers = []
    for principal, called in names.items():
        decision = ready.decide(
            Question(principal=principal, operation=operation, resource=resource, name=name, address=address)
        )
        bounded = "" if is_unlimited(ready.rules, principal) else GIVES_NO_MORE
        answers.append(
            Answer(
                principal=principal,
                name=called,
                allowed=decision.allowed,
                reason=decision.reason + (bounded if decision.allowed and manages else ""),
                entry=None if decision.acl is None else rows.get(decision.acl),
            )
        )
    return answers


def _name_of(tenant: Tenant, principal: str) -> str:
    """Raises `NotFound` for a principal that is not the tenant's."""
    if principal == rules.SERVICE:
        return "the service"
    kind, _, public_id = principal.partition(":")
    if kind == "person":
        row = people(tenant).filter(public_id=public_id).first()
        if row is not None:
            return row.email
    elif kind == "service_account":
        account = ServiceAccount.objects.filter(tenant=tenant, public_id=public_id).first()
        if account is not None:
            return account.name
    raise NotFound(f"principal {principal[:64]!r} does not exist")
