"""The topic with a tenant's audit log: whether it is written, how far it is behind, and switching it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from control_plane.audit_topics import actions, queries
from control_plane.audit_topics.models import OFF, ON
from penstock.contract.errors import PenstockError
from tenants.roles import Permission
from web import notices
from web.tenant_access import TenantAccess, in_tenant

HERE = "audit"
DELETE = "delete"
SAID = {
    ON: "The log is written to the topic __audit.",
    OFF: "Nothing more is written. The topic keeps what it has.",
    DELETE: "The topic __audit is deleted.",
}


@in_tenant(Permission.AUDIT_READ)
@require_safe
def audit_topic(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """What it is now."""
    return render(request, "web/audit_topic.html", {"here": HERE, "topic": queries.state_of(access.tenant)})


@in_tenant(Permission.AUDIT_EXPORT)
@require_POST
def switch_audit_topic(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Switch it on or off, or delete it."""
    back = redirect(access.url("audit-topic"))
    to = request.POST.get("to", "")
    try:
        if to == DELETE:
            actions.delete(access.actor, access.tenant)
        elif to in (ON, OFF):
            actions.change(access.actor, access.tenant, state=to)
        else:
            return notices.put(back, "Nothing was changed.", "caution")
    except PenstockError as error:
        return notices.put(back, error.message, "caution")
    return notices.put(back, SAID[to])
