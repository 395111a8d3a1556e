"""Price books, cuts, invoices with lines and evidence, and imported data sets: shape and constraints only.

Quantities are whole messages and bytes, amounts micro-units of the currency; periods are half open, in UTC.
"""

from typing import Any

from django.db import models

from control_plane.ids import LENGTH_MAX, new_id
from tenants.models import Tenant

TOPIC_ID_DIGITS = 32
SHA256_DIGITS = 64
METER_LENGTH_MAX = 64
ISSUER_NUMBER_LENGTH_MAX = 40
REASON_LENGTH_MAX = 200
REFERENCE_LENGTH_MAX = 120
NAME_LENGTH_MAX = 255


class Immutable(models.Model):
    """A row that is written once and never changed."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None and not self._state.adding:
            raise TypeError(f"{type(self).__name__} {self.pk} is written once and never changed")
        super().save(*args, **kwargs)


def new_price_book_id() -> str:
    return new_id("pb")


def new_prices_id() -> str:
    return new_id("pa")


def new_cut_id() -> str:
    return new_id("cut")


def new_invoice_id() -> str:
    return new_id("inv")


def new_credit_note_id() -> str:
    return new_id("cn")


class PriceBook(Immutable):
    """One version of the prices, as `penstock.rules.rating` reads it."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_price_book_id)
    name = models.CharField(max_length=63)
    version = models.PositiveIntegerField()
    currency = models.CharField(max_length=3)
    document = models.JSONField()
    """Canonical."""
    sha256 = models.CharField(max_length=SHA256_DIGITS, unique=True)
    effective_from = models.DateTimeField()
    """Rates periods that begin then or later, of tenants of its currency, until a later book is in effect."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["name", "version"], name="billing_one_book_a_version"),
            models.UniqueConstraint(fields=["currency", "effective_from"], name="billing_one_book_at_a_time"),
        )


class TenantTerms(Immutable):
    """What a tenant has beside the general price book: one row for each change. A period has the newest row that is not
    younger than its beginning; the billing chain has what holds now.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="billing_terms")
    price_book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, null=True, related_name="+")
    """Of this tenant alone; None: the book that is in effect for all."""
    document = models.JSONField()
    """`penstock.contract.documents.Terms`."""
    revision = models.PositiveBigIntegerField(default=1)
    """1, 2, … within the tenant. Where 1 is missing, the terms are older than their history."""
    changed_at = models.DateTimeField()
    """Not before the revision before."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "revision"], name="billing_one_terms_a_revision"),
        )


class BillingEntry(Immutable):
    """One document of a tenant's billing chain (`penstock.contract.documents`). Written under the tenant's row lock."""

    class Kind(models.TextChoices):
        PRICES = "prices"
        INVOICE = "invoice"
        CREDIT_NOTE = "credit_note"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="billing_entries")
    sequence = models.PositiveBigIntegerField()
    """1, 2, … without gaps within the tenant."""
    kind = models.CharField(max_length=16, choices=Kind.choices)
    object_id = models.CharField(max_length=LENGTH_MAX)
    """Public id of the invoice, the credit note or, in format 1, the price book. Prices of format 2 have one of their
    own.
    """
    document = models.JSONField()
    document_sha256 = models.CharField(max_length=SHA256_DIGITS)
    at = models.DateTimeField()
    """Whole ms, never earlier than the previous entry."""
    previous_hash = models.CharField(max_length=SHA256_DIGITS)
    hash = models.CharField(max_length=SHA256_DIGITS)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "sequence"], name="billing_one_entry_a_sequence"),
            models.UniqueConstraint(fields=["tenant", "kind", "object_id"], name="billing_one_document"),
        )


class Cut(models.Model):
    """The end of a tenant's period. Only usage up to its offset vector is rated."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_cut_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="cuts")
    period_start = models.DateTimeField()
    period_end = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)
    """When all leaders had answered. The vector is stored since then and does not change."""
    error = models.TextField(blank=True)
    """Why the last attempt to deliver it failed."""
    sha256 = models.CharField(max_length=SHA256_DIGITS, blank=True)
    """Hash under which the brokers store the vector (`penstock.records.cut`). Empty until the cut is delivered, and for
    cuts that are older than the totals of brokers.
    """
    chain_sequence = models.PositiveBigIntegerField(default=0)
    chain_hash = models.CharField(max_length=SHA256_DIGITS, blank=True)
    """The newest entry of the tenant's billing chain when the period was closed. Brokers store it with the cut. 0 and
    empty for cuts that are older than the chain.
    """
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "period_start"], name="billing_one_cut_a_start"),
            models.UniqueConstraint(fields=["tenant", "period_end"], name="billing_one_cut_an_end"),
            models.CheckConstraint(
                condition=models.Q(period_end__gt=models.F("period_start")), name="billing_cut_ends_later"
            ),
        )


