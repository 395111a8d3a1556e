"""A declarative file: how it wants a tenant to be, as checked values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTopic:
    """`settings` are those that the file names; the others stay as they are. None: the service's default."""

    name: str
    partitions: int
    settings: Mapping[str, int | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredAcl:
    """An entry of the access list; its principal is `everyone` or `kind:name`. Lists are sorted."""

    effect: str
    principal: str
    resource: str
    name: str
    pattern: str
    operations: tuple[str, ...]
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredScope:
    """A part of what a key may do, as REST shows it; `operations` are sorted."""

    resource: str
    name: str
    pattern: str
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredKey:
    """A key of a service account, known by its name there; `scopes` are sorted. It never changes."""

    name: str
    service_account: str
    expires_at: datetime | None = None
    scopes: tuple[DeclaredScope, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQuotas:
    """`limits` are those that the file names; the service knows which there are. `plan` empty: as it is."""

    plan: str = ""
    plan_version: int | None = None
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredAccountLimits:
    """Limits of service accounts beside the tenant's, by name of the limit. One that is not named is what each account
    has.
    """

    default: Mapping[str, int] | None = None
    """Each account has these that has none of its own. None: the file says nothing of it."""
    accounts: Mapping[str, Mapping[str, int]]
    """Limits of single accounts, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Everything that a file wants. None: the file says nothing of this kind, and nothing of it changes."""

    quotas: DeclaredQuotas | None = None
    service_accounts: tuple[str, ...] | None = None
    principal_groups: Mapping[str, tuple[str, ...]] | None = None
    """Members by name of the group, each `kind:name`, sorted."""
    topics: tuple[DeclaredTopic, ...] | None = None
    acls: tuple[DeclaredAcl, ...] | None = None
    default: str | None = None
    keys: tuple[DeclaredKey, ...] | None = None
    webhooks: tuple[Mapping[str, Any], ...] | None = None
    """Values by field, as `penstock.contract.resources.webhooks` describes them; lists are sorted."""
    budgets: tuple[Mapping[str, Any], ...] | None = None
    """Likewise, with names of service accounts; what a budget has for good is always named."""
    account_limits: DeclaredAccountLimits | None = None
