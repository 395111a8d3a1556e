"""What the control plane remembers of the cluster: where its brokers were last seen."""

from django.db import models


class KnownBroker(models.Model):
    """One broker, as the cluster reported it. Any broker answers for all, so the configured ones may be removed."""

    broker = models.PositiveIntegerField(unique=True)
    internal_address = models.CharField(max_length=300)
    changed_at = models.DateTimeField()
