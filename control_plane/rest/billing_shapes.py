"""Shapes of billing's objects, and of requests about them."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers

from billing import queries
from billing.draft_queries import Draft
from billing.models import BillingEntry, CreditNote, Cut, Invoice
from billing.voids import void_at
from control_plane.api.shapes import Moment, StrictSerializer
from payments.states import State
from penstock.rules.timestamps import time_ms

FROM = OpenApiParameter("from", str, description="First day or moment (UTC), inclusive.")
TO = OpenApiParameter("to", str, description="Last day or moment (UTC), exclusive.")
FROM_USED = OpenApiParameter(
    "from",
    str,
    description="First day (UTC), inclusive, or the moment at which it begins; by hour or minute the beginning of one. "
    "Without it: everything before `to`; by hour a day, by minute an hour, by principal 31 days.",
)
TO_USED = OpenApiParameter(
    "to",
    str,
    description="Day after the last (UTC), or the moment at which it begins; by hour or minute the beginning of one.",
)
OF_INVOICE = OpenApiParameter("invoice", str, description="One invoice and its credit notes; else all.")
BY = OpenApiParameter(
    "by",
    str,
    description="`topic`, `day`, `hour`, `minute` and `principal`, several with a comma; without it: one sum. One of "
    "day, hour and minute; minute with topic alone. Hours and principals are of 31 days at most, minutes of one of the "
    "last three days.",
)


class CutRequest(StrictSerializer):
    """Closes billing periods."""

    tenant = serializers.CharField(max_length=64, help_text="Public id of a tenant, or `all`.")
    end = serializers.DateTimeField(required=False, help_text="Exclusive; now if not given.")


class MeterUsageShape(serializers.Serializer[Any]):
    quantity = serializers.IntegerField()
    billed = serializers.IntegerField(
        required=False,
        help_text="The part that is on issued invoices; by hour, minute and principal it is not known.",
    )
    provisional = serializers.IntegerField(
        required=False, help_text="The rest; it can still grow. It is there where `billed` is."
    )


class UsageShape(serializers.Serializer[Any]):
    topic = serializers.CharField(required=False)
    day = serializers.DateField(required=False)
    hour = serializers.DateTimeField(required=False, help_text="Its beginning.")
    minute = serializers.DateTimeField(required=False, help_text="Its beginning.")
    principal = serializers.CharField(
        required=False, help_text="Whose key it was, as access lists name it; empty: of none, or not known."
    )
    principal_name = serializers.CharField(required=False, help_text="For people; empty: it has none.")
    meters = serializers.DictField(child=MeterUsageShape())


class PartShape(serializers.Serializer[Any]):
    quantity = serializers.IntegerField()
    unit_price = serializers.CharField(help_text="A number with 12 decimals.")


class LineShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="line_id")
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField(help_text="How many messages or bytes are one unit.")
    quantity = serializers.IntegerField()
    amount_micro = serializers.IntegerField(
        help_text="In micro-units of the currency, rounded to its minor unit."
    )
    parts = PartShape(many=True)
    price_book_sha256 = serializers.CharField()


class CreditOfInvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    total_micro = serializers.IntegerField(help_text="It lowers the invoice by this amount.")


class ChargeShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField(help_text="fee, discount, minimum, credit or tax.")
    name = serializers.CharField(
        help_text="Of the fee; the id of the discount or the grant; the place of the tax."
    )
    meter = serializers.CharField(help_text="Whose line a discount lowers; else empty.")
    base_micro = serializers.IntegerField(help_text="What the amount is of.")
    basis_points = serializers.IntegerField(
        help_text="Of the base, for tax and discounts in percent; else 0."
    )
    amount_micro = serializers.IntegerField(help_text="Negative for discounts and credits.")
    reason = serializers.CharField()


class ChargeChangeShape(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="fee, discount, minimum, credit or tax.")
    name = serializers.CharField()
    meter = serializers.CharField()
    amount_micro = serializers.IntegerField(
        help_text="What the charge is higher by; credit that goes back to its grant is positive."
    )


class PaymentOfInvoiceShape(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=[one.value for one in State])
    due_at = Moment()
    open_micro = serializers.IntegerField(help_text="What is still to be paid.")
    paid_micro = serializers.IntegerField(help_text="What came, before refunds.")


class AuditOfInvoiceShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField(source="audit_sequence")
    hash = serializers.CharField(source="audit_hash")


# For a row of `queries.invoices`, which reads the related rows too.
class InvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    issuer_number = serializers.CharField(
        help_text="Unique for the issuer and without gaps; empty for drafts, and for what is older than such numbers."
    )
    tenant = serializers.CharField(source="tenant.public_id")
    status = serializers.ChoiceField(choices=Invoice.Status.choices)
    currency = serializers.CharField(source="price_book.currency")
    minor_digits = serializers.IntegerField(source="price_book.document.minor_digits")
    period_start = Moment(source="cut.period_start")
    period_end = Moment(source="cut.period_end")
    cut = serializers.CharField(source="cut.public_id")
    total_micro = serializers.IntegerField(allow_null=True)
    issued_at = Moment(allow_null=True)
    void_at = serializers.SerializerMethodField(
        help_text="Since when nothing of it is to be paid: an operator took it back, or credit notes give all of it"
        " back. null: it counts."
    )
    gaps = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    lines = LineShape(many=True)
    charges = ChargeShape(
        many=True,
        help_text="Fees, discounts, the minimum, credits and tax; with the lines they are the total.",
    )
    credit_notes = CreditOfInvoiceShape(many=True)
    credited_micro = serializers.SerializerMethodField(help_text="The sum of its credit notes.")
    payment = serializers.SerializerMethodField(
        help_text="When it is due, and what is open and paid of it; null: it is not asked for yet."
    )
    audit_head = serializers.SerializerMethodField(
        help_text="The audit log's newest entry when the invoice was issued; null for a draft."
    )

    @extend_schema_field(Moment(allow_null=True))
    def get_void_at(self, invoice: Invoice) -> Any:
        found = void_at(invoice)
        return None if found is None else Moment().to_representation(found)

    def get_credited_micro(self, invoice: Invoice) -> int:
        return sum(note.total_micro for note in invoice.credit_notes.all())

    @extend_schema_field(PaymentOfInvoiceShape(allow_null=True))
    def get_payment(self, invoice: Invoice) -> Any:
        found = getattr(invoice, "receivable", None)
        return None if found is None else PaymentOfInvoiceShape(found).data

    @extend_schema_field(AuditOfInvoiceShape(allow_null=True))
    def get_audit_head(self, invoice: Invoice) -> Any:
        return None if invoice.audit_sequence is None else AuditOfInvoiceShape(invoice).data


class CreditLineShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="line_id")
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField()
    quantity = serializers.IntegerField(help_text="Billed and then lost; 0 where it was granted.")
    amount_micro = serializers.IntegerField(help_text="At the invoice's prices.")
    price_book_sha256 = serializers.CharField()


class LostRangeShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    log_generation = serializers.IntegerField(help_text="The generation that ended with the loss.")
    first_offset = serializers.IntegerField()
    end_offset = serializers.IntegerField()
    quantities = serializers.DictField(child=serializers.IntegerField())


# For a row of `queries.credit_notes`, which reads the related rows too.
class CreditNoteShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    number = serializers.IntegerField()
    issuer_number = serializers.CharField(help_text="As of an invoice, in a series of its own.")
    tenant = serializers.CharField(source="tenant.public_id")
    invoice = serializers.CharField(source="invoice.public_id")
    currency = serializers.CharField(source="invoice.price_book.currency")
    minor_digits = serializers.IntegerField(source="invoice.price_book.document.minor_digits")
    total_micro = serializers.IntegerField(help_text="It lowers the invoice by this amount.")
    issued_at = Moment()
    cut = serializers.CharField(
        source="cut.public_id",
        default=None,
        allow_null=True,
        help_text="The cut whose readings show the loss; null: an operator granted it.",
    )
    reason = serializers.CharField(help_text="Why it was granted; empty: messages were lost.")
    reference = serializers.CharField(help_text="What the operator calls it; empty where messages were lost.")
    granted_micro = serializers.IntegerField(
        help_text="What was granted of the invoice as a whole, before tax; 0 where lines and charges say it."
    )
    lines = CreditLineShape(many=True)
    charges = ChargeChangeShape(
        many=True,
        help_text="How the invoice's charges change; the total is the lines and `granted_micro` less these.",
    )
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
        allow_null=True,
        help_text="Acceptance time of the last batch below the offset, ms UTC; -1: there is none.",
    )
    messages = serializers.IntegerField(allow_null=True, help_text="Total of the log below the offset.")
    bytes = serializers.IntegerField(allow_null=True, help_text="Total of the log below the offset.")
    last = serializers.BooleanField(
        help_text="true: the topic is deleted, and no later cut has the partition."
    )


class CutShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    tenant = serializers.CharField(source="tenant.public_id")
    period_start = Moment()
    period_end = Moment()
    delivered = serializers.SerializerMethodField(help_text="true: the brokers have answered.")
    error = serializers.CharField(
        help_text="Why the last attempt to ask the brokers failed; empty if it did not."
    )
    sha256 = serializers.CharField(help_text="Hash of the vector. The brokers store the vector under it.")
    billing_sequence = serializers.IntegerField(
        source="chain_sequence",
        help_text="The billing chain's newest entry when the period ended. The brokers store it with the vector.",
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
        help_text="The invoice as it was issued. null: it is a draft, or was issued before documents existed.",
    )
    document_sha256 = serializers.CharField(allow_null=True)


class ChainEntryShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField(help_text="1, 2, … without gaps.")
    kind = serializers.ChoiceField(choices=BillingEntry.Kind.choices)
    object_id = serializers.CharField(help_text="The invoice, the credit note or the price book.")
    document_sha256 = serializers.CharField()
    at_ms = serializers.SerializerMethodField()
    hash = serializers.CharField(help_text="Hash over the entry and the previous hash.")
    document = serializers.SerializerMethodField(
        help_text="The document of prices or of a credit note; that of an invoice is in its evidence."
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
    age_s = serializers.IntegerField(help_text="Seconds since its period ended and its cut was made.")
    overdue = serializers.BooleanField(
        help_text="true: it has been a draft for over a day, which is an alert."
    )
    delivered = serializers.SerializerMethodField(help_text="true: the brokers have answered the cut.")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is still a draft.")
    next_steps = serializers.ListField(
        child=serializers.CharField(), help_text="What an operator can do next."
    )

    def get_delivered(self, draft: Draft) -> bool:
        return draft.invoice.cut.delivered_at is not None


ALERTS = serializers.ListField(
    child=serializers.CharField(),
    help_text="Problems that need an operator, such as overdue drafts and a refused price book.",
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
        help_text="Why the partitions are waived; required with `waive`.",
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
    availability = serializers.CharField(
        allow_null=True, help_text="Share of valid requests that succeeded, with six decimals."
    )
    windows = serializers.IntegerField()
    windows_with_few_requests = serializers.IntegerField()


class PriceBookShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    sha256 = serializers.CharField()
    effective_from = Moment()
    document = serializers.DictField()


class PriceBookRequest(StrictSerializer):
    """Publishes prices."""

    document = serializers.DictField(
        help_text="A price book: `format`, `name`, `version`, `currency`, `minor_digits`, `meters`, and in format 2 "
        '`fees` as `[{"fee": "support", "month": "25.00"}]` and `minimum_month` as `"50.00"`, amounts of a UTC month '
        "as decimal text."
    )
    effective_from = serializers.DateTimeField(
        help_text="It rates billing periods that begin at this time or later. Not in the past."
    )
    dry_run = serializers.BooleanField(
        default=False, help_text="true: nothing is published, and the answer says what would be."
    )


class PublishedBookShape(PriceBookShape):
    id = serializers.CharField(source="public_id", allow_null=True, help_text="null: it is not published.")


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
    offsets = serializers.IntegerField(help_text="How many offsets, from `first_offset` on.")


MISSING_USAGE = MissingUsageShape(many=True, help_text="Lost offsets of the usage log.")
