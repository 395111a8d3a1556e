"""Webhooks of a tenant: list, make, change, test, resume, rotate, delete, and the last attempts."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from control_plane.webhooks import actions, queries
from control_plane.webhooks.models import OFF, Webhook
from control_plane.webhooks.shown import shown_url
from penstock.contract.errors import PenstockError
from penstock.contract.resources.webhooks import EVENTS_USUAL, REASON
from tenants.roles import Permission
from web import notices
from web.described import choice_label
from web.forms.console_form import ConsoleForm, posted
from web.forms.webhooks import RotateForm, WebhookForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant

PER_PAGE = 25
HERE = "webhooks"


@in_tenant(Permission.WEBHOOKS_READ)
@require_safe
def webhooks(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """The tenant's, with their state."""
    page = page_of(request, queries.webhooks(access.tenant).order_by("name"), PER_PAGE)
    context = {
        "here": HERE,
        "page": page,
        "items": [(row, state_of(row), _address(access, row)) for row in page],
    }
    return render(request, "web/webhooks.html", context)


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_webhook(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make one. Only the page that answers shows its secret."""
    form = WebhookForm(posted(request), initial={"events": "\n".join(EVENTS_USUAL)})
    if form.is_valid():
        try:
            row, secret = actions.create(access.actor, access.tenant, **form.given)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _shown_once(request, row, secret, overlaps=False)
    return _form(request, form, None)


@in_tenant(Permission.WEBHOOKS_READ)
@require_safe
def webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """One of them, and what became of its last attempts."""
    row = queries.webhook(access.tenant, webhook)
    context = {
        "here": HERE,
        "webhook": row,
        "state": state_of(row),
        "address": _address(access, row),
        "waiting": queries.waiting(row),
        "page": page_of(request, queries.attempts(row).order_by("-pk"), PER_PAGE),
    }
    return render(request, "web/webhook.html", context)


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def edit_webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """Change its name, its address or its events."""
    row = queries.webhook(access.tenant, webhook)
    initial = {"name": row.name, "url": row.url, "events": "\n".join(row.events)}
    form = WebhookForm(posted(request), initial=initial)
    if form.is_valid():
        try:
            changed = actions.change(access.actor, access.tenant, webhook, **form.given)
        except PenstockError as error:
            form.refuse(error)
        else:
            return _back(access, changed, f"{changed.name} is changed.")
    return _form(request, form, row)


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_POST
def ping_webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """Send a test event."""
    row, _ = actions.ping(access.actor, access.tenant, webhook)
    return _back(access, row, "A test event is on its way. Reload this page to see the answer.")


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_POST
def switch_webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """Switch it off; or resume it, which also ends its pause after failures."""
    to = request.POST.get("to", "")
    if to == OFF:
        row = actions.change(access.actor, access.tenant, webhook, state=OFF)
        return _back(access, row, f"{row.name} is off. It keeps its place.")
    row = actions.resume(access.actor, access.tenant, webhook, skip_waiting=to == "skip")
    return _back(access, row, f"{row.name} goes on.")


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def rotate_webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """A new secret, which this page alone shows."""
    row = queries.webhook(access.tenant, webhook)
    form = RotateForm(posted(request))
    if form.is_valid():
        overlap = timedelta(hours=int(form.cleaned_data["overlap"]))
        row, secret = actions.rotate(access.actor, access.tenant, webhook, overlap=overlap)
        return _shown_once(request, row, secret, overlaps=bool(overlap))
    context = {"here": HERE, "webhook": row, "form": form}
    return render(request, "web/webhook_rotate.html", context, status=form.status)


@in_tenant(Permission.WEBHOOKS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def delete_webhook(request: HttpRequest, access: TenantAccess, webhook: str) -> HttpResponse:
    """Delete it with its log."""
    row = queries.webhook(access.tenant, webhook)
    if request.method == "POST":
        actions.delete(access.actor, access.tenant, webhook)
        return notices.put(redirect(access.url("webhooks")), f"{row.name} is deleted.")
    context = {"here": HERE, "webhook": row, "waiting": queries.waiting(row)}
    return render(request, "web/webhook_delete.html", context)


def state_of(row: Webhook) -> tuple[str, str]:
    """(words, kind of badge)."""
    if row.state == OFF:
        return choice_label(REASON, row.reason), "bad" if row.reason != "asked" else ""
    return ("failing", "caution") if row.failures else ("on", "ok")


def _address(access: TenantAccess, row: Webhook) -> str:
    return row.url if access.may(Permission.WEBHOOKS_WRITE) else shown_url(row.url)


def _back(access: TenantAccess, row: Webhook, text: str) -> HttpResponse:
    return notices.put(redirect(access.url("webhook", row.public_id)), text)


def _form(request: HttpRequest, form: ConsoleForm, row: Webhook | None) -> HttpResponse:
    context = {"here": HERE, "form": form, "webhook": row}
    return render(request, "web/webhook_form.html", context, status=form.status)


def _shown_once(request: HttpRequest, row: Webhook, secret: str, *, overlaps: bool) -> HttpResponse:
    context = {"here": HERE, "webhook": row, "secret": secret, "overlaps": overlaps}
    return render(request, "web/webhook_shown.html", context)
