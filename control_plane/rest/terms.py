"""REST of a tenant's terms: what it has beside the general prices, from when, and what other ones would have cost."""

from decimal import Decimal
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import previews, price_actions, terms_actions
from billing.models import TenantTerms
from billing.running_costs import RunningCost, running_cost
from control_plane.api import etags, shapes
from control_plane.rest import dry_runs
from control_plane.rest.tenants import OneTenantView
from control_plane.rest.views import TenantView
from penstock.contract import document_fields, documents
from penstock.contract.errors import NotFound
from penstock.rules import rating
from tenants.models import Tenant
from tenants.roles import Permission

_MS = "Times are milliseconds since 1970, UTC."
_DISCOUNTS = (
    "In the order in which they are taken. Each has `id`, `basis_points` of a line or an `amount_micro` of each period"
    f" in `currency`, `meters` (empty: all), `from_ms`, `until_ms` and `reason`. {_MS}"
)
_CREDITS = (
    "Prepaid. Each grant has `id`, `amount_micro`, `currency`, `granted_ms`, `expires_ms` (null: never) and `reason`."
    f" One that was given stays as it is until it expires. The soonest to expire is used first, then the oldest. {_MS}"
)
_TAX = (
    "`country`, `region`, `rates` with `from_ms` and `basis_points`, and `reverse_charge` with its `reason`. null:"
    f" none. {_MS}"
)
_SHA256 = r"^[0-9a-f]{64}$"
_OWN_BOOK = "The price book of this tenant alone; null: the one that is in effect for all."


class TermsInput(shapes.StrictSerializer):
    """All of a tenant's terms."""

    discounts = serializers.ListField(
        child=serializers.DictField(), max_length=document_fields.TERMS_MAX, help_text=_DISCOUNTS
    )
    credits = serializers.ListField(
        child=serializers.DictField(), max_length=document_fields.TERMS_MAX, help_text=_CREDITS
    )
    tax = serializers.DictField(allow_null=True, help_text=_TAX)
    price_book_sha256 = serializers.RegexField(_SHA256, allow_null=True, help_text=_OWN_BOOK)


class PreviewInput(shapes.StrictSerializer):
    """What to rate the last periods by."""

    document = serializers.DictField(required=False, help_text="A price book that need not be published.")
    price_book_sha256 = serializers.RegexField(
        _SHA256,
        required=False,
        allow_null=True,
        help_text="A published price book; null: each invoice's own.",
    )
    terms = serializers.DictField(
        required=False, help_text="`discounts`, `credits` and `tax`. Without them each invoice has its own."
    )
    periods = serializers.IntegerField(
        required=False,
        default=1,
        min_value=1,
        max_value=previews.PERIODS_MAX,
        help_text="So many of the newest invoiced periods.",
    )


class TermsShape(serializers.Serializer[Any]):
    revision = serializers.IntegerField(help_text="Counted up with each change; 0: none was made.")
    changed_at = shapes.Moment(help_text="They are for periods that begin then or later.")
    price_book_sha256 = serializers.CharField(
        source="price_book.sha256", default=None, allow_null=True, help_text=_OWN_BOOK
    )
    discounts = serializers.ListField(
        child=serializers.DictField(), source="document.discounts", help_text=_DISCOUNTS
    )
    credits = serializers.ListField(
        child=serializers.DictField(), source="document.credits", help_text=_CREDITS
    )
    tax = serializers.DictField(source="document.tax", allow_null=True, help_text=_TAX)


class CostLineShape(serializers.Serializer[Any]):
    meter = serializers.CharField()
    unit = serializers.CharField()
    unit_size = serializers.IntegerField()
    quantity = serializers.IntegerField()
    amount_micro = serializers.IntegerField()


class CostChargeShape(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="fee, discount, minimum, credit or tax.")
    name = serializers.CharField()
    meter = serializers.CharField(help_text="Whose line a discount lowers; else empty.")
    base_micro = serializers.IntegerField(help_text="What the amount is of.")
    basis_points = serializers.IntegerField()
    amount_micro = serializers.IntegerField(help_text="Negative for discounts and credits.")
    reason = serializers.CharField()