class LogPart(models.Model):
    """One log generation of one partition."""

    topic_id = models.CharField(max_length=TOPIC_ID_DIGITS)
    """The brokers' id, hex."""
    partition = models.PositiveIntegerField()
    log_generation = models.PositiveBigIntegerField()

    class Meta:
        abstract = True


class CutReading(Immutable, LogPart):
    """The end of one partition's log at a cut, as its leader answered, with the committed totals up to there.

    Older readings have no totals.
    """

    cut = models.ForeignKey(Cut, on_delete=models.PROTECT, related_name="readings")
    end_offset = models.PositiveBigIntegerField()
    accepted_ms = models.BigIntegerField(null=True)
    """Acceptance time of the last batch below `end_offset`; -1 = there is none."""
    messages = models.PositiveBigIntegerField(null=True)
    bytes = models.PositiveBigIntegerField(null=True)
    last = models.BooleanField(default=False)
    """The topic was deleted: the partition is in no later cut."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["cut", "topic_id", "partition", "log_generation"], name="billing_one_end_a_partition"
            ),
        )


class CutCoverage(LogPart):
    """What Spark found of one partition at a cut (data set `cut_coverage`)."""

    cut = models.ForeignKey(Cut, on_delete=models.PROTECT, related_name="coverage")
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    start_offset = models.PositiveBigIntegerField()
    end_offset = models.PositiveBigIntegerField()
    status = models.CharField(max_length=16)
    reason = models.TextField(blank=True)
    missing = models.TextField(blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["cut", "topic_id", "partition", "log_generation"], name="billing_one_coverage"
            ),
        )


class CutUsage(LogPart):
    """Usage of one partition on one day, up to a cut (data set `cut_usage`). Invoices bill it. A topic that is restored
    under another name has two rows of that day, a range of offsets for each name.
    """

    cut = models.ForeignKey(Cut, on_delete=models.PROTECT, related_name="usage")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    """The cut's. It stands here too, so that an index holds a tenant's usage in the order of its pages."""
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    day = models.DateField()
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    quantity = models.BigIntegerField()
    """Negative for a reversal: a declared loss removed what an earlier cut had counted."""
    first_offset = models.PositiveBigIntegerField()
    end_offset = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["cut", "topic_id", "topic", "partition", "log_generation", "day", "meter"],
                name="billing_one_usage_a_day",
            ),
        )
        indexes = (
            models.Index(fields=["tenant", "topic", "day"], name="billing_billed_by_topic"),
            models.Index(fields=["tenant", "day", "topic"], name="billing_billed_by_day"),
        )


class PartitionWaiver(Immutable):
    """A deleted topic's partition that an operator waived: from this cut on it is in no cut and is not billed."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="waivers")
    topic_id = models.CharField(max_length=TOPIC_ID_DIGITS)
    partition = models.PositiveIntegerField()
    from_cut = models.ForeignKey(Cut, on_delete=models.PROTECT, related_name="waivers")
    reason = models.TextField()
    actor = models.CharField(max_length=64)
    """Who waived it. The audit log has more."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["from_cut", "topic_id", "partition"], name="billing_one_waiver_a_cut"
            ),
        )


class Invoice(models.Model):
    """What a tenant owes for one period. It is a draft until it is complete, then it is issued and never changes."""

    class Status(models.TextChoices):
        DRAFT = "draft"
        ISSUED = "issued"

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_invoice_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="invoices")
    number = models.PositiveIntegerField()
    """1, 2, … within the tenant."""
    issuer_number = models.CharField(max_length=ISSUER_NUMBER_LENGTH_MAX, blank=True, default="")
    """Unique for the issuer and without gaps; empty for drafts and for what was issued before there were such."""
    cut = models.OneToOneField(Cut, on_delete=models.PROTECT, related_name="invoice")
    price_book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, related_name="invoices")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.DRAFT)
    total_micro = models.BigIntegerField(null=True)
    gaps = models.JSONField(default=list, blank=True)
    """Why it is still a draft, one text each."""
    alerted_at = models.DateTimeField(null=True)
    """When it was last logged as overdue."""
    created_at = models.DateTimeField(auto_now_add=True)
    issued_at = models.DateTimeField(null=True)
    charges = models.JSONField(default=list, blank=True)
    """Of format 2, as its document has them: fees, discounts, the minimum, credits, tax."""
    audit_sequence = models.PositiveBigIntegerField(null=True)
    audit_hash = models.CharField(max_length=SHA256_DIGITS, blank=True)
    """The audit entry of its issue. With the invoice a tenant can tell whether entries up to it are missing."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "number"], name="billing_one_invoice_a_number"),
            models.UniqueConstraint(
                fields=["issuer_number"],
                name="billing_one_invoice_an_issuer_number",
                condition=~models.Q(issuer_number=""),
            ),
            models.CheckConstraint(
                condition=models.Q(status="draft", total_micro=None, issued_at=None)
                | models.Q(status="issued", total_micro__isnull=False, issued_at__isnull=False),
                name="billing_issued_has_a_total",
            ),
        )

    @property
    def payment_reference(self) -> str:
        """The reference of a payment by bank: the issuer's number, or the id of an invoice that has none."""
        return self.issuer_number or self.public_id


