"""The recycle bin of a tenant's topics: list, restore, purge."""

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from control_plane.outbox import in_request
from control_plane.topics import actions, bin_actions, queries
from penstock.contract.errors import PenstockError
from quotas.queries import limits_of
from tenants.roles import Permission
from web import notices
from web.forms.console_form import posted
from web.forms.topics import DeleteTopicForm, RestoreTopicForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 50
HERE = "topics"


@in_tenant(Permission.TOPICS_READ)
@require_safe
def recycle_bin(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The topics in the bin; the one that was deleted last is the first."""
    page = page_of(request, queries.binned_topics(access.tenant).order_by("-binned_at", "-pk"), PER_PAGE)
    context = {"here": HERE, "page": page, "days": limits_of(access.tenant).bin_days}
    return render(request, "web/bin.html", context)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def restore_topic(request: HttpRequest, access: TenantAccess, topic: str) -> HttpResponse:
    """Take a topic out of the bin, under its name or another one."""
    row = queries.binned_topic(access.tenant, topic)
    form = RestoreTopicForm(row.name, posted(request))
    if form.is_valid():
        try:
            restored = bin_actions.restore_topic(
                access.actor, access.tenant, topic, name=form.cleaned_data["name"]
            )
            take_back = partial(bin_actions.take_back_restore, access.actor, restored, row)
            delivered = in_request.deliver_or_take_back(
                actions.KIND_TOPIC, restored.public_id, restored.generation, take_back
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            text = f"Topic {restored.name} is restored."
            if not delivered:
                text = f"Topic {restored.name} is restored; the brokers will hear of it in a moment."
            response = redirect(access.url("topic", restored.name))
            return notices.put(response, text, "ok" if delivered else "caution")
    context = {"here": HERE, "form": form, "topic": row}
    return render(request, "web/bin_restore.html", context, status=form.status)


@in_tenant(Permission.TOPICS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def purge_topic(request: HttpRequest, access: TenantAccess, topic: str) -> HttpResponse:
    """Delete a topic in the bin for good, after its name was typed."""
    row = queries.binned_topic(access.tenant, topic)
    form = DeleteTopicForm(row.name, posted(request))
    if form.is_valid():
        try:
            gone = bin_actions.purge_topic(access.actor, access.tenant, topic)
        except PenstockError as error:
            form.refuse(error)
        else:
            in_request.deliver_now(actions.KIND_TOPIC, gone.public_id, gone.generation)
            return notices.put(redirect(access.url("bin")), f"Topic {row.name} is deleted for good.")
    context = {"here": HERE, "form": form, "topic": row}
    return render(request, "web/bin_purge.html", context, status=form.status)
