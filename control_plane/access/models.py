"""A key's binding: which operations on which topics and groups. A key without one may do everything."""

from django.db import models

from penstock.contract.limits import TOPIC_NAME_LENGTH_MAX
from tenants.models import ApiKey


class KeyBinding(models.Model):
    """Operations on the topics and groups whose name begins with `topic_prefix`."""

    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="bindings")
    topic_prefix = models.CharField(max_length=TOPIC_NAME_LENGTH_MAX, blank=True)
    operations = models.JSONField(default=list)
    """Names of operations; none = all."""
