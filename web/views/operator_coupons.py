"""For operators of the service: coupons, made, given to a tenant, and ended."""

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from billing import coupon_actions
from billing.coupon_models import Coupon
from penstock.contract.errors import NotFound, PenstockError
from tenants import queries as tenants
from tenants.models import OperatorToken, Tenant
from web import notices, sessions
from web.forms.console_form import posted
from web.forms.coupons import CouponForm, GiveCouponForm
from web.paging import page_of, searched
from web.tenant_access import for_operators

HERE = "coupons"
PER_PAGE = 50
LENGTH = timedelta(days=90)


@for_operators
@require_safe
def coupons(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """The newest first, with how often each was redeemed."""
    wanted = searched(request)
    rows = coupon_actions.coupons().order_by("-pk")
    if wanted:
        rows = rows.filter(Q(code__icontains=wanted) | Q(reason__icontains=wanted))
    page = page_of(request, rows, PER_PAGE)
    now = timezone.now()
    context = {"here": HERE, "q": wanted, "page": page, "items": [(row, state_of(row, now)) for row in page]}
    return render(request, "web/operator_coupons.html", context)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def new_coupon(request: HttpRequest, operator: OperatorToken) -> HttpResponse:
    """Make one."""
    now = timezone.now().replace(microsecond=0, second=0)
    form = CouponForm(posted(request), initial={"from_at": now, "until_at": now + LENGTH})
    if form.is_valid():
        try:
            made = coupon_actions.make_coupon(sessions.operator_actor_of(request, operator), **form.given)
        except PenstockError as error:
            form.refuse(error)
        else:
            return notices.put(redirect("web:operator-coupons"), f"The coupon {made.code} is made.")
    return render(request, "web/operator_coupon_new.html", {"here": HERE, "form": form}, status=form.status)


@for_operators
@require_http_methods(["GET", "HEAD", "POST"])
def coupon(request: HttpRequest, operator: OperatorToken, coupon: str) -> HttpResponse:
    """One, with the tenants that redeemed it; posted, a tenant gets it."""
    row = coupon_actions.coupon_of(coupon)
    form = GiveCouponForm(posted(request))
    if form.is_valid():
        try:
            tenant = _tenant(form.cleaned_data["tenant"])
            coupon_actions.redeem(
                sessions.operator_actor_of(request, operator), tenant, row.code, timezone.now()
            )
        except PenstockError as error:
            form.refuse(error)
        else:
            done = f"{tenant.name} has the discount of {row.code} from its next period on."
            return notices.put(redirect("web:operator-coupon", row.code), done)
    page = page_of(request, row.redemptions.select_related("tenant").order_by("-pk"), PER_PAGE)
    context: dict[str, Any] = {
        "here": HERE,
        "coupon": row,
        "state": state_of(row, timezone.now()),
        "form": form,
        "page": page,
    }
    return render(request, "web/operator_coupon.html", context, status=form.status)


@for_operators
@require_POST
def end_coupon(request: HttpRequest, operator: OperatorToken, coupon: str) -> HttpResponse:
    """No one redeems it any more."""
    row = coupon_actions.end_coupon(sessions.operator_actor_of(request, operator), coupon, timezone.now())
    done = f"The coupon {row.code} is ended. Who has redeemed it keeps the discount."
    return notices.put(redirect("web:operator-coupon", row.code), done)


def state_of(row: Coupon, now: Any) -> str:
    """What becomes of someone who redeems it now."""
    if row.ended_at is not None:
        return "ended"
    if now < row.from_at:
        return "not yet"
    if now >= row.until_at:
        return "over"
    used: int = getattr(row, "used", 0)
    return "used up" if used >= row.uses_max else "open"


def _tenant(text: str) -> Tenant:
    """By its id, else by its name, which is unique among open tenants."""
    found = tenants.all_tenants().filter(Q(public_id=text) | Q(name=text)).order_by("pk").first()
    if found is None:
        raise NotFound(f"tenant: {text[:64]!r} is not there")
    return found
