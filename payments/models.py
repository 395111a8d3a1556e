"""Receivables, payments, Stripe's customers and events, and reports of the reconciliation: shape and constraints only.

Amounts are micro-units of the invoice's currency.
"""

from django.db import models

from billing.models import Immutable, Invoice
from control_plane.ids import LENGTH_MAX, new_id
from payments.states import Balance, State
from tenants.models import Person, Tenant

REFERENCE_LENGTH_MAX = 120
STRIPE_ID_LENGTH_MAX = 255
"""As Stripe says of its ids."""
TEXT_LENGTH_MAX = 500


def new_receivable_id() -> str:
    return new_id("rcv")


def new_payment_id() -> str:
    return new_id("pay")


class StripeCustomer(models.Model):
    """Who a tenant is to Stripe, and how it pays there. Written under the tenant's row lock."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="stripe_customer")
    stripe_id = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, unique=True)
    method = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    """How it pays, for people: `visa ending in 4242`. Empty: it has named no way."""
    former_ids = models.JSONField(default=list)
    """Ids that it had before, and that were deleted at Stripe. Invoices and payments there still name them."""
    method_id = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)


class CustomerKey(models.Model):
    """Part of the idempotency key by which a tenant is made a customer at Stripe. Without a row it is 1. It grows when
    Stripe has answered a key with a fault or a refusal, which it would repeat.
    """

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="stripe_customer_key")
    version = models.PositiveIntegerField(default=1)


class Receivable(models.Model):
    """What is owed of one issued invoice, in whole coins of its currency. Written under the tenant's row lock.

    What a delivery to Stripe notes of its attempts is not: there is one delivery at a time.
    """

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_receivable_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="receivables")
    invoice = models.OneToOneField(Invoice, on_delete=models.PROTECT, related_name="receivable")
    state = models.CharField(max_length=16, choices=[(one.value, one.value) for one in State])
    currency = models.CharField(max_length=3)
    total_micro = models.BigIntegerField()
    noted_micro = models.BigIntegerField(default=0)
    """The sum of the credit notes that `credited_micro` follows from."""
    credited_micro = models.BigIntegerField(default=0)
    voided_micro = models.BigIntegerField(default=0, db_default=0)
    """What an operator took back by making it void; 0: it was not."""
    paid_micro = models.BigIntegerField(default=0)
    refunded_micro = models.BigIntegerField(default=0)
    due_at = models.DateTimeField()
    reminders = models.PositiveIntegerField(default=0)
    """How many reminders were sent."""
    reminded_at = models.DateTimeField(null=True)
    """When the last reminder was sent."""
    suspended_at = models.DateTimeField(null=True)
    """When the tenant was suspended for it, which happens once: an operator may have resumed it since."""
    alerted_at = models.DateTimeField(null=True)
    """When operators were alerted, after the last reminder."""
    closed_at = models.DateTimeField(null=True)
    """When it became paid, uncollectible or void."""
    generation = models.PositiveBigIntegerField(default=0)
    """Counts what was given to the outbox for Stripe; 0 = nothing."""
    unsent_since = models.DateTimeField(null=True)
    """Since when Stripe must hear of it. It waits for its turn, for `retry_at`, or until payment through Stripe is
    on.
    """
    retry_at = models.DateTimeField(null=True)
    """Stripe refused it or did not answer: it is not tried before."""
    failures = models.PositiveIntegerField(default=0)
    """Deliveries in a row that did not get to their end."""
    refused = models.BooleanField(default=False)
    """Whether `problem` says why the last delivery did not get to its end."""
    waits = models.BooleanField(default=False)
    """It is less than Stripe charges, so it waits for a later invoice that carries it."""
    carried_by = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="carries")
    """The receivable with whose invoice at Stripe it is collected."""
    compared_at = models.DateTimeField(null=True)
    """When it was compared with Stripe last."""
    stripe_invoice = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    stripe_state = models.CharField(max_length=32, blank=True)
    """What Stripe called the state of its invoice last."""
    pay_url = models.TextField(blank=True)
    """Stripe's page on which the invoice can be paid."""
    key_version = models.PositiveIntegerField(default=1)
    """Part of idempotency keys. It grows when Stripe has answered a key with a fault or a refusal, which it would
    repeat.
    """
    charge = models.PositiveIntegerField(default=1)
    """Number of the attempt to charge the tenant's payment method."""
    charged = models.PositiveIntegerField(default=0)
    """The last attempt whose outcome is known."""
    problem = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    """Why it is not collected. Operators are alerted."""
    changed_there = models.BooleanField(default=False, db_column="held")
    """Someone has changed it at Stripe, as `problem` says: reminders wait until an operator has decided."""
    asked_again = models.BooleanField(default=False)
    """An operator has decided that Stripe asks for it again, where it is `changed_there`: with another invoice."""
    mail_due = models.BooleanField(default=False)
    """Whether the invoice is still to be sent by e-mail."""
    notes_mailed = models.PositiveIntegerField(default=0, db_default=0)
    """Credit notes of the invoice that were sent by e-mail, or are not to be: the first so many."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(
                    total_micro__gte=0,
                    credited_micro__gte=0,
                    voided_micro__gte=0,
                    paid_micro__gte=0,
                    refunded_micro__gte=0,
                ),
                name="payments_no_negative_amount",
            ),
            models.CheckConstraint(
                condition=models.Q(credited_micro__lte=models.F("total_micro") - models.F("voided_micro"))
                & models.Q(refunded_micro__lte=models.F("paid_micro")),
                name="payments_no_more_back_than_forth",
            ),
            models.UniqueConstraint(
                fields=["stripe_invoice"],
                name="payments_one_stripe_invoice",
                condition=~models.Q(stripe_invoice=""),
            ),
        )
        indexes = (
            models.Index(fields=["state", "due_at"], name="payments_by_state"),
            models.Index(
                fields=["unsent_since"],
                name="payments_unsent",
                condition=models.Q(unsent_since__isnull=False),
            ),
        )

    @property
    def balance(self) -> Balance:
        """Its money."""
        return Balance(
            total_micro=self.total_micro,
            credited_micro=self.credited_micro,
            voided_micro=self.voided_micro,
            paid_micro=self.paid_micro,
            refunded_micro=self.refunded_micro,
        )

    @property
    def asked_micro(self) -> int:
        return self.balance.asked_micro

    @property
    def open_micro(self) -> int:
        return self.balance.open_micro

    @property
    def page(self) -> str:
        """Stripe's page on which it can be paid, alone or with what carries it; empty: there is none."""
        return self.pay_url if self.carried_by is None else self.carried_by.pay_url

    @property
    def overpaid_micro(self) -> int:
        return self.balance.overpaid_micro


