"""API keys: list, create (shown once), rotate, revoke."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from control_plane import config
from control_plane.access import actions
from control_plane.access import queries as access
from control_plane.outbox import in_request
from penstock.contract.errors import PenstockError
from tenants import actions as tenant_actions
from tenants import queries
from tenants.models import ApiKey
from tenants.roles import Permission
from web import notices
from web.broker_access import own_keys
from web.forms.console_form import posted
from web.forms.keys import KeyForm
from web.paging import page_of
from web.places import Place, in_tenant

PER_PAGE = 50
SOON = timedelta(days=7)
"""A key that ends by then is pointed out, unless it was made for a short time only."""


@in_tenant(Permission.KEYS_READ)
@require_safe
def keys(request: HttpRequest, place: Place) -> HttpResponse:
    """Keys that let somebody in; those that have ended, and the console's own, on demand."""
    now = timezone.now()
    everything = request.GET.get("all") == "1"
    rows = (
        queries.keys(place.tenant)
        .select_related("service_account")
        .prefetch_related("bindings")
        .order_by("-pk")
    )
    valid = (
        rows.filter(revoked_at=None)
        .exclude(expires_at__lte=now)
        .exclude(public_id__in=own_keys(place.tenant))
    )
    shown = rows if everything else valid
    page = page_of(request, shown, PER_PAGE)
    context = {
        "here": "keys",
        "page": page,
        "items": [(row, state_of(row), access.bindings(row)) for row in page],
        "all": everything,
        "ended": rows.count() - valid.count(),
    }
    return render(request, "web/keys.html", context)


@in_tenant(Permission.KEYS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_key(request: HttpRequest, place: Place) -> HttpResponse:
    """Make a key; its text is on this one page and nowhere else."""
    form = KeyForm(posted(request))
    if form.is_valid():
        given = form.cleaned_data
        try:
            key, text = actions.create_key(
                place.actor,
                place.tenant,
                name=given["name"],
                expires_at=None if form.days is None else timezone.now() + timedelta(days=form.days),
                topic_prefix=given["topic_prefix"],
                operations=form.operations_bound,
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            return _shown_once(request, place, key, text.reveal())
    return render(request, "web/key_new.html", {"here": "keys", "form": form}, status=form.status)


@in_tenant(Permission.KEYS_WRITE)
@require_POST
def rotate_key(request: HttpRequest, place: Place, key: str) -> HttpResponse:
    """A new key with the same name, rights and lifetime; both work until the old one is revoked."""
    old = queries.key(place.tenant, key)
    lifetime = None if old.expires_at is None else old.expires_at - old.created_at
    bindings = access.bindings(old)
    new, text = actions.create_key(
        place.actor,
        place.tenant,
        name=old.name,
        expires_at=None if lifetime is None else timezone.now() + lifetime,
        topic_prefix=bindings[0].topic_prefix if bindings else None,
        operations=bindings[0].operations if bindings else (),
    )
    return _shown_once(request, place, new, text.reveal(), old)


@in_tenant(Permission.KEYS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def revoke_key(request: HttpRequest, place: Place, key: str) -> HttpResponse:
    """Refuse the key from now on, on open streams too."""
    row = queries.key(place.tenant, key)
    if request.method == "POST":
        revoked = tenant_actions.revoke_key(place.actor, row)
        delivered = in_request.deliver_now(tenant_actions.KIND_KEY, revoked.public_id, revoked.generation)
        text = f"{row.name} is revoked: no broker takes it any more."
        if not delivered:
            text = f"{row.name} is revoked; the brokers will hear of it in a moment."
        return notices.put(redirect(place.url("keys")), text, "ok" if delivered else "caution")
    return render(request, "web/key_revoke.html", {"here": "keys", "key": row, "state": state_of(row)})


def state_of(row: ApiKey) -> tuple[str, str]:
    """(words, kind of badge). Whether programs send or read with it is not known here."""
    if row.revoked_at is not None:
        return "revoked", ""
    if row.expires_at is not None and row.expires_at <= timezone.now():
        return "expired", ""
    if row.delivered_generation < row.generation:
        return "on its way", "caution"
    if row.expires_at is not None and row.expires_at - timezone.now() < min(
        SOON, (row.expires_at - row.created_at) / 5
    ):
        return "ends soon", "caution"
    return "valid", "ok"


def _shown_once(
    request: HttpRequest, place: Place, key: ApiKey, text: str, old: ApiKey | None = None
) -> HttpResponse:
    delivered = in_request.deliver_now(tenant_actions.KIND_KEY, key.public_id, key.generation)
    context = {
        "here": "keys",
        "key": key,
        "text": text,
        "old": old,
        "delivered": delivered,
        "bootstrap": ",".join(config.current().brokers.bootstrap),
        "public_url": config.current().public_url,
    }
    return render(request, "web/key_shown.html", context)