class InvoiceLine(Immutable):
    """The amount of one meter in the period. Its evidence is the cut's usage of that meter."""

    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="lines")
    line_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    position = models.PositiveIntegerField()
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    unit = models.CharField(max_length=20)
    unit_size = models.PositiveBigIntegerField()
    quantity = models.PositiveBigIntegerField()
    amount_micro = models.BigIntegerField()
    parts = models.JSONField()
    """[{quantity, unit_price}] by tier, the free part first."""
    price_book_sha256 = models.CharField(max_length=SHA256_DIGITS)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["invoice", "meter"], name="billing_one_line_a_meter"),
            models.UniqueConstraint(fields=["invoice", "position"], name="billing_one_line_a_position"),
        )


class MeasuredDay(Immutable):
    """What an invoice bills of one topic's day, by a meter that counts no offsets. Never more, together with those of
    other invoices, than the data set `usage_day` had when the last of them was issued.
    """

    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="measured")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    topic_id = models.CharField(max_length=TOPIC_ID_DIGITS, blank=True)
    topic = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    """Empty, as its id, for what is of no topic."""
    day = models.DateField()
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    quantity = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["invoice", "topic_id", "topic", "day", "meter"], name="billing_one_measure_a_day"
            ),
        )
        indexes = (
            models.Index(fields=["tenant", "topic", "day"], name="billing_measured_by_topic"),
            models.Index(fields=["tenant", "day", "topic"], name="billing_measured_by_day"),
        )


class CreditNote(Immutable):
    """Lowers an issued invoice: a declared loss removed a part of what it billed, or an operator granted it."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_credit_note_id)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="credit_notes")
    number = models.PositiveIntegerField()
    """1, 2, … within the tenant."""
    issuer_number = models.CharField(max_length=ISSUER_NUMBER_LENGTH_MAX, blank=True, default="")
    """As of an invoice, in a series of its own."""
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="credit_notes")
    cut = models.ForeignKey(Cut, on_delete=models.PROTECT, related_name="credit_notes", null=True)
    """The cut with the reversals; None: an operator granted it."""
    reason = models.CharField(max_length=REASON_LENGTH_MAX, blank=True, default="")
    """Why it was granted."""
    reference = models.CharField(max_length=REFERENCE_LENGTH_MAX, blank=True, default="")
    """What the operator calls it. It is granted once for the invoice."""
    asked = models.JSONField(default=dict, blank=True)
    """What was asked for under the reference: {parts: [[id, micro-units or null]], amount_micro}."""
    granted_micro = models.BigIntegerField(default=0)
    """What was granted of the invoice as a whole, before tax."""
    total_micro = models.BigIntegerField()
    """The credited amount; not negative."""
    charges = models.JSONField(default=list, blank=True)
    """Of format 2, as its document has them: how the invoice's charges change."""
    issued_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "number"], name="billing_one_credit_note_a_number"),
            models.UniqueConstraint(
                fields=["issuer_number"],
                name="billing_one_credit_note_an_issuer_number",
                condition=~models.Q(issuer_number=""),
            ),
            models.UniqueConstraint(fields=["invoice", "cut"], name="billing_one_credit_note_a_loss"),
            models.UniqueConstraint(
                fields=["invoice", "reference"],
                name="billing_one_credit_note_a_reference",
                condition=~models.Q(reference=""),
            ),
            models.CheckConstraint(condition=models.Q(total_micro__gte=0), name="billing_credits_lower"),
        )