class Payment(Immutable):
    """Money that came, or that was given back."""

    class Kind(models.TextChoices):
        PAYMENT = "payment"
        REFUND = "refund"
        REFUND_FAILED = "refund_failed"
        """A refund that was counted did not reach the payer."""
        DISPUTE = "dispute"
        """The payer's bank took it back."""
        DISPUTE_WON = "dispute_won"
        """What was taken back by a dispute was returned."""

    class Source(models.TextChoices):
        STRIPE = "stripe"
        BANK = "bank"
        OUT_OF_BAND = "out_of_band"
        """Someone has marked Stripe's invoice as paid without Stripe. The reference is the id of that invoice."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_payment_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="payments")
    receivable = models.ForeignKey(Receivable, on_delete=models.PROTECT, related_name="payments")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    source = models.CharField(max_length=16, choices=Source.choices)
    reference = models.CharField(max_length=STRIPE_ID_LENGTH_MAX)
    """Stripe's id of the payment or refund, or what the bank calls it. It is counted once."""
    amount_micro = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "kind", "source", "reference"], name="payments_counted_once"
            ),
            models.CheckConstraint(condition=models.Q(amount_micro__gt=0), name="payments_of_something"),
        )


class TaxReport(Immutable):
    """A transaction of Stripe Tax: an invoice as sold, or what was given back of it. In Stripe's minor units."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="tax_reports")
    receivable = models.ForeignKey(Receivable, on_delete=models.PROTECT, related_name="tax_reports")
    part = models.CharField(max_length=STRIPE_ID_LENGTH_MAX)
    """`sale`, the id of the credit note, or that of the void."""
    stripe_id = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, unique=True)
    amount = models.BigIntegerField()
    """With the tax; negative for what was given back."""
    tax = models.BigIntegerField()
    reported_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["receivable", "part"], name="payments_tax_reported_once"),
        )


class StripeEvent(models.Model):
    """An event that Stripe sent, with a signature that was right."""

    event_id = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, unique=True)
    type = models.CharField(max_length=120)
    customer = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    object_id = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    invoice = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    payment = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    """Of a refund, a charge or a dispute: Stripe's id of the payment."""
    received_at = models.DateTimeField()
    processed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)

    class Meta:
        indexes = (
            models.Index(
                fields=["id"],
                name="payments_events_to_process",
                condition=models.Q(processed_at__isnull=True),
            ),
        )


class ReconciliationReport(Immutable):
    """One comparison of receivables with Stripe."""

    at = models.DateTimeField()
    compared = models.PositiveIntegerField()
    unsent = models.PositiveIntegerField(default=0)
    """Receivables that Stripe had to hear of then."""
    differences = models.JSONField()
    """[{kind, tenant, invoice, stripe_invoice, ours, theirs}]"""


class ReconciliationRun(models.Model):
    """A comparison under way; there is one at most. It goes on where the last step of it ended."""

    started_at = models.DateTimeField()
    since = models.DateTimeField()
    """What was made or closed before, and is not open, was compared by an earlier one."""
    patient = models.BooleanField()
    """Whether suspects are compared by a delivery before they are named."""
    phase = models.CharField(max_length=16)
    after = models.CharField(max_length=STRIPE_ID_LENGTH_MAX, blank=True)
    """The last of Stripe's objects of the phase that was read."""
    compared = models.PositiveIntegerField(default=0)
    found = models.JSONField(default=list)
    """Differences that no receivable here belongs to."""
    suspects = models.JSONField(default=list)
    """Ids of receivables that differ; they are looked at again at the end."""


class FormerPayer(models.Model):
    """Who could pay the invoices of a tenant that was purged since. They can still read and pay them."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="former_payers")
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="+")
    tenant_name = models.CharField(max_length=TEXT_LENGTH_MAX)
    """What the tenant was called. Its name is free since."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "person"], name="payments_one_former_payer"),
        )
