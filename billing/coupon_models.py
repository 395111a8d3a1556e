"""Coupons and who has redeemed them: shape and constraints only."""

from django.db import models

from billing.models import NAME_LENGTH_MAX, Immutable
from penstock.contract.resources.coupons import CODE_LENGTH_MAX
from tenants.models import Tenant


class Coupon(models.Model):
    """A discount that tenants get with a code. Only its end changes."""

    code = models.CharField(max_length=CODE_LENGTH_MAX, unique=True)
    basis_points = models.PositiveIntegerField()
    """Of each line; 0 for an amount."""
    amount_micro = models.PositiveBigIntegerField()
    """Of each period; 0 for a percentage."""
    currency = models.CharField(max_length=3, blank=True)
    days = models.PositiveIntegerField()
    """For periods that begin within so many days of its redemption."""
    uses_max = models.PositiveIntegerField()
    reason = models.CharField(max_length=NAME_LENGTH_MAX)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    """Redeemed within [from, until) only."""
    ended_at = models.DateTimeField(null=True)


class CouponRedemption(Immutable):
    """A tenant has redeemed a coupon, which it does once."""

    coupon = models.ForeignKey(Coupon, on_delete=models.PROTECT, related_name="redemptions")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="coupons")
    at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["coupon", "tenant"], name="billing_one_redemption_a_tenant"),
        )
