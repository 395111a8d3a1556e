"""Who used what, and tags by which costs are shown: shape and constraints only."""

from django.db import models

from billing.models import METER_LENGTH_MAX, NAME_LENGTH_MAX, TOPIC_ID_DIGITS
from penstock.contract.resources.cost_tags import TAG_LENGTH_MAX
from tenants.models import Tenant


class PrincipalDay(models.Model):
    """Usage of one topic on one day by the key and the consumer group that used it (data set `principal_day`)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="principal_days")
    topic_id = models.CharField(max_length=TOPIC_ID_DIGITS)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    day = models.DateField()
    principal = models.PositiveBigIntegerField()
    """The brokers' number of the key (`ApiKey.principal_number`)."""
    group = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    """The consumer group; empty for what was produced, and for readers without a group."""
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    quantity = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "topic_id", "topic", "day", "principal", "group", "meter"],
                name="billing_one_quantity_a_principal",
            ),
        )
        indexes = (models.Index(fields=["tenant", "day"], name="billing_used_by_principal"),)


class CostTag(models.Model):
    """A value of one key, by which a tenant sums up costs: of a topic's name or of a principal."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="cost_tags")
    kind = models.CharField(max_length=16)
    """`topic` or `principal`."""
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    """The topic's, which may be gone: its usage keeps the tag. Of a principal as access lists and reports name it."""
    key = models.CharField(max_length=TAG_LENGTH_MAX)
    value = models.CharField(max_length=TAG_LENGTH_MAX)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "kind", "name", "key"], name="billing_one_value_a_tag"),
        )
        indexes = (models.Index(fields=["tenant", "kind", "key"], name="billing_tags_by_key"),)
