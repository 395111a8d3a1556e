"""Who calls: a person with a session, an API key, or an operator; and what they may do in which tenant."""

from dataclasses import dataclass
from types import MappingProxyType

from rest_framework.request import Request

from control_plane.access.queries import KeyRights, VisibleTopics
from control_plane.api.parameters import TENANT_HEADER
from control_plane.audit.actor import Actor
from penstock.contract.errors import Forbidden, InvalidRequest
from penstock.rules.access import ALTER, DESCRIBE, TENANT, TOPIC
from penstock.rules.access_gains import described_right
from tenants import queries
from tenants.factors import queries as factors
from tenants.models import ApiKey, OperatorToken, Person, Tenant
from tenants.roles import Permission, Role, Standing, allowed

_OF_THE_TENANT = MappingProxyType(
    {
        Permission.KEYS_READ: DESCRIBE,
        Permission.ACCESS_READ: DESCRIBE,
        Permission.QUOTAS_READ: DESCRIBE,
        Permission.USAGE_READ: DESCRIBE,
        Permission.INVOICES_READ: DESCRIBE,
        Permission.KEYS_WRITE: ALTER,
        Permission.ACCESS_WRITE: ALTER,
        Permission.ACCOUNT_LIMITS_WRITE: ALTER,
    }
)
"""What a key's principal must be allowed to do to the tenant, where the tenant has an access list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Exactly one of `person`, `key` and `operator` is set."""

    actor: Actor
    person: Person | None = None
    key: ApiKey | None = None
    maker_role: Role | None = None
    """With a key: the present role of its maker in the tenant; None = it is a key of the service."""
    operator: OperatorToken | None = None

    @property
    def is_authenticated(self) -> bool:
        """For the framework: a caller is only made of a valid credential."""
        return True

    @property
    def pk(self) -> str:
        """For the framework's rate limits."""
        return self.actor.id


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccess:
    """The tenant that a request is about, and what the caller may do there."""

    tenant: Tenant
    standing: Standing
    maker_role: Role | None = None
    """With a key: the role of its maker. The key may do nothing that this role may not do."""
    rights: KeyRights | None = None
    """With a key: what it may do to topics, and to the tenant. People act by their role."""

    def require(self, permission: Permission) -> None:
        """Raise `Forbidden` unless the caller may do it."""
        if not allowed(self.standing, permission):
            way = (
                "s; it takes a person who has signed in (`penstock login`) or an operator"
                if self.standing is Standing.KEY
                else ""
            )
            raise Forbidden(f"{permission.value} is not for {self.standing.value}{way}")
        if self.maker_role is not None and not allowed(Standing(self.maker_role.value), permission):
            raise Forbidden(
                f"{permission.value} is not for a key whose maker is {self.maker_role.value}; "
                "use one that an owner or admin made"
            )
        operation = _OF_THE_TENANT.get(permission)
        if operation is None or self.rights is None:
            return
        if not self.rights.principal_allows(operation, TENANT, ""):
            raise Forbidden(
                f"{permission.value}: the access list does not allow {operation} of the tenant to"
                f" {self.rights.owner}"
            )

    @property
    def visible(self) -> VisibleTopics | None:
        """Which topics the caller sees, by name; None = all."""
        return None if self.rights is None else self.rights.visible_topics

    def require_topic(self, operation: str, name: str) -> None:
        """Raise `Forbidden` unless the caller may do that to the topic; call it for a topic that they may see."""
        if self.rights is not None and not self.rights.principal_allows(operation, TOPIC, name):
            raise Forbidden(
                f"topic {name[:64]!r}: the access list does not allow {operation} to {self.rights.owner}"
            )

    def require_rename(self, old: str, new: str) -> None:
        """Raise `Forbidden` if the caller may do more to a topic called `new` than to one called `old`."""
        right = None if self.rights is None else self.rights.gained_by_name(old, new)
        if right is not None:
            raise Forbidden(
                f"topic {old[:64]!r}: called {new[:64]!r} it would allow {described_right(right)} to {right.principal},"
                " which the access list does not allow; keep its name"
            )


def caller_of(request: Request) -> Caller | None:
    """Who sent the request; None = the request has no credential."""
    user: object = request.user
    return user if isinstance(user, Caller) else None


def access_of(caller: Caller, wanted: str | None) -> TenantAccess:
    """The caller's access to the tenant `wanted` (a public id), or to their only one: the only open one, if some are
    closed.

    Raises `NotFound` for a tenant that is not the caller's, `InvalidRequest` if none is named and the caller does not
    have exactly one, `Forbidden` if the tenant requires a second factor that the person does not have.
    """
    if caller.key is not None:
        if wanted is not None and wanted != caller.key.tenant.public_id:
            raise queries.tenant_missing(wanted)
        rights = KeyRights(caller.key, caller.actor.source)
        standing = Standing.BOUND_KEY if rights.scoped else Standing.KEY
        standing = Standing.VERIFYING_KEY if caller.key.verifies else standing
        return TenantAccess(
            tenant=caller.key.tenant,
            standing=standing,
            maker_role=caller.maker_role,
            rights=rights,
        )
    if caller.operator is not None:
        if wanted is None:
            raise InvalidRequest(f"{TENANT_HEADER}: required of operators")
        return TenantAccess(tenant=queries.tenant_by_id(wanted), standing=Standing.OPERATOR)
    if caller.person is None:
        raise InvalidRequest("the request has no caller")
    if wanted is not None:
        found = queries.belonging(caller.person, wanted)
    else:
        choice = queries.meant(queries.belongings(caller.person))
        if len(choice) != 1:
            raise InvalidRequest(f"{TENANT_HEADER}: you have {len(choice)} tenants; name one")
        found = choice[0]
    if not factors.is_let_in(found.tenant, caller.person):
        raise factors.not_let_in(found.tenant)
    return TenantAccess(tenant=found.tenant, standing=Standing(found.role.value))
