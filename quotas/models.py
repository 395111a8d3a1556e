"""The limits of a tenant, where they differ from the plan's."""

from django.db import models

from tenants.models import Tenant


class Quota(models.Model):
    """None = the plan's limit; 0 = no limit."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="quota")
    produce_bytes_per_s = models.PositiveBigIntegerField(null=True)
    partitions_max = models.PositiveIntegerField(null=True)
