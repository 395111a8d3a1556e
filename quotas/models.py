"""Published versions of plans, which plan a tenant is on, and its limits where they differ from the plan's."""

from typing import ClassVar

from django.db import models

from quotas.plans import PLAN_NAME_LENGTH_MAX
from tenants.models import ServiceAccount, Tenant


class PlanVersion(models.Model):
    """A version of a plan that an operator has published. Never changed."""

    name = models.CharField(max_length=PLAN_NAME_LENGTH_MAX)
    version = models.PositiveIntegerField()
    limits = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["name", "version"], name="one_plan_version")]


class PartitionChanges(models.Model):
    """How many changes of topics and partitions the tenant has made since `began_at`. A row of the database, so that a
    change that is undone is not counted."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="partition_changes")
    began_at = models.DateTimeField()
    changes = models.PositiveBigIntegerField()


class StorageWarning(models.Model):
    """Of how much of `storage_bytes_max` the tenant's owners have got an e-mail. Gone once the tenant keeps less than
    75 %, so that the next crossing is said again."""

    tenant = models.OneToOneField(Tenant, on_delete=models.CASCADE, related_name="storage_warning")
    percent = models.PositiveSmallIntegerField()
    """80 or 100."""
    warned_at = models.DateTimeField()


class AccountLimits(models.Model):
    """Limits of one service account beside its tenant's, or of each that has none of its own. None = those that each
    account has, of which None = only the tenant's limit; 0 = only the tenant's limit."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="account_limits")
    account = models.OneToOneField(ServiceAccount, on_delete=models.CASCADE, related_name="limits", null=True)
    """None = each service account of the tenant."""
    produce_bytes_per_s = models.PositiveBigIntegerField(null=True)
    consume_bytes_per_s = models.PositiveBigIntegerField(null=True)
    requests_per_s = models.PositiveIntegerField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant"], condition=models.Q(account=None), name="one_default_of_accounts"
            )
        ]


class Quota(models.Model):
    """Of limits: None = the plan's, 0 = no limit, or no recycle bin."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="quota")
    plan = models.CharField(max_length=PLAN_NAME_LENGTH_MAX, default="", blank=True)
    """Empty = the service's default."""
    plan_version = models.PositiveIntegerField(default=0)
    produce_bytes_per_s = models.PositiveBigIntegerField(null=True)
    partitions_max = models.PositiveIntegerField(null=True)
    topics_max = models.PositiveIntegerField(null=True)
    retention_ms_max = models.PositiveBigIntegerField(null=True)
    message_bytes_max = models.PositiveIntegerField(null=True)
    service_accounts_max = models.PositiveIntegerField(null=True)
    bin_days = models.PositiveIntegerField(null=True)
    keys_max = models.PositiveIntegerField(null=True)
    consume_bytes_per_s = models.PositiveBigIntegerField(null=True)
    rest_calls_per_s = models.PositiveIntegerField(null=True)
    connections_max = models.PositiveIntegerField(null=True)
    groups_max = models.PositiveIntegerField(null=True)
    requests_per_s = models.PositiveIntegerField(null=True)
    connection_attempts_per_s = models.PositiveIntegerField(null=True)
    rate_burst_ms = models.PositiveIntegerField(null=True)
    rate_floor_percent = models.PositiveIntegerField(null=True)
    storage_bytes_max = models.PositiveBigIntegerField(null=True)
    partition_changes_per_hour = models.PositiveIntegerField(null=True)
