"""What a tenant has, and the steps that make it as a declarative file wants."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.rules.access import ALLOW


class Kind(StrEnum):
    """What a change is about."""

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
    """What a change does."""

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
    """What the file says of it: the members of a group, the body of a topic or of limits, a `DeclaredAcl`, a
    `DeclaredKey`, the body of a webhook or budget, or the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What the tenant has, as REST lists it. A kind that the file does not name is empty."""

    service_accounts: tuple[Mapping[str, Any], ...] = ()
    people: tuple[Mapping[str, Any], ...] = ()
    principal_groups: tuple[Mapping[str, Any], ...] = ()
    topics: tuple[Mapping[str, Any], ...] = ()
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
    """Of the accounts that have limits of their own."""
    each_account: Mapping[str, Any] | None = None
    """What each account has that has none of its own."""


def ids_of(present: Present) -> dict[str, str]:
    """`kind:id` by `kind:name`."""
    found = {
        f"service_account:{one['name']}": f"service_account:{one['id']}" for one in present.service_accounts
    }
    found |= {f"person:{one['email'].lower()}": f"person:{one['id']}" for one in present.people}
    found |= {f"group:{one['name']}": f"group:{one['id']}" for one in present.principal_groups}
    return found
