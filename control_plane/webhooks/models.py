"""Webhooks of tenants, how far each has come in each source of events, and its last attempts."""

from django.db import models

from control_plane.couriers.leases import Leased
from control_plane.ids import LENGTH_MAX
from penstock.contract.limits import KEY_NAME_LENGTH_MAX, WEBHOOK_URL_LENGTH_MAX
from tenants.models import Tenant

ON, OFF = "on", "off"
ASKED, GONE, FAILING = "asked", "gone", "failing"
"""Why one is off: a caller switched it off; the endpoint answered 410; days of attempts failed."""
ERROR_LENGTH_MAX = 200
EVENT_LENGTH_MAX = 100


class Webhook(Leased):
    """An endpoint of a tenant. The row's lease says which courier delivers to it."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="webhooks")
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    url = models.CharField(max_length=WEBHOOK_URL_LENGTH_MAX)
    events = models.JSONField(default=list)
    """Patterns of event types, sorted."""
    secret = models.TextField()
    """Encrypted, see `signing`."""
    previous_secret = models.TextField(blank=True)
    """Signs beside `secret` until `previous_until`."""
    previous_until = models.DateTimeField(null=True)
    state = models.CharField(max_length=8, default=ON)
    reason = models.CharField(max_length=16, blank=True)
    """Why it is off."""
    off_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    pings = models.PositiveIntegerField(default=0)
    """Test events that were asked for."""
    pings_sent = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "name"], name="webhooks_one_webhook_a_name"),
        )
        indexes = (models.Index(fields=["due_at"], name="webhooks_by_due"),)

    @property
    def called(self) -> str:
        return self.public_id


class WebhookPosition(models.Model):
    """A webhook has, or has left out, every event of the source up to this position."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="positions")
    source = models.CharField(max_length=32)
    position = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["webhook", "source"], name="webhooks_one_position_a_source"),
        )


class WebhookAttempt(models.Model):
    """One attempt to deliver an event. The last ones of each webhook are kept."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="attempts")
    event_id = models.CharField(max_length=EVENT_LENGTH_MAX)
    event_type = models.CharField(max_length=EVENT_LENGTH_MAX)
    number = models.PositiveIntegerField()
    """1 is the first for this event."""
    at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    status = models.PositiveSmallIntegerField(null=True)
    """Of the endpoint's answer; None: there was none."""
    delivered = models.BooleanField()
    error = models.CharField(max_length=ERROR_LENGTH_MAX, blank=True)
