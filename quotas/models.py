"""Published versions of plans, which plan a tenant is on, and its limits where they differ from the plan's."""

from typing import ClassVar

from django.db import models

from control_plane.ids import LENGTH_MAX, new_budget_id
from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from quotas.plans import PLAN_NAME_LENGTH_MAX
from tenants.models import ServiceAccount, Tenant


class PlanVersion(models.Model):
    """A version of a plan that an operator has published. Never changed."""

    name = models.CharField(max_length=PLAN_NAME_LENGTH_MAX)
    version = models.PositiveIntegerField()
    limits = models.JSONField()
    service_level = models.JSONField(null=True)
    """`penstock.contract.service_level_documents.Level`; None = `standard` 1, as before plans named one."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["name", "version"], name="one_plan_version")]


class PlanChange(models.Model):
    """A tenant went to another plan, from this one. So it is known which plan it was on when a month began."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="plan_changes")
    plan = models.CharField(max_length=PLAN_NAME_LENGTH_MAX, default="", blank=True)
    """Empty = the service's default."""
    plan_version = models.PositiveIntegerField(default=0)
    changed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["tenant", "changed_at"], name="quotas_plan_changes_by_time")
        ]


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


class Budget(models.Model):
    """What a tenant, one of its topics or one of its service accounts may use in a period. Brokers get it with the
    tenant. What it counts, and of what, is never changed: what was counted would mean another thing."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="budgets")
    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_budget_id)
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    period = models.CharField(max_length=10)
    measure = models.CharField(max_length=10)
    amount = models.PositiveBigIntegerField()
    """Bytes, messages, or micro-units of the currency of the tenant's price book."""
    thresholds = models.JSONField()
    """Percents of the amount, rising."""
    policy = models.CharField(max_length=20)
    slow_bytes_per_s = models.PositiveBigIntegerField(default=0)
    topic = models.CharField(max_length=TOPIC_NAME_LENGTH_MAX, default="", blank=True)
    """Empty = all topics."""
    account = models.ForeignKey(ServiceAccount, on_delete=models.CASCADE, related_name="budgets", null=True)
    """None = all who produce and read."""
    counts_reads = models.BooleanField(default=False, db_default=False)
    """What is delivered to consumers counts as well, as what is produced does."""
    used_before = models.PositiveBigIntegerField(default=0, db_default=0)
    """Units that the period in which it was made had used by then, as usage was known."""
    growth_stopped_at = models.DateTimeField(null=True)
    """Of a ceiling: since when growth is refused; None: it is not."""
    kept_bytes_max = models.PositiveBigIntegerField(null=True)
    """What the tenant may keep while growth is refused; None: what its limits say."""
    forecast_micro = models.PositiveBigIntegerField(null=True)
    """What the month is expected to cost, as of the next one; None: it is not known."""
    forecast_at = models.DateTimeField(null=True)
    look_failed_at = models.DateTimeField(null=True)
    """Of a ceiling: since when looks at it fail; None: the last one did not."""
    noted_period_ms = models.BigIntegerField(default=0)
    """The first ms of the period that the next two are of."""
    noted_percent = models.PositiveIntegerField(default=0)
    """The highest threshold that was said; 0 = none."""
    noted_used = models.PositiveBigIntegerField(default=0)
    """What was used when it was said."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_budget_of_a_name")
        ]


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
    rest_processor_ms_per_s = models.PositiveIntegerField(null=True)
    connections_max = models.PositiveIntegerField(null=True)
    groups_max = models.PositiveIntegerField(null=True)
    requests_per_s = models.PositiveIntegerField(null=True)
    connection_attempts_per_s = models.PositiveIntegerField(null=True)
    rate_burst_ms = models.PositiveIntegerField(null=True)
    rate_floor_percent = models.PositiveIntegerField(null=True)
    storage_bytes_max = models.PositiveBigIntegerField(null=True)
    partition_changes_per_hour = models.PositiveIntegerField(null=True)
    broker_processor_ms_per_s = models.PositiveIntegerField(null=True)