class LeftShape(serializers.Serializer[Any]):
    grant = serializers.CharField()
    left_micro = serializers.IntegerField()


class PricesShape(serializers.Serializer[Any]):
    """Amounts are micro-units of the currency. Provisional: the period has not ended."""

    begins = shapes.Moment(help_text="Where the last issued invoice ended.")
    currency = serializers.CharField(source="book.currency")
    minor_digits = serializers.IntegerField(source="book.minor_digits")
    price_book_sha256 = serializers.CharField(source="book.sha256")
    price_book = serializers.DictField(source="book_document", help_text="In force for this tenant.")
    discounts = serializers.ListField(
        child=serializers.DictField(), source="terms.discounts", help_text=_DISCOUNTS
    )
    credits = serializers.ListField(child=serializers.DictField(), source="terms.credits", help_text=_CREDITS)
    tax = serializers.DictField(source="terms.tax", allow_null=True, help_text=_TAX)
    tax_stated_by = serializers.SerializerMethodField(
        help_text="`stripe_tax`: tax comes on top, and is known when the invoice is issued. Empty: it does not."
    )
    credits_left = serializers.SerializerMethodField(
        help_text="What would be left of each grant if the period ended now."
    )
    lines = CostLineShape(source="rated.lines", many=True)
    charges = CostChargeShape(source="charged.charges", many=True)
    total_micro = serializers.IntegerField(help_text="The sum of lines and charges.")

    def get_tax_stated_by(self, cost: RunningCost) -> str:
        return str(cost.terms.get("tax_stated_by", ""))

    @extend_schema_field(LeftShape(many=True))
    def get_credits_left(self, cost: RunningCost) -> Any:
        return [{"grant": grant, "left_micro": left} for grant, left in cost.left.items()]


class PreviewLineShape(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="usage, fee, discount, minimum, credit or tax.")
    name = serializers.CharField()
    meter = serializers.CharField()
    billed_micro = serializers.IntegerField()
    preview_micro = serializers.IntegerField()
    difference_micro = serializers.IntegerField()


class PreviewPeriodShape(serializers.Serializer[Any]):
    """Amounts are micro-units, what was billed in `billed_currency`, the preview in `currency`."""

    invoice = serializers.CharField(source="invoice.public_id")
    period_start = shapes.Moment(source="invoice.cut.period_start")
    period_end = shapes.Moment(source="invoice.cut.period_end")
    billed_currency = serializers.CharField(source="invoice.price_book.currency")
    currency = serializers.CharField(source="book.currency")
    minor_digits = serializers.IntegerField(source="book.minor_digits")
    billed_micro = serializers.IntegerField()
    preview_micro = serializers.IntegerField()
    difference_micro = serializers.IntegerField(allow_null=True, help_text="null: the currencies differ.")
    lines = PreviewLineShape(many=True)


class TermsPreviewShape(serializers.Serializer[Any]):
    periods = PreviewPeriodShape(many=True, help_text="Oldest first.")


def _tag(row: TenantTerms) -> str:
    return etags.of_content(row.tenant.public_id, row.revision)


def _shown(row: TenantTerms) -> Response:
    return Response(TermsShape(row).data, headers={"ETag": _tag(row)})


