"""Reads tenants, people and keys: for a caller only in their own tenants, for the service by public id."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet
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
    Person,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.roles import KEY_ROLES, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """A tenant and what the person is in it."""

    tenant: Tenant
    role: Role


# -- who is calling -------------------------------------------------------------------------------------


def person_of_session(token: str) -> Person | None:
    """Whose session it is; None if there is none or it has ended."""
    session = (
        Session.objects.select_related("person")
        .filter(token_hash=tokens.token_hash(token), expires_at__gt=timezone.now(), person__is_active=True)
        .first()
    )
    return None if session is None else session.person


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
    """The tenants of a person."""
    rows = Membership.objects.filter(person=person).select_related("tenant").order_by("pk")
    return [Belonging(tenant=row.tenant, role=Role(row.role)) for row in rows]


def belonging(person: Person, tenant: str) -> Belonging:
    """One tenant of a person. Raises `NotFound`, for another's tenant too."""
    row = Membership.objects.filter(person=person, tenant__public_id=tenant).select_related("tenant").first()
    if row is None:
        raise tenant_missing(tenant)
    return Belonging(tenant=row.tenant, role=Role(row.role))


def role_in(tenant: Tenant, person: Person) -> Role | None:
    """What the person is in the tenant now; None = they do not belong to it."""
    row = Membership.objects.filter(tenant=tenant, person=person, person__is_active=True).first()
    return None if row is None else Role(row.role)


def tenants_of(person: Person) -> QuerySet[Tenant]:
    """The tenants of a person, for a list."""
    return Tenant.objects.filter(memberships__person=person)


def tenants_owned(person: Person) -> QuerySet[Tenant]:
    """The tenants that a person owns, alone or with others."""
    return Tenant.objects.filter(memberships__person=person, memberships__role=Role.OWNER)


def tenants_max_of(person: Person) -> int:
    """How many tenants the person may own."""
    return TENANTS_PER_PERSON_MAX if person.tenants_max is None else person.tenants_max


def people(tenant: Tenant) -> QuerySet[Person]:
    """The people of a tenant."""
    return Person.objects.filter(memberships__tenant=tenant)


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


def keys_made_by(tenant: Tenant, person: Person) -> QuerySet[ApiKey]:
    """Valid keys of the tenant whose maker is this person."""
    return keys(tenant).filter(maker=person, revoked_at=None).exclude(expires_at__lte=timezone.now())


def counted_keys(tenant: Tenant) -> QuerySet[ApiKey]:
    """Valid keys of the tenant's people and service accounts: those that its limit counts, not the service's own."""
    owned = Q(maker__isnull=False) | Q(service_account__isnull=False)
    return keys(tenant).filter(owned, revoked_at=None).exclude(expires_at__lte=timezone.now())


def keys_beyond_their_makers() -> QuerySet[ApiKey]:
    """Keys of every tenant, not revoked, whose maker may hold no keys there any more: for reconciliation."""
    may = Membership.objects.filter(
        tenant=OuterRef("tenant"), person=OuterRef("maker"), person__is_active=True, role__in=KEY_ROLES
    )
    return keys_of_all().filter(~Exists(may), maker__isnull=False, revoked_at=None)


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
