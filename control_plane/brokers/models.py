"""What the control plane remembers of the cluster: where its brokers were last seen."""

from django.db import models


class KnownBroker(models.Model):
    """One broker, as the brokers told of it. Any of them answers for all, so that those in the configuration may go."""

    broker = models.PositiveIntegerField(unique=True)
    internal_address = models.CharField(max_length=300)
    changed_at = models.DateTimeField()