class TermsView(OneTenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.INVOICES_READ,
        "PUT": Permission.PRICES_WRITE,
        "PATCH": Permission.PRICES_WRITE,
    }
    conditional = frozenset({"PUT", "PATCH"})
    dry_run = frozenset({"PUT", "PATCH"})

    @extend_schema(
        operation_id="terms_read",
        parameters=[shapes.ETAG],
        responses={200: TermsShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, tenant: str) -> Response:
        """What the tenant has beside the general prices from its next period on. The chain has what holds now."""
        return _shown(terms_actions.terms_of(self.tenant))

    @extend_schema(
        operation_id="terms_set",
        request=TermsInput,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: TermsShape, **shapes.problems(403, 404, 412)},
    )
    def put(self, request: Request, tenant: str) -> Response:
        """Operators: set all terms of the tenant's periods that begin from now on. The same again changes nothing.

        A dry run says what they would have changed in the last invoiced period.
        """
        return self._change(request, TermsInput(data=request.data))

    @extend_schema(
        operation_id="terms_change",
        request=TermsInput,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: TermsShape, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request, tenant: str) -> Response:
        """Operators: as to set them, and what is not named stays as it is."""
        return self._change(request, TermsInput(data=request.data, partial=True))

    def _change(self, request: Request, given: TermsInput) -> Response:
        given.is_valid(raise_exception=True)
        with terms_actions.locked(self.tenant) as own:
            etags.check(request, _tag(own))
            own_book = None if own.price_book is None else own.price_book.sha256
            wanted = {**own.document, "price_book_sha256": own_book, **given.validated_data}
            sha256 = wanted.pop("price_book_sha256")
            row = terms_actions.change_terms(
                self.actor,
                self.tenant.public_id,
                terms=wanted,
                price_book_sha256=sha256,
                now=timezone.now(),
            )
        answer = _shown(row)
        if dry_runs.is_asked(request):
            dry_runs.note_cost(answer, *_cost_of(row))
        return answer


def _cost_of(row: TenantTerms) -> tuple[Decimal | None, str]:
    """What the terms would have changed in the last invoiced period, in units of the currency, and why so much."""
    now = timezone.now()
    book = row.price_book or price_actions.book_for(row.tenant, now)
    wanted = documents.read_document(row.document, documents.Terms, "terms")
    try:
        (found,) = previews.last_periods(
            row.tenant,
            book=None if book is None else rating.PriceBook.read(book.document),
            terms=wanted,
            now=now,
        )
    except NotFound as error:
        return None, error.message
    period = f"{found.invoice.cut.period_start:%Y-%m-%d} to {found.invoice.cut.period_end:%Y-%m-%d}"
    was = f"{rating.grouped_amount(found.billed_micro, 2)} {found.invoice.price_book.currency}"
    then = f"{rating.grouped_amount(found.preview_micro, 2)} {found.book.currency}"
    reason = f"the last invoiced period, {period}, cost {was}; with these terms and prices {then}"
    if found.difference_micro is None:
        return None, f"{reason}; nothing is exchanged"
    return Decimal(found.difference_micro) / rating.MICRO, reason


class PricesView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="prices_read",
        parameters=[shapes.TENANT],
        responses={200: PricesShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The prices of the tenant's running period, with its discounts, credit and tax, and what it costs so far."""
        cost = running_cost(self.tenant, timezone.now())
        if cost is None:
            raise NotFound("there are no prices yet; the first round of billing publishes them")
        return Response(PricesShape(cost).data)


class TermsHistoryView(OneTenantView):
    permissions: ClassVar[Any] = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="terms_history",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Terms", TermsShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request, tenant: str) -> Response:
        """Every change of the tenant's terms, oldest first. A period has the newest that is not younger than its
        beginning.
        """
        return self.paged(terms_actions.terms_history(self.tenant).order_by("revision"), TermsShape)


class TermsPreviewView(OneTenantView):
    permissions: ClassVar[Any] = {"POST": Permission.PRICES_WRITE}

    @extend_schema(
        operation_id="terms_preview",
        request=PreviewInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: TermsPreviewShape, **shapes.problems(403, 404)},
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Operators: what the tenant's last invoiced periods would have cost by another price book or other terms, line
        by line. Nothing is changed.
        """
        given = PreviewInput(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(TermsPreviewShape({"periods": _previewed(self.tenant, given.validated_data)}).data)


def _previewed(tenant: Tenant, given: dict[str, Any]) -> list[previews.Preview]:
    book = None
    if "document" in given:
        book = rating.PriceBook.read(given["document"])
    elif given.get("price_book_sha256") is not None:
        book = rating.PriceBook.read(price_actions.book_of(given["price_book_sha256"]).document)
    terms = documents.read_document(given["terms"], documents.Terms, "terms") if "terms" in given else None
    return previews.last_periods(tenant, book=book, terms=terms, count=given["periods"], now=timezone.now())
