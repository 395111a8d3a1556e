"""How billing's objects are shown and what its requests may say, for views and the OpenAPI document."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from billing import queries
from billing.models import BillingEntry, CreditNote, Invoice, InvoiceLine, PriceBook
from control_plane.api.shapes import StrictSerializer
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
    id = serializers.CharField()
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField(help_text="So many items of the meter are one unit.")
    quantity = serializers.IntegerField()
    amount_micro = serializers.IntegerField(help_text="Micro-units of the currency, whole minor units.")
    parts = PartShape(many=True)
    price_book_sha256 = serializers.CharField()


class CreditOfInvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    total_micro = serializers.IntegerField(help_text="What the invoice is lowered by.")


class AuditOfInvoiceShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    hash = serializers.CharField()


class InvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    tenant = serializers.CharField()
    status = serializers.ChoiceField(choices=Invoice.Status.choices)
    currency = serializers.CharField()
    minor_digits = serializers.IntegerField()
    period_start = serializers.DateTimeField()
    period_end = serializers.DateTimeField()
    cut = serializers.CharField()
    total_micro = serializers.IntegerField(allow_null=True)
    issued_at = serializers.DateTimeField(allow_null=True)
    gaps = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    lines = LineShape(many=True)
    credit_notes = CreditOfInvoiceShape(many=True)
    credited_micro = serializers.IntegerField(help_text="The sum of its credit notes.")
    audit_head = AuditOfInvoiceShape(
        allow_null=True, help_text="The audit log's newest entry when it was issued; null before."
    )


class CreditLineShape(serializers.Serializer[Any]):
    id = serializers.CharField()
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


class CreditNoteShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    number = serializers.IntegerField()
    tenant = serializers.CharField()
    invoice = serializers.CharField()
    currency = serializers.CharField()
    minor_digits = serializers.IntegerField()
    total_micro = serializers.IntegerField(help_text="What the invoice is lowered by.")
    issued_at = serializers.DateTimeField()
    cut = serializers.CharField(help_text="At whose readings the loss was seen.")
    lines = CreditLineShape(many=True)
    ranges = LostRangeShape(many=True)


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
    id = serializers.CharField()
    tenant = serializers.CharField()
    period_start = serializers.DateTimeField()
    period_end = serializers.DateTimeField()
    delivered = serializers.BooleanField(help_text="The brokers have answered: the vector is there.")
    error = serializers.CharField(help_text="Why they have not, of the last attempt.")
    sha256 = serializers.CharField(help_text="By which the brokers keep the vector.")
    billing_sequence = serializers.IntegerField(
        help_text="The billing chain's newest entry when the period ended, which the brokers keep too."
    )
    billing_hash = serializers.CharField()
    readings = ReadingShape(many=True)
    invoice = serializers.CharField(required=False)


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
    at_ms = serializers.IntegerField()
    hash = serializers.CharField(help_text="Over the entry and the hash before.")
    document = serializers.DictField(
        allow_null=True, help_text="Prices and credit notes; an invoice's is in its evidence."
    )


class DraftShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    tenant_name = serializers.CharField()
    invoice = serializers.CharField()
    number = serializers.IntegerField()
    cut = serializers.CharField()
    period_start = serializers.DateTimeField()
    period_end = serializers.DateTimeField()
    age_s = serializers.IntegerField(help_text="Since its period ended and its cut was made.")
    overdue = serializers.BooleanField(help_text="It has been a draft for over a day, which is an alert.")
    delivered = serializers.BooleanField(help_text="The brokers have answered the cut.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    next_steps = serializers.ListField(
        child=serializers.CharField(), help_text="What an operator can do next."
    )


class DraftsShape(serializers.Serializer[Any]):
    items = DraftShape(many=True)
    alerts = serializers.ListField(
        child=serializers.CharField(),
        help_text="What needs an operator, such as overdue drafts and a refused price book.",
    )
    next = serializers.CharField(allow_null=True)


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
    cut = serializers.CharField()
    invoice = serializers.CharField()
    status = serializers.ChoiceField(choices=Invoice.Status.choices)
    done = serializers.ListField(child=serializers.CharField())
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")


class AvailabilityShape(serializers.Serializer[Any]):
    operation = serializers.CharField()
    valid = serializers.IntegerField()
    bad = serializers.IntegerField()
    availability = serializers.CharField(allow_null=True, help_text="Good of valid requests, six places.")
    windows = serializers.IntegerField()
    windows_with_few_requests = serializers.IntegerField()


class AvailabilityListShape(serializers.Serializer[Any]):
    items = AvailabilityShape(many=True)
    next = serializers.CharField(allow_null=True)


class UsageListShape(serializers.Serializer[Any]):
    items = UsageShape(many=True)
    next = serializers.CharField(allow_null=True)


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
    id = serializers.CharField()
    sha256 = serializers.CharField()
    effective_from = serializers.DateTimeField()
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
    id = serializers.CharField(allow_null=True, help_text="Null: it would be published.")


class DataSetShape(serializers.Serializer[Any]):
    dataset = serializers.CharField()
    run_id = serializers.CharField()
    error = serializers.CharField()
    rows = serializers.IntegerField()
    skipped = serializers.IntegerField()
    disagreements = serializers.ListField(child=serializers.CharField())
    imported_at = serializers.DateTimeField(allow_null=True)


class MissingUsageShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    first_offset = serializers.IntegerField()
    offsets = serializers.IntegerField(help_text="How many, from the first on.")


class DataSetsShape(serializers.Serializer[Any]):
    items = DataSetShape(many=True)
    missing_usage = MissingUsageShape(many=True, help_text="Offsets of the usage log that were lost.")
    next = serializers.CharField(allow_null=True)


def shown_invoice(invoice: Invoice) -> dict[str, Any]:
    """An invoice with its lines."""
    return {
        "id": invoice.public_id,
        "number": invoice.number,
        "tenant": invoice.tenant.public_id,
        "status": invoice.status,
        "currency": invoice.price_book.currency,
        "minor_digits": invoice.price_book.document["minor_digits"],
        "period_start": invoice.cut.period_start.isoformat(),
        "period_end": invoice.cut.period_end.isoformat(),
        "cut": invoice.cut.public_id,
        "total_micro": invoice.total_micro,
        "issued_at": None if invoice.issued_at is None else invoice.issued_at.isoformat(),
        "gaps": invoice.gaps,
        "lines": [_line(line) for line in invoice.lines.all()],
        "credit_notes": [
            {"id": note.public_id, "number": note.number, "total_micro": note.total_micro}
            for note in invoice.credit_notes.all()
        ],
        "credited_micro": sum(note.total_micro for note in invoice.credit_notes.all()),
        "audit_head": None
        if invoice.audit_sequence is None
        else {"sequence": invoice.audit_sequence, "hash": invoice.audit_hash},
    }


def shown_credit_note(note: CreditNote) -> dict[str, Any]:
    """A credit note with its lines and what was lost."""
    return {
        "id": note.public_id,
        "number": note.number,
        "tenant": note.tenant.public_id,
        "invoice": note.invoice.public_id,
        "currency": note.invoice.price_book.currency,
        "minor_digits": note.invoice.price_book.document["minor_digits"],
        "total_micro": note.total_micro,
        "issued_at": note.issued_at.isoformat(),
        "cut": note.cut.public_id,
        "lines": [
            {
                "id": line.line_id,
                "meter": line.meter,
                "unit": line.unit,
                "unit_size": line.unit_size,
                "quantity": line.quantity,
                "amount_micro": line.amount_micro,
                "price_book_sha256": line.price_book_sha256,
            }
            for line in note.lines.all()
        ],
        "ranges": queries.lost_ranges(note),
    }


def shown_book(book: PriceBook) -> dict[str, Any]:
    """A price book with the hash that invoice lines name."""
    return {
        "id": book.public_id,
        "sha256": book.sha256,
        "effective_from": book.effective_from.isoformat(),
        "document": book.document,
    }


def shown_entry(entry: BillingEntry) -> dict[str, Any]:
    """An entry of the billing chain. Documents of invoices are large and stand in their evidence."""
    return {
        "sequence": entry.sequence,
        "kind": entry.kind,
        "object_id": entry.object_id,
        "document_sha256": entry.document_sha256,
        "at_ms": time_ms(entry.at),
        "hash": entry.hash,
        "document": None if entry.kind == BillingEntry.Kind.INVOICE else entry.document,
    }


def _line(line: InvoiceLine) -> dict[str, Any]:
    return {
        "id": line.line_id,
        "meter": line.meter,
        "unit": line.unit,
        "unit_size": line.unit_size,
        "quantity": line.quantity,
        "amount_micro": line.amount_micro,
        "parts": line.parts,
        "price_book_sha256": line.price_book_sha256,
    }
