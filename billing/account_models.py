"""A tenant's billing account: what it is invoiced in. Shape and constraints only."""

from django.db import models

from billing.models import Immutable
from tenants.models import Tenant


class BillingAccount(Immutable):
    """The currency of all of a tenant's invoices. A tenant without one has the currency of its first prices."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="billing_account")
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField(auto_now_add=True)
