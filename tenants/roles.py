"""Who may do what: one table of roles and permissions in a tenant, and one of organisations. Pure."""

from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """What a person is in a tenant."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    BILLING = "billing"
    AUDITOR = "auditor"


class OrganisationRole(StrEnum):
    """What a person is in an organisation."""

    OWNER = "owner"
    ADMIN = "admin"
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
    VERIFYING_KEY = "verifying key"
    """An API key that proves invoices, and reads no message."""
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
    ACCOUNT_LIMITS_WRITE = "account_limits.write"
    QUOTAS_READ = "quotas.read"
    QUOTAS_WRITE = "quotas.write"
    BUDGETS_READ = "budgets.read"
    BUDGETS_WRITE = "budgets.write"
    AUDIT_READ = "audit.read"
    AUDIT_EXPORT = "audit.export"
    WEBHOOKS_READ = "webhooks.read"
    WEBHOOKS_WRITE = "webhooks.write"
    USAGE_READ = "usage.read"
    INVOICES_READ = "invoices.read"
    INVOICES_VERIFY = "invoices.verify"
    """Make keys that prove invoices: they get counts, stamps and seals of the brokers, and no record."""
    PAYMENTS_WRITE = "payments.write"
    RECEIVABLES_READ = "receivables.read"
    RECEIVABLES_WRITE = "receivables.write"
    CLUSTER_READ = "cluster.read"
    CLUSTER_WRITE = "cluster.write"
    BILLING_CUT = "billing.cut"
    PRICES_WRITE = "prices.write"
    COSTS_READ = "costs.read"
    """What the service itself costs, and its margins."""
    COSTS_WRITE = "costs.write"
    SLA_WRITE = "sla.write"
    """What is taken out of service levels."""


_S = Standing
_PEOPLE = (_S.OWNER, _S.ADMIN, _S.DEVELOPER, _S.BILLING, _S.AUDITOR)

TABLE = MappingProxyType(
    {
        Permission.TENANT_READ: frozenset({*_PEOPLE, _S.KEY, _S.BOUND_KEY, _S.VERIFYING_KEY, _S.OPERATOR}),
        Permission.TENANT_SUSPEND: frozenset({_S.OPERATOR}),
        # To reopen and to protect it, too.
        Permission.TENANT_CLOSE: frozenset({_S.OWNER, _S.OPERATOR}),
        Permission.FACTORS_REQUIRE: frozenset({_S.OWNER}),
        Permission.PEOPLE_READ: frozenset({*_PEOPLE, _S.OPERATOR}),
        # Only an owner makes or demotes owners, and every person may leave: the actions check both.
        Permission.PEOPLE_WRITE: frozenset({_S.OWNER, _S.ADMIN}),
        # A bound key sees the topics it is bound to.
        Permission.TOPICS_READ: frozenset({*_PEOPLE, _S.KEY, _S.BOUND_KEY, _S.VERIFYING_KEY, _S.OPERATOR}),
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
        # Limits of service accounts act within the tenant's, so those who write the accounts set them too.
        Permission.ACCOUNT_LIMITS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.KEY, _S.OPERATOR}),
        # Reports name every person and key together, so who may look some of it up may not read them.
        Permission.ACCESS_REPORT: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        Permission.QUOTAS_READ: frozenset({*_PEOPLE, _S.KEY, _S.OPERATOR}),
        Permission.QUOTAS_WRITE: frozenset({_S.OPERATOR}),
        Permission.BUDGETS_READ: frozenset({*_PEOPLE, _S.KEY, _S.OPERATOR}),
        # They cost or save money, and one that is raised lets more be spent: no key does it for itself.
        Permission.BUDGETS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.BILLING, _S.OPERATOR}),
        Permission.AUDIT_READ: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        # A topic holds the log for every key that is made to read it.
        Permission.AUDIT_EXPORT: frozenset({_S.OWNER, _S.ADMIN}),
        # A webhook hands the audit log on: those alone make one who may read the log, and no key is among them.
        Permission.WEBHOOKS_READ: frozenset({_S.OWNER, _S.ADMIN, _S.AUDITOR, _S.OPERATOR}),
        Permission.WEBHOOKS_WRITE: frozenset({_S.OWNER, _S.ADMIN}),
        Permission.USAGE_READ: frozenset({*_PEOPLE, _S.KEY, _S.OPERATOR}),
        Permission.INVOICES_READ: frozenset(
            {_S.OWNER, _S.ADMIN, _S.BILLING, _S.AUDITOR, _S.KEY, _S.VERIFYING_KEY, _S.OPERATOR}
        ),
        Permission.INVOICES_VERIFY: frozenset({_S.OWNER, _S.ADMIN, _S.BILLING, _S.AUDITOR}),
        # How the tenant pays. A key has nothing to pay with.
        Permission.PAYMENTS_WRITE: frozenset({_S.OWNER, _S.ADMIN, _S.BILLING}),
        Permission.RECEIVABLES_READ: frozenset({_S.OPERATOR}),
        Permission.RECEIVABLES_WRITE: frozenset({_S.OPERATOR}),
        Permission.CLUSTER_READ: frozenset({_S.OPERATOR}),
        Permission.CLUSTER_WRITE: frozenset({_S.OPERATOR}),
        Permission.BILLING_CUT: frozenset({_S.OPERATOR}),
        Permission.PRICES_WRITE: frozenset({_S.OPERATOR}),
        Permission.COSTS_READ: frozenset({_S.OPERATOR}),
        Permission.COSTS_WRITE: frozenset({_S.OPERATOR}),
        Permission.SLA_WRITE: frozenset({_S.OPERATOR}),
    }
)


KEY_ROLES = tuple(role for role in Role if Standing(role.value) in TABLE[Permission.KEYS_WRITE])
"""Who may hold keys. Brokers ask for a key's bindings alone, so each of these may do with messages, topics and groups
all that a key may; what they differ in is asked over REST, of the key and of its maker's role."""
VERIFYING_ROLES = tuple(role for role in Role if Standing(role.value) in TABLE[Permission.INVOICES_VERIFY])
"""Who may hold keys that prove invoices and do nothing else."""


