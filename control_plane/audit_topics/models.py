"""Which tenants have their audit log in a topic, how far it has come, and the key that writes it."""

from django.db import models

from control_plane.couriers.leases import Leased
from penstock.contract.topic_settings import UNLIMITED
from tenants.models import ApiKey, Tenant

ON, OFF = "on", "off"
PROBLEM_LENGTH_MAX = 300


class AuditTopic(Leased):
    """A tenant's setting. There is no row before it is switched on for the first time."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="audit_topic")
    state = models.CharField(max_length=8, default=OFF)
    retention_ms = models.BigIntegerField(default=UNLIMITED)
    position = models.PositiveBigIntegerField(default=0)
    """Sequence of the newest entry that the topic has. All entries before it are there too, or were."""
    key = models.OneToOneField(ApiKey, on_delete=models.PROTECT, related_name="audit_topic", null=True)
    """The service's own key of the tenant, for this topic alone. None while it is off."""
    secret = models.TextField(blank=True)
    """The key's text, encrypted."""
    problem = models.CharField(max_length=PROBLEM_LENGTH_MAX, blank=True)
    """Why the last attempt failed; empty: it did not."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (models.Index(fields=["due_at"], name="audit_topics_by_due"),)

    @property
    def called(self) -> str:
        return self.tenant.public_id
