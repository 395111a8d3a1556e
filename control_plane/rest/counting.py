"""Which requests of REST are counted for the audit log: what is refused to a known caller, and sensitive reads."""

from rest_framework.request import Request

from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.tallies import tallies
from control_plane.rest.callers import Caller, TenantAccess
from penstock.contract.audit_entries import DONE, REFUSED
from penstock.contract.ids import SYSTEM_TENANT
from tenants import audited
from tenants.models import ApiKey
from tenants.roles import Permission

_OF_ACCOUNTS = "account.write"
"""What asks for no permission is a person's own."""
_READS = ("GET", "HEAD")


def count_refusal(caller: Caller, access: TenantAccess | None, permission: Permission | None) -> None:
    """The caller may not do it. It stands in the log of the tenant that they were let into, or of their key; else in
    the service's own. A tenant that they named and are not of hears nothing.
    """
    if access is not None:
        tenant = access.tenant.public_id
    elif caller.key is not None:
        tenant = caller.key.tenant.public_id
    else:
        tenant = SYSTEM_TENANT
    action = _OF_ACCOUNTS if permission is None else audited.action_of(permission)
    tallies().count(caller.actor, tenant=tenant, action=action, outcome=REFUSED)


def count_read(request: Request, caller: Caller, access: TenantAccess, permission: Permission | None) -> None:
    """The caller has read something; it is counted where it is sensitive, or the caller is an operator."""
    if permission is None or request.method not in _READS:
        return
    if permission in audited.SENSITIVE_READS or caller.operator is not None:
        action = audited.action_of(permission)
        tallies().count(caller.actor, tenant=access.tenant.public_id, action=action, outcome=DONE)


def count_refused_key(key: ApiKey, actor: Actor) -> None:
    """A key of the tenant that is not valid, or came with another secret."""
    tallies().count(actor, tenant=key.tenant.public_id, action=audited.KEY, outcome=REFUSED)


def count_refused_operator(source: str, request_id: str) -> None:
    """An operator's token that is none, or was revoked."""
    actor = Actor(kind=ActorKind.ANONYMOUS, id=source, request_id=request_id, source=source)
    tallies().count(actor, tenant=SYSTEM_TENANT, action=audited.OPERATOR, outcome=REFUSED)
