"""A topic as its tenant wants it; a deleted one stays as a row, because usage and invoices name it.

live --binned_at--> in the recycle bin --restored--> live
live, in the bin --deleted_at--> deleted for good
"""

from django.db import models

from control_plane.outbox.models import DesiredObject
from penstock.contract.limits import TOPIC_NAME_LENGTH_MAX
from tenants.models import Tenant


class Topic(DesiredObject):
    """One topic. `topic_id` is what brokers and usage know it by."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="topics")
    name = models.CharField(max_length=TOPIC_NAME_LENGTH_MAX)
    topic_id = models.CharField(max_length=32, unique=True)
    """32 hex digits, chosen with the row, so that telling the brokers twice makes one topic."""
    partitions = models.PositiveIntegerField()
    settings = models.JSONField()
    """All settings, by name."""
    on_brokers = models.BooleanField(default=False)
    """The brokers have made it; from then on it is changed, not created."""
    copies_due = models.BooleanField(default=False)
    """Its partitions have, or had when it was last looked at, another number of copies than `replication` says."""
    binned_at = models.DateTimeField(null=True)
    """When it was put into the recycle bin; None: it is live, or it was deleted at once."""
    purge_at = models.DateTimeField(null=True)
    """When a topic in the bin is deleted for good."""
    deleted_at = models.DateTimeField(null=True)
    """When it was deleted for good."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(deleted_at__isnull=True, binned_at__isnull=True),
                name="topics_one_topic_a_name",
            ),
        )