class CreditNoteLine(Immutable):
    """Lowers one line of the invoice, at the invoice's prices."""

    credit_note = models.ForeignKey(CreditNote, on_delete=models.PROTECT, related_name="lines")
    line_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    position = models.PositiveIntegerField()
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    unit = models.CharField(max_length=20)
    unit_size = models.PositiveBigIntegerField()
    quantity = models.PositiveBigIntegerField()
    amount_micro = models.BigIntegerField()
    price_book_sha256 = models.CharField(max_length=SHA256_DIGITS)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["credit_note", "meter"], name="billing_one_credit_a_meter"),
        )


class CreditedRange(Immutable, LogPart):
    """Lost offsets of the invoice, with the usage that they were billed as. `log_generation` is the lost one."""

    credit_note = models.ForeignKey(CreditNote, on_delete=models.PROTECT, related_name="ranges")
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    quantity = models.PositiveBigIntegerField()
    first_offset = models.PositiveBigIntegerField()
    end_offset = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["credit_note", "topic_id", "partition", "meter"],
                name="billing_one_credited_range_a_meter",
            ),
        )


class Seal(Immutable, LogPart):
    """The seal of a closed segment (data set `seal`); it outlives the segment."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="seals")
    base_offset = models.PositiveBigIntegerField()
    end_offset = models.PositiveBigIntegerField()
    seal = models.BinaryField()
    src_partition = models.PositiveIntegerField()
    src_offset = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "topic_id", "partition", "log_generation", "base_offset"],
                name="billing_one_seal_a_segment",
            ),
        )


class UsageDay(models.Model):
    """Usage of one topic on one day by meter (data set `usage_day`). It is shown, whether it is billed yet or not."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="usage_days")
    topic_id = models.CharField(max_length=TOPIC_ID_DIGITS)
    topic = models.CharField(max_length=NAME_LENGTH_MAX)
    day = models.DateField()
    meter = models.CharField(max_length=METER_LENGTH_MAX)
    quantity = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "topic_id", "topic", "day", "meter"], name="billing_one_quantity_a_day"
            ),
        )
        indexes = (
            models.Index(fields=["tenant", "topic", "day"], name="billing_used_by_topic"),
            models.Index(fields=["tenant", "day", "topic"], name="billing_used_by_day"),
        )


class SlaWindow(models.Model):
    """Requests within five minutes (data set `sla_5m`), without those that failed by the client's fault."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="sla_windows")
    operation = models.CharField(max_length=32)
    window = models.DateTimeField()
    valid = models.PositiveBigIntegerField()
    bad = models.PositiveBigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "operation", "window"], name="billing_one_count_a_window"
            ),
        )


class CoverageIssue(models.Model):
    """Missing offsets of `__usage` (data set `coverage_issue`): readings that were lost."""

    src_partition = models.PositiveIntegerField()
    first_missing = models.PositiveBigIntegerField()
    missing = models.PositiveBigIntegerField()
    """How many offsets, from the first on."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["src_partition", "first_missing"], name="billing_one_issue_a_place"
            ),
        )


class DataSetRun(models.Model):
    """A run of a data set that was imported, or refused."""

    dataset = models.CharField(max_length=63)
    run_id = models.CharField(max_length=32)
    digest = models.CharField(max_length=SHA256_DIGITS)
    code_version = models.CharField(max_length=64)
    inputs = models.JSONField()
    rows = models.PositiveBigIntegerField()
    skipped = models.PositiveBigIntegerField()
    """Rows of unknown tenants or cuts."""
    disagreements = models.JSONField(default=list)
    """Rows that contradict an issued invoice, which stays as it is."""
    imported_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["dataset", "run_id"], name="billing_one_import_a_run"),
        )


class DataSetState(models.Model):
    """The imported run of a data set, and why a newer one was refused."""

    dataset = models.CharField(max_length=63, unique=True)
    run_id = models.CharField(max_length=32, blank=True)
    windows = models.JSONField(default=dict)
    """Digest of each window of that run by its name; empty when they are not known."""
    error = models.TextField(blank=True)
