"""Who may do what: one table of roles and permissions. Pure."""

from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """What a person is in a tenant."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    BILLING = "billing"
    AUDITOR = "auditor"


class Standing(StrEnum):
    """What a caller is towards a tenant: a person by role, a key, or an operator of the service."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    BILLING = "billing"
    AUDITOR = "auditor"
    KEY = "key"
    """An API key that may do everything with the tenant's messages."""
    BOUND_KEY = "bound key"
    """An API key that is bound to a part of the topics."""
    OPERATOR = "operator"


class Permission(StrEnum):
    TENANT_READ = "tenant.read"
    TENANT_SUSPEND = "tenant.suspend"
    TENANT_CLOSE = "tenant.close"
    FACTORS_REQUIRE = "factors.require"
    PEOPLE_READ = "people.read"
    PEOPLE_WRITE = "people.write"
    TOPICS_READ = "topics.read"
    TOPICS_WRITE = "topics.write"
    MESSAGES_READ = "messages.read"
    MESSAGES_WRITE = "messages.write"
    GROUPS_READ = "groups.read"
    GROUPS_WRITE = "groups.write"
    KEYS_READ = "keys.read"
    KEYS_WRITE = "keys.write"
    ACCESS_READ = "access.read"
    ACCESS_WRITE = "access.write"
    ACCESS_REPORT = "access.report"
    QUOTAS_READ = "quotas.read"
    QUOTAS_WRITE = "quotas.write"
    AUDIT_READ = "audit.read"
    AUDIT_EXPORT = "audit.export"
    WEBHOOKS_READ = "webhooks.read"
    WEBHOOKS_WRITE = "webhooks.write"
    USAGE_READ = "usage.read"
    INVOICES_READ = "invoices.read"
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    BILLING_CUT = "billing.cut"
    PRICES_WRITE = "prices.write"


_S = Standing
_PEOPLE = (_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.BILLING, _S.AUDITOR)

TABLE = MappingProxyType(
    {
        Permission.TENANT_READ: frozenset({*_PEOPLE, _S.KEY, _S.BOUND_KEY, _S.OPERATOR}),
        Permission.TENANT_SUSPEND: frozenset({_S.OPERATOR}),
        # To reopen and to protect it, too.
        Permission.TENANT_CLOSE: frozenset({_S.OWNER, _S.OPERATOR}),
        Permission.FACTORS_REQUIRE: frozenset({_S.OWNER}),
        Permission.PEOPLE_READ: frozenset({*_PEOPLE, _S.OPERATOR}),
        # Only an owner makes or demotes owners, and every person may leave: the actions check both.
        Permission.PEOPLE_WRITE: frozenset({_S.OWNER, _S.ADMIN}),
        # A bound key sees the topics it is bound to.
        Permission.TOPICS_READ: frozenset({*_PEOPLE, _S.KEY, _S.BOUND_KEY, _S.OPERATOR}),
        Permission.TOPICS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.KEY}),
        # In the console. A key's own rights on messages are the brokers' to check.
        Permission.MESSAGES_READ: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.KEY}),
        Permission.MESSAGES_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.KEY}),
        Permission.GROUPS_READ: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.AUDITOR, _S.KEY}),
        Permission.GROUPS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.KEY}),
        Permission.KEYS_READ: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.AUDITOR, _S.KEY, _S.OPERATOR}),
        Permission.KEYS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.KEY}),
        Permission.ACCESS_READ: frozenset(
            {_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.AUDITOR, _S.KEY, _S.OPERATOR}
        ),
        # Access lists, groups of principals, service accounts and their keys: who may write them may do all they grant.
        Permission.ACCESS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.KEY}),
        # Reports name every person and key together, so who may look some of it up may not read them.
        Permission.ACCESS_REPORT: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        Permission.QUOTAS_READ: frozenset({*_PEOPLE, _S.KEY, _S.OPERATOR}),
        Permission.QUOTAS_WRITE: frozenset({_S.OPERATOR}),
        Permission.AUDIT_READ: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        # A topic holds the log for every key that is made to read it.
        Permission.AUDIT_EXPORT: frozenset({_S.OWNER, _S.ADMIN}),
        # A webhook hands the audit log on: those alone make one who may read the log, and no key is among them.
        Permission.WEBHOOKS_READ: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        Permission.WEBHOOKS_WRITE: frozenset({_S.OWNER, _S.ADMIN}),
        Permission.USAGE_READ: frozenset({*_PEOPLE, _S.KEY, _S.OPERATOR}),
        Permission.INVOICES_READ: frozenset(
            {_S.OWNER, _S.ADMIN, _S.BILLING, _S.AUDITOR, _S.KEY, _S.OPERATOR}
        ),
        Permission.CLUSTER_READ: frozenset({_S.OPERATOR}),
        Permission.CLUSTER_WRITE: frozenset({_S.OPERATOR}),
        Permission.BILLING_CUT: frozenset({_S.OPERATOR}),
        Permission.PRICES_WRITE: frozenset({_S.OPERATOR}),
    }
)


KEY_ROLES = tuple(role for role in Role if Standing(role.value) in TABLE[Permission.KEYS_WRITE])
"""Who may hold keys. Brokers ask for a key's bindings alone, so each of these may do with messages, topics and groups
all that a key may; what they differ in is asked over REST, of the key and of its maker's role."""


def allowed(standing: Standing, permission: Permission) -> bool:
    """May a caller of this standing do it?"""
    return standing in TABLE[permission]
