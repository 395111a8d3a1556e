"""Reads with which providers people may sign in, and how they know a person."""

from django.db.models import QuerySet

from control_plane import config
from control_plane.config import ProviderConfig
from penstock.contract.errors import NotFound
from tenants.models import Person, ProviderIdentity


def providers() -> tuple[ProviderConfig, ...]:
    """Those of the configuration."""
    return config.current().sign_in_providers


def provider(provider_id: str) -> ProviderConfig:
    """One of them. Raises `NotFound`."""
    for one in providers():
        if one.id == provider_id:
            return one
    raise NotFound(f"provider {provider_id[:40]!r} does not exist")


def identities(person: Person) -> QuerySet[ProviderIdentity]:
    """How providers know the person."""
    return ProviderIdentity.objects.filter(person=person).order_by("pk")


def name_of(row: ProviderIdentity) -> str:
    """What people call the provider; its issuer once it is configured no more."""
    return next((one.name for one in providers() if one.issuer == row.issuer), row.issuer)
