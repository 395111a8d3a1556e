"""Reads tenants, people and keys: for a caller only in their own tenants, for the service by public id."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.errors import NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import TENANTS_PER_PERSON_MAX
from penstock.rules.credentials import secret_matches
from tenants import tokens
from tenants.credentials import peppers_for
from tenants.models import (
    AddressChange,
    ApiKey,
    Membership,
    OperatorToken,
    OrganisationMember,
    Person,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.roles import KEY_ROLES, TENANT_ROLES, VERIFYING_ROLES, OrganisationRole, Role, role_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """A tenant and what the person is in it, by their own role or their organisation's."""

    tenant: Tenant
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongs:
    """A person and what they are in a tenant."""

    person: Person
    role: Role
    direct: Role | None
    within: OrganisationRole | None
    """What they are in the tenant's organisation."""


def _columns(model: type[Model], name: str) -> str:
    return ", ".join(f'{name}."{field.column}"' for field in model._meta.concrete_fields)


# Every request of a person asks who they are and what they are in a tenant. These statements stand here because Django
# needs several times as long to make them of expressions as a database needs to answer them.
_TENANT, _PERSON, _SESSION = (each._meta.db_table for each in (Tenant, Person, Session))
_MEMBERSHIP, _MEMBER = (each._meta.db_table for each in (Membership, OrganisationMember))
_OF_SESSION = f"""
    SELECT {_columns(Person, "p")}
    FROM {_SESSION} s JOIN {_PERSON} p ON p.id = s.person_id
    WHERE s.token_hash = %s AND s.expires_at > %s AND p.is_active
"""
_WITH_ROLES = f"""
    SELECT {_columns(Tenant, "t")}, m.id AS joined, m.role AS direct, o.role AS within
    FROM {_TENANT} t
    JOIN {_PERSON} p ON p.id = %s AND p.is_active
    LEFT JOIN {_MEMBERSHIP} m ON m.tenant_id = t.id AND m.person_id = p.id
    LEFT JOIN {_MEMBER} o ON o.organisation_id = t.organisation_id AND o.person_id = p.id
"""
"""Tenants, each with the role that the person has in it themselves, since when, and that in its organisation. None for
a person who is not active.
"""
_BELONGING = f"{_WITH_ROLES} WHERE t.public_id = %s"
_ROLE_IN = f"{_WITH_ROLES} WHERE t.id = %s"
_BELONGINGS = f"""{_WITH_ROLES}
    WHERE t.id IN (
        SELECT tenant_id FROM {_MEMBERSHIP} WHERE person_id = %s
        UNION
        SELECT shared.id
        FROM {_MEMBER} o JOIN {_TENANT} shared ON shared.organisation_id = o.organisation_id
        WHERE o.person_id = %s
    )
    ORDER BY m.id IS NULL, m.id, t.id
"""


# -- who is calling -------------------------------------------------------------------------------------


def person_of_session(token: str) -> Person | None:
    """Whose session it is; None if there is none or it has ended."""
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    return next(iter(Person.objects.raw(_OF_SESSION, [tokens.token_hash(token), now])), None)


def operator_of(token: str) -> OperatorToken | None:
    """Whose operator's token it is; None if it is none or revoked."""
    return OperatorToken.objects.filter(token_hash=tokens.token_hash(token), revoked_at=None).first()


def operator(public_id: str) -> OperatorToken | None:
    """The operator's token of that id; None if there is none or it is revoked."""
    return OperatorToken.objects.filter(public_id=public_id, revoked_at=None).first()


def operators() -> QuerySet[OperatorToken]:
    """Every operator's token that is not revoked."""
    return OperatorToken.objects.filter(revoked_at=None)


def key_of(text: KeyText) -> ApiKey | None:
    """The key of this text, whether or not it may still be used; None if there is none or the secret is wrong."""
    row, is_right = key_shown(text)
    return row if is_right else None


def key_shown(text: KeyText) -> tuple[ApiKey | None, bool]:
    """The key that the text names, and whether its secret is right. Both take the same time for any text."""
    row = (
        ApiKey.objects.select_related("tenant", "maker", "service_account").filter(key_id=text.key_id).first()
    )
    matches = secret_matches(
        peppers_for(row.pepper_version) if row is not None else {},
        pepper_version=row.pepper_version if row is not None else 0,
        stored_hmac=row.secret_hmac if row is not None else "",
        secret=text.secret,
    )
    return row, matches


