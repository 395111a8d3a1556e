"""An entry for every change, never altered, chained by SHA-256 within its tenant."""

from django.db import models

from control_plane.ids import LENGTH_MAX
from penstock.contract.audit_entries import DONE, KIND_MAX, NAME_MAX, NO_HASH, REFUSED


class AuditEntry(models.Model):
    """One change, or how often something was refused or read in a minute.

    `previous_hash` is the `hash` of the tenant's entry before, 64 zeros for the first.
    """

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

    # For searches, as `penstock.contract.audit_entries.facts` reads them out of the hashed fields above. Their
    # defaults are the database's: a release before 0.2 may write beside this one.
    outcome = models.CharField(max_length=16, db_default=DONE)
    times = models.PositiveBigIntegerField(db_default=1)
    object_kind = models.CharField(max_length=KIND_MAX, db_default="", blank=True)
    """Empty: a release before 0.2 wrote it, and it waits for `actions.classify`."""
    object_name = models.CharField(max_length=NAME_MAX, db_default="", blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "sequence"], name="audit_one_entry_a_sequence"),
        )
        # Searches are in the order of (at, sequence), so each of these gives a page without sorting.
        indexes = (
            models.Index(fields=["tenant", "at", "sequence"], name="audit_by_time"),
            models.Index(fields=["tenant", "actor_id", "at", "sequence"], name="audit_by_actor"),
            models.Index(fields=["tenant", "object_id", "at", "sequence"], name="audit_by_object"),
            models.Index(fields=["tenant", "object_kind", "at", "sequence"], name="audit_by_kind"),
            models.Index(fields=["tenant", "action", "at", "sequence"], name="audit_by_action"),
            models.Index(
                fields=["tenant", "object_name", "object_id"],
                name="audit_by_name",
                condition=~models.Q(object_name=""),
            ),
            models.Index(
                fields=["tenant", "at", "sequence"],
                name="audit_refused",
                condition=models.Q(outcome=REFUSED),
            ),
            models.Index(fields=["id"], name="audit_unclassified", condition=models.Q(object_kind="")),
        )


class AuditHead(models.Model):
    """The end of a tenant's chain; its row is the lock under which the chain grows."""

    tenant = models.CharField(max_length=LENGTH_MAX, unique=True)
    sequence = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64, default=NO_HASH)


class AuditTally(models.Model):
    """How often a web process saw something refused or read in a minute. The worker chains it and removes it."""

    tenant = models.CharField(max_length=LENGTH_MAX)
    minute = models.DateTimeField()
    outcome = models.CharField(max_length=16)
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    action = models.CharField(max_length=64)
    times = models.PositiveBigIntegerField()
    request_id = models.CharField(max_length=64, blank=True)
    """Of the first of them, as `source`."""
    source = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes = (models.Index(fields=["minute", "tenant"], name="audit_tally_by_minute"),)
