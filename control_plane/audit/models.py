"""An entry for every change, never altered, chained by SHA-256 within its tenant."""

from django.db import models

from control_plane.ids import LENGTH_MAX

NO_HASH = "0" * 64


class AuditEntry(models.Model):
    """One change. `previous_hash` is the `hash` of the tenant's entry before, 64 zeros for the first."""

    tenant = models.CharField(max_length=LENGTH_MAX)
    """Public id, so that the log outlives its tenant."""
    sequence = models.PositiveBigIntegerField()
    """1, 2, … without gaps within the tenant."""
    at = models.DateTimeField()
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    action = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, blank=True)
    source = models.CharField(max_length=64, blank=True)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "sequence"], name="audit_one_entry_a_sequence"),
        )


class AuditHead(models.Model):
    """The end of a tenant's chain; its row is the lock under which the chain grows."""

    tenant = models.CharField(max_length=LENGTH_MAX, unique=True)
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=NO_HASH)
