"""Makes coupons, ends them, and redeems them: a coupon adds its discount to a tenant's terms, once."""

import re
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import Count, QuerySet

from billing import terms_actions
from billing.coupon_models import Coupon, CouponRedemption
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents
from penstock.contract.errors import AlreadyExists, InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.resources import coupons as coupons_described
from penstock.contract.resources.checks import check
from penstock.contract.resources.coupons import CODE_LENGTH_MAX
from penstock.rules.charges import COUPON_PREFIX, is_over
from penstock.rules.timestamps import DAY_MS, time_ms
from tenants.models import Tenant

_CODE = re.compile(rf"[A-Z0-9][A-Z0-9-]{{5,{CODE_LENGTH_MAX - 1}}}")
_REFUSED = "code: no coupon of this code can be redeemed"
"""The same for a code that there is not, has ended or is used up: who guesses learns nothing."""


def coupons() -> QuerySet[Coupon]:
    """Every coupon, with how often it was `used`."""
    return Coupon.objects.annotate(used=Count("redemptions"))


def coupon_of(code: str) -> Coupon:
    """Raises `NotFound`."""
    row = coupons().filter(code=code).first()
    if row is None:
        raise NotFound(f"coupon {code[:CODE_LENGTH_MAX]!r}: not found")
    return row


def make_coupon(
    actor: Actor,
    *,
    code: str,
    basis_points: int,
    amount_micro: int,
    currency: str,
    days: int,
    uses_max: int,
    reason: str,
    from_at: datetime,
    until_at: datetime,
) -> Coupon:
    """A new coupon. Raises `InvalidRequest` and `AlreadyExists`."""
    if not _CODE.fullmatch(code):
        raise InvalidRequest(
            f"code: {code[:CODE_LENGTH_MAX]!r}; 6 to {CODE_LENGTH_MAX} of A to Z, 0 to 9 and - required"
        )
    check(coupons_described.DAYS, days)
    check(coupons_described.USES_MAX, uses_max)
    if until_at <= from_at:
        raise InvalidRequest("until_at: it must be after from_at")
    row = Coupon(
        code=code, basis_points=basis_points, amount_micro=amount_micro, currency=currency, days=days,
        uses_max=uses_max, reason=reason, from_at=from_at, until_at=until_at,
    )  # fmt: skip
    # What a tenant would get must be a discount that its terms take.
    _discount(row, from_at)
    if amount_micro:
        terms_actions.check_whole_coins("amount_micro", amount_micro, currency)
    try:
        with transaction.atomic():
            row.save()
            audit.record(
                actor,
                tenant=SYSTEM_TENANT,
                action="coupon.create",
                object_id=code,
                after={
                    "basis_points": basis_points,
                    "amount_micro": amount_micro,
                    "currency": currency,
                    "days": days,
                    "uses_max": uses_max,
                    "reason": reason,
                    "from_at": from_at.isoformat(),
                    "until_at": until_at.isoformat(),
                },
            )
    except IntegrityError:
        raise AlreadyExists(f"coupon {code}: it exists; take another code") from None
    return coupon_of(code)


def end_coupon(actor: Actor, code: str, now: datetime) -> Coupon:
    """No one redeems it any more. Who has redeemed it keeps the discount. Raises `NotFound`."""
    with transaction.atomic():
        row = Coupon.objects.select_for_update(no_key=True).filter(code=code).first()
        if row is not None and row.ended_at is None:
            row.ended_at = now
            row.save(update_fields=["ended_at"])
            audit.record(actor, tenant=SYSTEM_TENANT, action="coupon.end", object_id=code)
    return coupon_of(code)


def redeem(actor: Actor, tenant: Tenant, code: str, now: datetime) -> documents.Discount:
    """The discount that the tenant's next periods have. Raises `InvalidRequest`, for a closed tenant too, and
    `AlreadyExists` when the tenant has redeemed this coupon before.
    """
    with transaction.atomic(), terms_actions.locked(tenant) as own:
        if own.tenant.closed_at is not None:
            raise InvalidRequest(f"tenant: {own.tenant.name} is closed, so it has no next period to lower")
        # The tenant's row first, as everything does that locks both.
        row = Coupon.objects.select_for_update(no_key=True).filter(code=code).first()
        if row is None:
            raise InvalidRequest(_REFUSED)
        if CouponRedemption.objects.filter(coupon=row, tenant=tenant).exists():
            raise AlreadyExists("code: this tenant has redeemed the coupon before; it is redeemed once")
        open_now = row.ended_at is None and row.from_at <= now < row.until_at
        if not open_now or CouponRedemption.objects.filter(coupon=row).count() >= row.uses_max:
            raise InvalidRequest(_REFUSED)
        discount = _discount(row, now)
        terms = documents.read_document(own.document, documents.Terms, "terms")
        kept = [one for one in terms.discounts if not is_over(one, time_ms(now))]
        CouponRedemption.objects.create(coupon=row, tenant=tenant, at=now)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="coupon.redeem",
            object_id=code,
            after={"discount": documents.plain(discount)},
        )
        terms_actions.change_terms(
            actor,
            tenant.public_id,
            terms={
                **documents.plain(terms),
                "discounts": [documents.plain(one) for one in (*kept, discount)],
            },
            price_book_sha256=None if own.price_book is None else own.price_book.sha256,
            now=now,
            redeemed=discount.id,
        )
        return discount


def _discount(row: Coupon, at: datetime) -> documents.Discount:
    """What a tenant gets that redeems the coupon then. Raises `InvalidRequest`."""
    found = {
        "id": f"{COUPON_PREFIX}{row.code}",
        "basis_points": row.basis_points,
        "amount_micro": row.amount_micro,
        "currency": row.currency,
        "meters": [],
        "from_ms": time_ms(at),
        "until_ms": time_ms(at) + row.days * DAY_MS,
        "reason": row.reason,
    }
    return documents.read_document(found, documents.Discount, "coupon")
