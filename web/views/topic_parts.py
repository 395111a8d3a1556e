"""Further tabs of a topic: the groups that read it, and who may write and read it."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from control_plane.access import queries as access_queries
from control_plane.topics import queries
from penstock.rules import access as rules
from tenants.roles import Permission
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant
from web.unscripted import first_answer
from web.views.groups import shown_groups

PER_PAGE = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class MayUse:
    """A principal, whether it may write and read the topic, and why."""

    name: str
    principal: str
    writes: access_queries.Answer
    reads: access_queries.Answer


@in_tenant(Permission.GROUPS_READ)
@require_safe
def topic_groups(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """The groups that have read the topic or are about to, with their lag in it."""
    context = {"here": "topics", "tab": "groups", "topic": queries.topic(access.tenant, name)}
    context |= first_answer(request, topic_groups_live, tenant=access.tenant.name, name=name)
    return render(request, "web/topic_groups.html", context)


@in_tenant(Permission.GROUPS_READ)
@require_safe
def topic_groups_live(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """The groups as the brokers report them now."""
    queries.topic(access.tenant, name)
    return render(request, "web/parts/groups_live.html", shown_groups(access, name))


@in_tenant(Permission.ACCESS_READ)
@require_safe
def topic_access(request: HttpRequest, access: TenantAccess, name: str) -> HttpResponse:
    """The brokers' answer for everyone who may hold keys: those who may do something with the topic first."""
    row = queries.topic(access.tenant, name)
    answers = {
        operation: {
            answer.principal: answer
            for answer in access_queries.who_may(access.tenant, operation, rules.TOPIC, name, "")
        }
        for operation in (rules.PRODUCE, rules.CONSUME)
    }
    reads = answers[rules.CONSUME]
    users = [
        MayUse(name=answer.name, principal=principal, writes=answer, reads=reads[principal])
        for principal, answer in answers[rules.PRODUCE].items()
    ]
    users.sort(key=lambda user: -(user.writes.allowed + user.reads.allowed))
    page = page_of(request, users, PER_PAGE)
    context = {"here": "topics", "tab": "access", "topic": row, "page": page, "users": list(page)}
    return render(request, "web/topic_access.html", context)
