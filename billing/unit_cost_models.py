"""What the service's infrastructure costs: shape and constraints only."""

from django.db import models

from billing.models import NAME_LENGTH_MAX
from control_plane.ids import LENGTH_MAX, new_id


def new_cost_id() -> str:
    return new_id("cost")


class InfrastructureCost(models.Model):
    """An asset for a time, as `penstock.rules.allocation.Asset` reads it. Of operators, and no tenant's."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_cost_id)
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    kind = models.CharField(max_length=16)
    driver = models.CharField(max_length=16)
    amount = models.PositiveIntegerField()
    price_micro = models.PositiveBigIntegerField()
    """Of one piece, in micro-units of the currency."""
    per = models.CharField(max_length=16)
    currency = models.CharField(max_length=3)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField(null=True)
    """None: it has no end yet."""
    capacity_month = models.PositiveBigIntegerField(null=True)
    """Of the driver, of all pieces in a whole UTC month; None: not known."""
    source = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    """Whose export it was read from; empty: an operator entered it."""
    revision = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(until_at=None) | models.Q(until_at__gt=models.F("from_at")),
                name="billing_cost_ends_later",
            ),
        )
        indexes = (models.Index(fields=["from_at"], name="billing_costs_by_time"),)
