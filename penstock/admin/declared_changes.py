"""The steps that make a tenant as a declarative file wants, and how it is before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.rules.access import ALLOW


class Kind(StrEnum):
    """The kind of object that a change is about."""

    QUOTAS = "quotas"
    SERVICE_ACCOUNT = "service_account"
    PRINCIPAL_GROUP = "principal_group"
    TOPIC = "topic"
    ACL = "acl"
    ACCESS = "access"
    KEY = "key"
    WEBHOOK = "webhook"
    BUDGET = "budget"
    ACCOUNT_LIMITS = "account_limits"


class Sign(StrEnum):
    """A change makes, changes or removes something."""

    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step. `fields` are (name, before, after); `id` is the object's id, empty where it is to be made."""

    kind: Kind
    sign: Sign
    name: str
    id: str = ""
    fields: tuple[tuple[str, Any, Any], ...] = ()
    body: Any = None
    """The file's words for it: the members of a group, the body of a topic or of limits, a `DeclaredAcl`, a
    `DeclaredKey`, the body of a webhook or budget, or the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The tenant's objects, as REST lists them. A kind that the file does not name is empty."""

    service_accounts: tuple[Mapping[str, Any], ...] = ()
    people: tuple[Mapping[str, Any], ...] = ()
    principal_groups: tuple[Mapping[str, Any], ...] = ()
    topics: tuple[Mapping[str, Any], ...] = ()
    foreseen_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """All settings, by name of the topic, as they would be with the file's: where it names one as null, the service
    knows the default. A topic that would stay as it is is not in it."""
    acls: tuple[Mapping[str, Any], ...] = ()
    default: str = ALLOW
    quotas: Mapping[str, Any] | None = None
    keys: tuple[Mapping[str, Any], ...] = ()
    """Valid ones only: a revoked or ended one is as none."""
    own_key: str = ""
    """Id of the key that the caller uses; empty: none."""
    webhooks: tuple[Mapping[str, Any], ...] = ()
    budgets: tuple[Mapping[str, Any], ...] = ()
    account_limits: tuple[Mapping[str, Any], ...] = ()
    """Limits of the accounts that have some of their own."""
    each_account: Mapping[str, Any] | None = None
    """Limits of each account that has none of its own."""


def ids_of(present: Present) -> dict[str, str]:
    """`kind:id` by `kind:name`."""
    ids = {
        f"service_account:{row['name']}": f"service_account:{row['id']}" for row in present.service_accounts
    }
    ids |= {f"person:{row['email'].lower()}": f"person:{row['id']}" for row in present.people}
    ids |= {f"group:{row['name']}": f"group:{row['id']}" for row in present.principal_groups}
    return ids
