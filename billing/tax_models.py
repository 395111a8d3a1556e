"""Where a tenant is for taxes, and what Stripe Tax calculates for its drafts: shape and constraints only."""

from django.db import models

from billing.models import Invoice
from tenants.models import Tenant

ADDRESS_LENGTH_MAX = 200
TAX_ID_LENGTH_MAX = 50
EMAIL_LENGTH_MAX = 254
TEXT_LENGTH_MAX = 500


class TaxAddress(models.Model):
    """A tenant's billing profile: who and where it is, as it says itself. Written under the tenant's row lock."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="tax_address")
    country = models.CharField(max_length=2)
    """As in ISO 3166-1."""
    state = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True)
    postal_code = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True)
    city = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True)
    line1 = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True)
    line2 = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True)
    tax_id_type = models.CharField(max_length=20, blank=True)
    """As Stripe calls it: `eu_vat`. Empty, as is its value: the tenant has none."""
    tax_id = models.CharField(max_length=TAX_ID_LENGTH_MAX, blank=True)
    legal_name = models.CharField(max_length=ADDRESS_LENGTH_MAX, blank=True, default="")
    """Who is invoiced, as its register calls it; empty: the tenant's name stands for it."""
    email = models.CharField(max_length=EMAIL_LENGTH_MAX, blank=True, default="")
    """Where issued invoices go; empty: to the people who may pay them."""
    no_mail = models.BooleanField(default=False)
    """Whether issued invoices are not sent by e-mail."""
    changed_at = models.DateTimeField()


class TaxCalculation(models.Model):
    """What Stripe Tax is asked for a draft, and its answer. Written under the tenant's row lock."""

    invoice = models.OneToOneField(Invoice, on_delete=models.PROTECT, related_name="tax_calculation")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="tax_calculations")
    question = models.PositiveIntegerField()
    """Counts the questions: another one is asked where address, lines or prices have changed."""
    request = models.JSONField()
    """{currency, address, tax_ids, lines: [{line, base_micro}], tax_at_ms}"""
    statement = models.JSONField(null=True)
    """`penstock.contract.documents.TaxStatement`; null: not answered yet."""
    problem = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    """Why it was not answered the last time."""
    key_version = models.PositiveIntegerField(default=1)
    """Part of the idempotency key. It grows when Stripe answered it with a fault or refusal, which it repeats."""
    generation = models.PositiveBigIntegerField(default=0)
    """Counts what was given to the outbox."""
    unsent_since = models.DateTimeField(null=True)
    """Since when Stripe is to be asked. It waits for its turn, or for `retry_at`."""
    retry_at = models.DateTimeField(null=True)
    """Stripe refused or did not answer: it is not asked before."""
    failures = models.PositiveIntegerField(default=0)
    """In a row."""

    class Meta:
        indexes = (
            models.Index(
                fields=["unsent_since"],
                name="billing_tax_unsent",
                condition=models.Q(unsent_since__isnull=False),
            ),
        )