def has_account(email: str) -> bool:
    """Whether a person has that address (lower case). No answer to a stranger shows it."""
    return Person.objects.filter(email=email).exists()


def is_kept(email: str, *, but: Person | None = None) -> bool:
    """Whether the address is kept for a person who left it and can still have it back; `but` is not asked for."""
    rows = AddressChange.objects.filter(before=email, undo_until__gt=timezone.now(), ended_at=None)
    return (rows if but is None else rows.exclude(person=but)).exists()


# -- tenants --------------------------------------------------------------------------------------------


def belongings(person: Person) -> list[Belonging]:
    """The tenants of a person: first those that they joined, then those of their organisations."""
    return list(_belongings(Tenant.objects.raw(_BELONGINGS, [person.pk] * 3)))


def meant(every: Sequence[Belonging]) -> Sequence[Belonging]:
    """The tenants that a person may mean who names none: open ones. A closed one is meant only where all are closed."""
    return [belonging for belonging in every if belonging.tenant.closed_at is None] or every


def belonging(person: Person, tenant: str) -> Belonging:
    """One tenant of a person. Raises `NotFound`, for another's tenant too."""
    found = next(_belongings(Tenant.objects.raw(_BELONGING, [person.pk, tenant])), None)
    if found is None:
        raise tenant_missing(tenant)
    return found


def role_in(tenant: Tenant, person: Person) -> Role | None:
    """What the person is in the tenant now; None = they do not belong to it."""
    found = next(_belongings(Tenant.objects.raw(_ROLE_IN, [person.pk, tenant.pk])), None)
    return None if found is None else found.role


def tenants_of(person: Person) -> QuerySet[Tenant]:
    """The tenants of a person, and those of their organisations, for a list."""
    own = Membership.objects.filter(person=person).values("tenant")
    shared = OrganisationMember.objects.filter(person=person).values("organisation")
    return Tenant.objects.filter(Q(pk__in=own) | Q(organisation__in=shared))


def tenants_owned(person: Person) -> QuerySet[Tenant]:
    """The tenants that a person owns themselves, alone or with others: not those of their organisations."""
    return Tenant.objects.filter(memberships__person=person, memberships__role=Role.OWNER)


def tenants_max_of(person: Person) -> int:
    """How many tenants the person may own."""
    return TENANTS_PER_PERSON_MAX if person.tenants_max is None else person.tenants_max


def people(tenant: Tenant) -> QuerySet[Person]:
    """The people of a tenant, and those of its organisation."""
    own = Membership.objects.filter(tenant=tenant).values("person")
    shared = OrganisationMember.objects.filter(organisation__tenants=tenant).values("person")
    return Person.objects.filter(Q(pk__in=own) | Q(pk__in=shared))


def people_by_organisation(tenant: Tenant) -> QuerySet[OrganisationMember]:
    """The members of the tenant's organisation: each has a role in the tenant by theirs."""
    return OrganisationMember.objects.filter(organisation__tenants=tenant).select_related("person")


def people_with_roles(tenant: Tenant, among: Collection[Role] = tuple(Role)) -> list[Belongs]:
    """The people of a tenant who are active and have one of these roles in it: first those who joined it themselves."""
    person: Any = OuterRef("pk")
    own = Membership.objects.filter(tenant=tenant, person=person, person__is_active=True)
    shared = OrganisationMember.objects.filter(
        organisation__tenants=tenant, person=person, person__is_active=True
    )
    rows = people(tenant).annotate(
        joined=Subquery(own.values("pk")[:1]),
        direct=Subquery(own.values("role")[:1]),
        within=Subquery(shared.values("role")[:1]),
    )
    found = []
    for row in rows.order_by(F("joined").asc(nulls_last=True), "pk"):
        direct, within = _read(row)
        role = role_of(direct, within)
        if role is not None and role in among:
            found.append(Belongs(person=row, role=role, direct=direct, within=within))
    return found


def _read(row: Any) -> tuple[Role | None, OrganisationRole | None]:
    return (
        None if row.direct is None else Role(row.direct),
        None if row.within is None else OrganisationRole(row.within),
    )


