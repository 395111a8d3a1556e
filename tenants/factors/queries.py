"""Reads the second factors of people."""

from allauth.mfa.models import Authenticator
from django.db.models import OuterRef, QuerySet
from django.utils import timezone

from penstock.contract.errors import Forbidden, NotFound
from tenants.models import Person, Tenant
from tenants.queries import tenants_of

Type = Authenticator.Type
_PREFIX = "sf_"
_DIGITS_MAX = 18
PROOFS = (Type.TOTP, Type.WEBAUTHN)
"""What stands for itself; recovery codes are there only beside one of these."""


def factors(person: Person) -> QuerySet[Authenticator]:
    """The person's codes and passkeys, without recovery codes."""
    rows: QuerySet[Authenticator] = Authenticator.objects.filter(user=person, type__in=PROOFS)
    return rows.order_by("pk")


def rows_of(person: OuterRef) -> QuerySet[Authenticator]:
    """As `factors`, of the person of an outer query."""
    rows: QuerySet[Authenticator] = Authenticator.objects.filter(user=person, type__in=PROOFS)
    return rows


def is_let_in(tenant: Tenant, person: Person) -> bool:
    """Whether the tenant lets the person in: always, or with a second factor only."""
    since = tenant.factors_from
    return since is None or since > timezone.now() or are_asked_for(person)


def not_let_in(tenant: Tenant) -> Forbidden:
    return Forbidden(
        f"{tenant.name} requires a second factor; add one on your account's page or at /v1/second-factors/codes"
    )


def tenants_that_require(person: Person) -> QuerySet[Tenant]:
    """The tenants of the person that require a second factor, also those whose time for it still runs."""
    return tenants_of(person).filter(factors_from__isnull=False).order_by("pk")


def factor(person: Person, number: int) -> Authenticator:
    """One of the person's. Raises `NotFound`, for another's too."""
    row = factors(person).filter(pk=number).first()
    if row is None:
        raise NotFound(f"second factor {number} does not exist")
    return row


def public_id_of(row: Authenticator) -> str:
    """What programs call the factor."""
    return f"{_PREFIX}{row.pk}"


def factor_of(person: Person, public_id: str) -> Authenticator:
    """As `factor`, by the id that programs use."""
    number = public_id.removeprefix(_PREFIX)
    if (
        public_id.startswith(_PREFIX)
        and number.isdecimal()
        and number.isascii()
        and len(number) <= _DIGITS_MAX
    ):
        row = factors(person).filter(pk=int(number)).first()
        if row is not None:
            return row
    raise NotFound(f"second factor {public_id[:64]!r} does not exist")


def are_asked_for(person: Person) -> bool:
    """Whether the person's sign-in needs a second factor."""
    return factors(person).exists()


def has(person: Person, kind: Authenticator.Type) -> bool:
    """Whether the person has a factor of that kind."""
    return bool(Authenticator.objects.filter(user=person, type=kind).exists())


def recovery_codes_left(person: Person) -> int:
    """How many recovery codes are not used."""
    row = Authenticator.objects.filter(user=person, type=Type.RECOVERY_CODES).first()
    return 0 if row is None else len(row.wrap().get_unused_codes())


def name_of(row: Authenticator) -> str:
    """What people call the factor."""
    return str(row.wrap().name) if row.type == Type.WEBAUTHN else "codes of an app"
