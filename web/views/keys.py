"""API keys: list, create (shown once), rotate, revoke."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from control_plane import config
from control_plane.access import actions
from control_plane.access import queries as key_queries
from control_plane.outbox import in_request
from penstock.contract.errors import Forbidden, PenstockError
from tenants import actions as tenant_actions
from tenants import queries
from tenants.models import ApiKey
from tenants.roles import Permission, to_revoke
from web import notices
from web.broker_access import own_keys
from web.forms.console_form import posted
from web.forms.keys import KeyForm
from web.paging import page_of
from web.tenant_access import TenantAccess, in_tenant, require

PER_PAGE = 50
SOON = timedelta(days=7)
"""The list marks keys that expire within this time, unless their whole lifetime is short."""


@dataclass(frozen=True, slots=True)
class KeyList:
    """The page that lists a key, and which entry of the menu it belongs to."""

    name: str
    url: str
    here: str


@in_tenant(Permission.KEYS_READ)
@require_safe
def keys(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Valid keys; on request also keys that have ended and the console's own."""
    now = timezone.now()
    everything = request.GET.get("all") == "1"
    rows = (
        queries.keys(access.tenant)
        .select_related("service_account")
        .prefetch_related("bindings")
        .order_by("-pk")
    )
    valid = (
        rows.filter(revoked_at=None)
        .exclude(expires_at__lte=now)
        .exclude(public_id__in=own_keys(access.tenant))
    )
    shown = rows if everything else valid
    page = page_of(request, shown, PER_PAGE)
    context = {
        "here": "keys",
        "page": page,
        "items": [(row, state_of(row), key_queries.bindings(row)) for row in page],
        "all": everything,
        "ended": rows.count() - valid.count(),
    }
    return render(request, "web/keys.html", context)


@in_tenant(Permission.KEYS_WRITE)
@require_http_methods(["GET", "HEAD", "POST"])
def new_key(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """Make a key. Only this one page shows its text."""
    accounts = queries.service_accounts(access.tenant).order_by("name")
    offered = [(row.public_id, row.name) for row in accounts] if access.may(Permission.ACCESS_WRITE) else []
    form = KeyForm(offered, posted(request), initial={"account": request.GET.get("account", "")[:64]})
    if form.is_valid():
        given = form.cleaned_data
        account = given.get("account") or ""
        try:
            key, text = actions.create_key(
                access.actor,
                access.tenant,
                name=given["name"],
                expires_at=None if form.days is None else timezone.now() + timedelta(days=form.days),
                topic_prefix=given["topic_prefix"],
                operations=form.operations_bound,
                account=queries.service_account(access.tenant, account) if account else None,
            )
            return shown_once(request, access, key, text.reveal())
        except PenstockError as error:
            form.refuse(error)
    return render(request, "web/key_new.html", {"here": "keys", "form": form}, status=form.status)


@in_tenant(Permission.KEYS_WRITE)
@require_POST
def rotate_key(request: HttpRequest, access: TenantAccess, key: str) -> HttpResponse:
    """A new key with the same name, rights and lifetime; both work until the old one is revoked."""
    old = queries.key(access.tenant, key)
    lifetime = None if old.expires_at is None else old.expires_at - old.created_at
    if old.service_account is not None and not access.may(Permission.ACCESS_WRITE):
        raise Forbidden(f"{Permission.ACCESS_WRITE.value} is required for a key of a service account")
    new, text = actions.create_key(
        access.actor,
        access.tenant,
        name=old.name,
        expires_at=None if lifetime is None else timezone.now() + lifetime,
        scopes=key_queries.scopes_of(old),
        account=old.service_account,
    )
    return shown_once(request, access, new, text.reveal(), old)


@in_tenant()
@require_http_methods(["GET", "HEAD", "POST"])
def revoke_key(request: HttpRequest, access: TenantAccess, key: str) -> HttpResponse:
    """Revoke the key. It is refused from now on, on open streams too."""
    # A key that is not there is refused as any other: those who may not revoke it do not hear which there are.
    verifies = queries.verifying_keys(access.tenant).filter(public_id=key).exists()
    permission = to_revoke(access.standing, verifies=verifies)
    require(request, access, permission)
    row = queries.key(access.tenant, key)
    of = proving_keys(access) if permission is Permission.INVOICES_VERIFY else all_keys(access)
    if request.method == "POST":
        revoked = tenant_actions.revoke_key(access.actor, row)
        delivered = in_request.deliver_now(tenant_actions.KIND_KEY, revoked.public_id, revoked.generation)
        text = f"{row.name} is revoked: every broker refuses it."
        if not delivered:
            text = f"{row.name} is revoked; the brokers will refuse it in a moment."
        return notices.put(redirect(of.url), text, "ok" if delivered else "caution")
    context = {"here": of.here, "list": of, "key": row, "state": state_of(row)}
    return render(request, "web/key_revoke.html", context)


def all_keys(access: TenantAccess) -> KeyList:
    return KeyList("Keys", access.url("keys"), "keys")


def proving_keys(access: TenantAccess) -> KeyList:
    """The list of keys that prove invoices, which roles see that see no other key."""
    return KeyList("Keys that prove invoices", access.url("verifying-keys"), "invoices")


def state_of(row: ApiKey) -> tuple[str, str]:
    """(words, kind of badge). The control plane does not know whether programs produce or consume with the key."""
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


def shown_once(
    request: HttpRequest,
    access: TenantAccess,
    key: ApiKey,
    text: str,
    old: ApiKey | None = None,
    of: KeyList | None = None,
) -> HttpResponse:
    """The new key. Raises what the brokers refused it with for good; it is withdrawn then. `of`: the list it is in,
    where that is not the one of all keys.
    """
    of = of or all_keys(access)
    withdraw = partial(actions.withdraw_key, access.actor, key)
    delivered = in_request.deliver_or_take_back(
        tenant_actions.KIND_KEY, key.public_id, key.generation, withdraw
    )
    context = {
        "here": of.here,
        "list": of,
        "key": key,
        "text": text,
        "old": old,
        "delivered": delivered,
        "bootstrap": ",".join(config.current().brokers.bootstrap),
        "public_url": config.current().public_url,
    }
    return render(request, "web/key_shown.html", context)
