"""What service levels are measured with, what was excluded, and what was credited: shape and constraints only."""

from django.db import models

from billing.models import NAME_LENGTH_MAX, SHA256_DIGITS, Immutable
from control_plane.ids import LENGTH_MAX, new_id
from tenants.models import Tenant

OPERATION_LENGTH_MAX = 32
REASON_LENGTH_MAX = 200


def new_exclusion_id() -> str:
    return new_id("exc")


def new_report_id() -> str:
    return new_id("slr")


class ServiceLevelStart(models.Model):
    """The first month that is posted, where a service had tenants before it had service levels. Others have no row."""

    first = models.DateField()


class SlaMinute(models.Model):
    """A minute with requests that failed by our fault (data set `sla_minute`)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="sla_minutes")
    operation = models.CharField(max_length=OPERATION_LENGTH_MAX)
    minute = models.BigIntegerField()
    """Since 1970 UTC."""
    valid = models.PositiveBigIntegerField()
    bad = models.PositiveBigIntegerField()
    succeeded_seconds = models.PositiveBigIntegerField()
    """Seconds with a good answer, as bits, the first one the lowest."""
    failed_seconds = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "operation", "minute"], name="billing_one_sla_minute"),
        )


class SlaSlow(models.Model):
    """Good answers of a window that took longer than `over_ms` (data set `sla_slow_5m`)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="sla_slow")
    operation = models.CharField(max_length=OPERATION_LENGTH_MAX)
    window = models.DateTimeField()
    over_ms = models.PositiveIntegerField()
    slow = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "operation", "window", "over_ms"], name="billing_one_slow_a_window"
            ),
        )


class LatencyDay(models.Model):
    """Good answers of a day by bucket of their latency (data set `latency_day`)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="latency_days")
    operation = models.CharField(max_length=OPERATION_LENGTH_MAX)
    day = models.DateField()
    bucket = models.PositiveIntegerField()
    """Of `penstock.rules.latency_buckets`."""
    requests = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "operation", "day", "bucket"], name="billing_one_latency_a_day"
            ),
        )


class ProbeMinute(models.Model):
    """What one prober tried in a minute, from outside of the brokers. It writes its minute whole, so twice is once."""

    prober = models.CharField(max_length=NAME_LENGTH_MAX)
    operation = models.CharField(max_length=OPERATION_LENGTH_MAX)
    minute = models.BigIntegerField()
    """Since 1970 UTC."""
    valid = models.PositiveIntegerField()
    bad = models.PositiveIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["operation", "minute", "prober"], name="billing_one_minute_a_prober"
            ),
        )


class ServiceExclusion(models.Model):
    """Time that an operator takes out of service levels, announced before, with a reason. It may be ended, never
    removed.
    """

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_exclusion_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="sla_exclusions")
    """None: of all tenants."""
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    reason = models.CharField(max_length=REASON_LENGTH_MAX)
    withdrawn_at = models.DateTimeField(null=True)
    """From then on it excludes nothing; reports that were posted keep it."""
    created_at = models.DateTimeField()
    """When it was announced."""
    announced_to = models.BigIntegerField(default=0)
    """Each tenant up to this row has it in its audit log; the logs of the others say whether they have."""
    withdrawal_announced_to = models.BigIntegerField(default=0)
    """The same of its end."""

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(until_at__gt=models.F("from_at")), name="billing_exclusion_ends_later"
            ),
        )
        indexes = (models.Index(fields=["from_at"], name="billing_exclusions_by_time"),)


class ServiceLevelReport(Immutable):
    """A tenant's month as it was posted: the evidence, and the credit that follows from it."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_report_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="sla_reports")
    month = models.DateField()
    """Its first day."""
    document = models.JSONField()
    """`penstock.contract.service_level_documents.ServiceLevelDocument`."""
    document_sha256 = models.CharField(max_length=SHA256_DIGITS)
    credit_micro = models.PositiveBigIntegerField()
    posted_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "month"], name="billing_one_sla_report_a_month"),
        )