def may_hold(role: Role | None, *, verifies: bool) -> bool:
    """Whether who has this role may hold a key; `verifies`: one that proves invoices and does nothing else."""
    return role in KEY_ROLES or (verifies and role in VERIFYING_ROLES)


def to_revoke(standing: Standing, *, verifies: bool) -> Permission:
    """The permission that revoking a key takes; `verifies`: it proves invoices and does nothing else, so all who may
    make such a key may revoke it.
    """
    makes_such = verifies and allowed(standing, Permission.INVOICES_VERIFY)
    return Permission.INVOICES_VERIFY if makes_such else Permission.KEYS_WRITE


def allowed(standing: Standing, permission: Permission) -> bool:
    """May a caller of this standing do it?"""
    return standing in TABLE[permission]


# -- organisations --------------------------------------------------------------------------------------


class OrganisationPermission(StrEnum):
    READ = "organisation.read"
    """Its names and its tenants."""
    WRITE = "organisation.write"
    DELETE = "organisation.delete"
    MEMBERS_READ = "members.read"
    MEMBERS_WRITE = "members.write"
    TENANTS_MOVE = "tenants.move"
    """Move tenants in and out: who does it owns the tenant itself too."""
    AUDIT_READ = "audit.read"


_O = OrganisationRole

ORGANISATION_TABLE = MappingProxyType(
    {
        OrganisationPermission.READ: frozenset(_O),
        OrganisationPermission.MEMBERS_READ: frozenset(_O),
        OrganisationPermission.WRITE: frozenset({_O.OWNER, _O.ADMIN}),
        OrganisationPermission.DELETE: frozenset({_O.OWNER}),
        # Only an owner makes or demotes owners, and every member may leave: the actions check both.
        OrganisationPermission.MEMBERS_WRITE: frozenset({_O.OWNER, _O.ADMIN}),
        OrganisationPermission.TENANTS_MOVE: frozenset({_O.OWNER}),
        OrganisationPermission.AUDIT_READ: frozenset({_O.OWNER, _O.ADMIN, _O.AUDITOR}),
    }
)
TENANT_ROLES = MappingProxyType(
    {
        _O.OWNER: Role.OWNER,
        _O.ADMIN: Role.ADMIN,
        _O.BILLING: Role.BILLING,
        _O.AUDITOR: Role.AUDITOR,
    }
)
"""What a role of an organisation is in each of its tenants."""
RANKS = (Role.OWNER, Role.ADMIN, Role.DEVELOPER, Role.AUDITOR, Role.BILLING)
"""The highest first. Each may do all that the next one may, but for a developer, who may write and not audit."""


def allowed_within(role: OrganisationRole, permission: OrganisationPermission) -> bool:
    """May a member of this role do it in the organisation?"""
    return role in ORGANISATION_TABLE[permission]


def role_of(direct: Role | None, within: OrganisationRole | None) -> Role | None:
    """What a person is in a tenant: the higher of their own role and that by its organisation; None: neither."""
    roles = {direct, None if within is None else TENANT_ROLES[within]}
    return next((role for role in RANKS if role in roles), None)
