"""A tenant's billing account: what it is invoiced in. Shape and constraints only."""

from django.db import models

from billing.models import Immutable
from tenants.models import Tenant


class IssuerSeries(models.Model):
    """A series of numbers of the issuer, over all tenants. Written under its row lock, by who issues a document."""

    series = models.CharField(max_length=30, unique=True)
    last = models.PositiveBigIntegerField(default=0)
    """The number that was given last."""


class BillingAccount(Immutable):
    """The currency of all of a tenant's invoices. A tenant without one has the currency of its first prices."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="billing_account")
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField(auto_now_add=True)
