"""Shapes of billing's objects, and of what is asked of them."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers

from billing import queries
from billing.draft_queries import Draft
from billing.models import BillingEntry, CreditNote, Cut, Invoice
from control_plane.api.shapes import Moment, StrictSerializer
from penstock.rules.timestamps import time_ms

FROM = OpenApiParameter("from", str, description="First day or moment (UTC), inclusive.")
TO = OpenApiParameter("to", str, description="Last day or moment (UTC), exclusive.")
BY = OpenApiParameter("by", str, description="topic, day or both with a comma; not given: one sum.")


class CutRequest(StrictSerializer):
    """Closes periods."""

    tenant = serializers.CharField(max_length=64, help_text="Public id of a tenant, or `all`.")
    end = serializers.DateTimeField(required=False, help_text="Exclusive; now if not given.")


class MeterUsageShape(serializers.Serializer[Any]):
    quantity = serializers.IntegerField()
    billed = serializers.IntegerField(help_text="On issued invoices.")
    provisional = serializers.IntegerField(help_text="The rest: it may still grow.")


class UsageShape(serializers.Serializer[Any]):
    topic = serializers.CharField(required=False)
    day = serializers.DateField(required=False)
    meters = serializers.DictField(child=MeterUsageShape())


class PartShape(serializers.Serializer[Any]):
    quantity = serializers.IntegerField()
    unit_price = serializers.CharField(help_text="Decimal with 12 places.")


class LineShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="line_id")
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField(help_text="So many items of the meter are one unit.")
    quantity = serializers.IntegerField()
    amount_micro = serializers.IntegerField(help_text="Micro-units of the currency, whole minor units.")
    parts = PartShape(many=True)
    price_book_sha256 = serializers.CharField()


class CreditOfInvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    total_micro = serializers.IntegerField(help_text="What the invoice is lowered by.")


class AuditOfInvoiceShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField(source="audit_sequence")
    hash = serializers.CharField(source="audit_hash")


# Of one of `queries.invoices`, which has read the rows that it is shown with.
class InvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    tenant = serializers.CharField(source="tenant.public_id")
    status = serializers.ChoiceField(choices=Invoice.Status.choices)
    currency = serializers.CharField(source="price_book.currency")
    minor_digits = serializers.IntegerField(source="price_book.document.minor_digits")
    period_start = Moment(source="cut.period_start")
    period_end = Moment(source="cut.period_end")
    cut = serializers.CharField(source="cut.public_id")
    total_micro = serializers.IntegerField(allow_null=True)
    issued_at = Moment(allow_null=True)
    gaps = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    lines = LineShape(many=True)
    credit_notes = CreditOfInvoiceShape(many=True)
    credited_micro = serializers.SerializerMethodField(help_text="The sum of its credit notes.")
    audit_head = serializers.SerializerMethodField(
        help_text="The audit log's newest entry when it was issued; null before."
    )

    def get_credited_micro(self, invoice: Invoice) -> int:
        return sum(note.total_micro for note in invoice.credit_notes.all())

    @extend_schema_field(AuditOfInvoiceShape(allow_null=True))
    def get_audit_head(self, invoice: Invoice) -> Any:
        return None if invoice.audit_sequence is None else AuditOfInvoiceShape(invoice).data


class CreditLineShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="line_id")
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField()
    quantity = serializers.IntegerField(help_text="Billed, and lost.")
    amount_micro = serializers.IntegerField(help_text="At the invoice's prices.")
    price_book_sha256 = serializers.CharField()


class LostRangeShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    log_generation = serializers.IntegerField(help_text="That ended with the loss.")
    first_offset = serializers.IntegerField()
    end_offset = serializers.IntegerField()
    quantities = serializers.DictField(child=serializers.IntegerField())


# Of one of `queries.credit_notes`, which has read the rows that it is shown with.
class CreditNoteShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    tenant = serializers.CharField(source="tenant.public_id")
    invoice = serializers.CharField(source="invoice.public_id")
    currency = serializers.CharField(source="invoice.price_book.currency")
    minor_digits = serializers.IntegerField(source="invoice.price_book.document.minor_digits")
    total_micro = serializers.IntegerField(help_text="What the invoice is lowered by.")
    issued_at = Moment()
    cut = serializers.CharField(source="cut.public_id", help_text="At whose readings the loss was seen.")
    lines = CreditLineShape(many=True)
    ranges = serializers.SerializerMethodField()

    @extend_schema_field(LostRangeShape(many=True))
    def get_ranges(self, note: CreditNote) -> Any:
        return LostRangeShape(queries.lost_ranges(note), many=True).data


class ReadingShape(serializers.Serializer[Any]):
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    log_generation = serializers.IntegerField()
    end_offset = serializers.IntegerField()
    accepted_ms = serializers.IntegerField(
        allow_null=True, help_text="Acceptance of the last batch below the offset, ms UTC; -1: there is none."
    )
    messages = serializers.IntegerField(allow_null=True, help_text="Of the log's whole prefix.")
    bytes = serializers.IntegerField(allow_null=True, help_text="Of the log's whole prefix.")
    last = serializers.BooleanField(help_text="The topic was deleted: the partition is in no later cut.")


class CutShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    tenant = serializers.CharField(source="tenant.public_id")
    period_start = Moment()
    period_end = Moment()
    delivered = serializers.SerializerMethodField(help_text="The brokers have answered: the vector is there.")
    error = serializers.CharField(help_text="Why they have not, of the last attempt.")
    sha256 = serializers.CharField(help_text="By which the brokers keep the vector.")
    billing_sequence = serializers.IntegerField(
        source="chain_sequence",
        help_text="The billing chain's newest entry when the period ended, which the brokers keep too.",
    )
    billing_hash = serializers.CharField(source="chain_hash")
    readings = serializers.SerializerMethodField()
    invoice = serializers.CharField(source="invoice.public_id")

    def get_delivered(self, cut: Cut) -> bool:
        return cut.delivered_at is not None

    @extend_schema_field(ReadingShape(many=True))
    def get_readings(self, cut: Cut) -> Any:
        return ReadingShape(queries.readings(cut), many=True).data


class CutsShape(serializers.Serializer[Any]):
    items = CutShape(many=True)


class EvidenceShape(serializers.Serializer[Any]):
    status = serializers.ChoiceField(choices=Invoice.Status.choices)
    gaps = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    document = serializers.DictField(
        allow_null=True,
        help_text="The invoice as it was issued; null of a draft, and of invoices from before documents existed.",
    )
    document_sha256 = serializers.CharField(allow_null=True)


class ChainEntryShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField(help_text="1, 2, … without gaps.")
    kind = serializers.ChoiceField(choices=BillingEntry.Kind.choices)
    object_id = serializers.CharField(help_text="The invoice, the credit note or the price book.")
    document_sha256 = serializers.CharField()
    at_ms = serializers.SerializerMethodField()
    hash = serializers.CharField(help_text="Over the entry and the hash before.")
    document = serializers.SerializerMethodField(
        help_text="Prices and credit notes; an invoice's is in its evidence."
    )

    def get_at_ms(self, entry: BillingEntry) -> int:
        return time_ms(entry.at)

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_document(self, entry: BillingEntry) -> Any:
        # Documents of invoices are large.
        return None if entry.kind == BillingEntry.Kind.INVOICE else entry.document


class DraftShape(serializers.Serializer[Any]):
    tenant = serializers.CharField(source="invoice.tenant.public_id")
    tenant_name = serializers.CharField(source="invoice.tenant.name")
    invoice = serializers.CharField(source="invoice.public_id")
    number = serializers.IntegerField(source="invoice.number")
    cut = serializers.CharField(source="invoice.cut.public_id")
    period_start = Moment(source="invoice.cut.period_start")
    period_end = Moment(source="invoice.cut.period_end")
    age_s = serializers.IntegerField(help_text="Since its period ended and its cut was made.")
    overdue = serializers.BooleanField(help_text="It has been a draft for over a day, which is an alert.")
    delivered = serializers.SerializerMethodField(help_text="The brokers have answered the cut.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    next_steps = serializers.ListField(
        child=serializers.CharField(), help_text="What an operator can do next."
    )

    def get_delivered(self, draft: Draft) -> bool:
        return draft.invoice.cut.delivered_at is not None


ALERTS = serializers.ListField(
    child=serializers.CharField(),
    help_text="What needs an operator, such as overdue drafts and a refused price book.",
)


class FinalizeRequest(StrictSerializer):
    """Finalizes a draft."""

    waive = serializers.ListField(
        child=serializers.RegexField(r"^[0-9a-f]{32}-[0-9]{1,9}$"),
        required=False,
        default=list,
        max_length=1_000,
        help_text="TOPIC_ID-PARTITION of deleted topics that are not billed from this cut on.",
    )
    reason = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=500,
        help_text="Required with `waive`: why.",
    )


class FinalizeShape(serializers.Serializer[Any]):
    cut = serializers.CharField(source="invoice.cut.public_id")
    invoice = serializers.CharField(source="invoice.public_id")
    status = serializers.ChoiceField(source="invoice.status", choices=Invoice.Status.choices)
    done = serializers.ListField(child=serializers.CharField())
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")


class AvailabilityShape(serializers.Serializer[Any]):
    operation = serializers.CharField()
    valid = serializers.IntegerField()
    bad = serializers.IntegerField()
    availability = serializers.CharField(allow_null=True, help_text="Good of valid requests, six places.")
    windows = serializers.IntegerField()
    windows_with_few_requests = serializers.IntegerField()


class AssetCostShape(serializers.Serializer[Any]):
    asset = serializers.CharField()
    method = serializers.CharField()
    bytes = serializers.IntegerField()
    cost_micro = serializers.IntegerField()


class CostShape(serializers.Serializer[Any]):
    cost_micro = serializers.IntegerField()
    messages = serializers.IntegerField(
        allow_null=True,
        help_text="Produced. Known by the day: null unless `from` and `to` are midnights (UTC).",
    )
    cost_micro_per_million_messages = serializers.IntegerField(
        allow_null=True, help_text="null where messages are null or 0."
    )
    assets = AssetCostShape(many=True)


class PriceBookShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    sha256 = serializers.CharField()
    effective_from = Moment()
    document = serializers.DictField()


class PriceBookRequest(StrictSerializer):
    """Publishes prices."""

    document = serializers.DictField(help_text="A price book.")
    effective_from = serializers.DateTimeField(
        help_text="Periods that begin then or later are rated with it; not before now."
    )
    dry_run = serializers.BooleanField(
        default=False, help_text="True: the answer only tells what would be published."
    )


class PublishedBookShape(PriceBookShape):
    id = serializers.CharField(source="public_id", allow_null=True, help_text="Null: it would be published.")


class DataSetShape(serializers.Serializer[Any]):
    dataset = serializers.CharField()
    run_id = serializers.CharField()
    error = serializers.CharField()
    rows = serializers.IntegerField()
    skipped = serializers.IntegerField()
    disagreements = serializers.ListField(child=serializers.CharField())
    imported_at = Moment(allow_null=True)


class MissingUsageShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    first_offset = serializers.IntegerField()
    offsets = serializers.IntegerField(help_text="How many, from the first on.")


MISSING_USAGE = MissingUsageShape(many=True, help_text="Offsets of the usage log that were lost.")