def _belongings(rows: Iterable[Any]) -> Iterator[Belonging]:
    for row in rows:
        role = role_of(*_read(row))
        if role is not None:
            yield Belonging(tenant=row, role=role)


def all_tenants() -> QuerySet[Tenant]:
    """Every tenant, the system's included: for operators and the service itself."""
    return Tenant.objects.all()


def tenant_by_id(tenant: str) -> Tenant:
    """Any tenant: for operators and the service itself. Raises `NotFound`."""
    row = Tenant.objects.filter(public_id=tenant).first()
    if row is None:
        raise tenant_missing(tenant)
    return row


def system_tenant() -> Tenant | None:
    """The tenant of the service itself, once it is made."""
    return Tenant.objects.filter(public_id=SYSTEM_TENANT).first()


def tenant_missing(tenant: str) -> NotFound:
    return NotFound(f"tenant {tenant[:64]!r} does not exist")


# -- keys -----------------------------------------------------------------------------------------------


def keys(tenant: Tenant) -> QuerySet[ApiKey]:
    """All keys of a tenant, revoked ones included."""
    return ApiKey.objects.filter(tenant=tenant).select_related("tenant")


def key(tenant: Tenant, public_id: str) -> ApiKey:
    """One key of a tenant. Raises `NotFound`."""
    row = keys(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"key {public_id[:64]!r} does not exist")
    return row


def verifying_keys(tenant: Tenant) -> QuerySet[ApiKey]:
    """Keys of the tenant that prove invoices and do nothing else, revoked ones included."""
    return keys(tenant).filter(verifies=True)


def keys_made_by(tenant: Tenant, person: Person) -> QuerySet[ApiKey]:
    """Valid keys of the tenant whose maker is this person."""
    return keys(tenant).filter(maker=person, revoked_at=None).exclude(expires_at__lte=timezone.now())


def counted_keys(tenant: Tenant) -> QuerySet[ApiKey]:
    """Valid keys of the tenant's people and service accounts: those that its limit counts, not the service's own."""
    owned = Q(maker__isnull=False) | Q(service_account__isnull=False)
    return keys(tenant).filter(owned, revoked_at=None).exclude(expires_at__lte=timezone.now())


def keys_beyond_their_makers() -> QuerySet[ApiKey]:
    """Keys of every tenant, not revoked, whose maker may hold no keys there any more: for reconciliation."""
    any_key, verifying = _of_makers(KEY_ROLES), _of_makers((*KEY_ROLES, *VERIFYING_ROLES))
    beyond = (Q(verifies=False) & ~any_key) | (Q(verifies=True) & ~verifying)
    return keys_of_all().filter(beyond, maker__isnull=False, revoked_at=None)


def _of_makers(roles: Collection[Role]) -> Q:
    """Keys whose maker has one of these roles, in the tenant or by its organisation."""
    may = Membership.objects.filter(
        tenant=OuterRef("tenant"), person=OuterRef("maker"), person__is_active=True, role__in=roles
    )
    also = OrganisationMember.objects.filter(
        organisation__tenants=OuterRef("tenant"),
        person=OuterRef("maker"),
        person__is_active=True,
        role__in=[role for role, of_tenant in TENANT_ROLES.items() if of_tenant in roles],
    )
    return Q(Exists(may)) | Q(Exists(also))


def key_for_delivery(public_id: str) -> ApiKey:
    """A key by its id: for the service itself."""
    return ApiKey.objects.select_related("tenant", "service_account", "maker").get(public_id=public_id)


def keys_of_all() -> QuerySet[ApiKey]:
    """Keys of every tenant: for reconciliation."""
    return ApiKey.objects.select_related("tenant", "service_account", "maker")


def service_accounts(tenant: Tenant) -> QuerySet[ServiceAccount]:
    """The service accounts of a tenant."""
    return ServiceAccount.objects.filter(tenant=tenant, ended_at=None)


def service_account(tenant: Tenant, public_id: str) -> ServiceAccount:
    """One of them. Raises `NotFound`."""
    row = service_accounts(tenant).filter(public_id=public_id).first()
    if row is None:
        raise NotFound(f"service account {public_id[:64]!r} does not exist")
    return row
