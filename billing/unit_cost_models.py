"""What the service's infrastructure costs: shape and constraints only."""

from django.db import models

from billing.models import NAME_LENGTH_MAX, SHA256_DIGITS
from control_plane.ids import LENGTH_MAX, new_id


def new_cost_id() -> str:
    return new_id("cost")


def new_import_id() -> str:
    return new_id("cim")


class CostSource(models.Model):
    """Whose exports are taken in. Its row is locked meanwhile: two imports of one source wait for each other."""

    name = models.CharField(max_length=NAME_LENGTH_MAX, unique=True)


class CostImport(models.Model):
    """An export that was taken in, with what the source had in its months before: so it can be undone."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_import_id)
    source = models.ForeignKey(CostSource, on_delete=models.PROTECT, related_name="imports")
    sha256 = models.CharField(max_length=SHA256_DIGITS)
    """Of what was read: equal digests are equal costs."""
    months = models.JSONField()
    """As 2026-11, those that its rows begin in."""
    rows = models.PositiveBigIntegerField()
    """Of the file."""
    costs = models.PositiveIntegerField()
    """That it became."""
    totals = models.JSONField()
    """Currency -> micro-units."""
    before = models.JSONField()
    """The source's costs in these months before."""
    made_at = models.DateTimeField()
    undone_at = models.DateTimeField(null=True)


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
