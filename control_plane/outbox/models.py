"""A row for every generation of an object that must be delivered, and what desired objects have in common."""

from django.db import models

from control_plane.ids import LENGTH_MAX


class Delivery(models.Model):
    """A generation of an object that the brokers still have to get. The row decides; messages only wake a worker."""

    kind = models.CharField(max_length=32)
    """Chooses the deliverer."""
    object_id = models.CharField(max_length=64)
    tenant = models.CharField(max_length=LENGTH_MAX)
    generation = models.PositiveBigIntegerField()
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField()
    lease_holder = models.CharField(max_length=40, blank=True)
    lease_until = models.DateTimeField(null=True)
    reason = models.CharField(max_length=40, blank=True, default="")
    """Code of the refusal that ended the last attempt, in small letters."""
    error = models.TextField(blank=True)
    """Its message."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["kind", "object_id", "generation"], name="outbox_one_row_a_generation"
            ),
        )
        indexes = (
            models.Index(
                fields=["next_attempt_at"],
                name="outbox_due",
                condition=models.Q(delivered_at__isnull=True),
            ),
        )


class DesiredObject(models.Model):
    """What a change of desired state counts up, and what is known of its delivery."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    generation = models.PositiveBigIntegerField(default=1)
    """Counts the changes that brokers must hear of."""
    delivered_generation = models.PositiveBigIntegerField(default=0)
    delivered_revision = models.PositiveBigIntegerField(default=0)
    """Metadata revision that had it when it was last delivered; an older view says nothing about this object."""
    conditions = models.JSONField(default=list, blank=True)
    """What keeps the brokers from what is wanted: {type, reason, message, since}."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
