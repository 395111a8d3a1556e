"""REST of what every tenant's last period would have cost by another price book, for operators."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import price_actions, what_ifs
from control_plane.api import shapes
from control_plane.rest.views import OperatorView
from penstock.contract.errors import InvalidRequest
from penstock.rules import rating
from tenants.roles import Permission

_BOOK = OpenApiParameter(
    "price_book_sha256", str, required=True, description="A published price book (`GET /v1/price-books`)."
)


class TenantWhatIfShape(serializers.Serializer[Any]):
    tenant = serializers.CharField(source="tenant.public_id")
    name = serializers.CharField(source="tenant.name")
    invoice = serializers.CharField(source="preview.invoice.public_id")
    period_start = shapes.Moment(source="preview.invoice.cut.period_start")
    period_end = shapes.Moment(source="preview.invoice.cut.period_end")
    billed_currency = serializers.CharField(source="preview.invoice.price_book.currency")
    billed_micro = serializers.IntegerField(source="preview.billed_micro")
    preview_micro = serializers.IntegerField(source="preview.preview_micro")
    difference_micro = serializers.IntegerField(
        allow_null=True, help_text="null: it was billed in another currency, and nothing is exchanged."
    )


class WhatIfOfAllShape(serializers.Serializer[Any]):
    """Amounts are micro-units. Sums are of the tenants that are billed in the book's currency."""

    currency = serializers.CharField(source="book.currency")
    minor_digits = serializers.IntegerField(source="book.minor_digits")
    price_book_sha256 = serializers.CharField(source="book.sha256")
    billed_micro = serializers.IntegerField()
    preview_micro = serializers.IntegerField()
    difference_micro = serializers.IntegerField()
    dearer = serializers.IntegerField(help_text="Tenants that would pay more.")
    cheaper = serializers.IntegerField(help_text="Tenants that would pay less.")
    in_other_currencies = serializers.IntegerField()
    left_out = serializers.IntegerField(
        help_text=f"Tenants beyond the {what_ifs.TENANTS_MAX} with the greatest last invoices."
    )
    tenants = TenantWhatIfShape(many=True, help_text="From the one that would pay most more on.")


class WhatIfOfAllView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.PRICES_WRITE}

    @extend_schema(
        operation_id="billing_what_if",
        parameters=[_BOOK],
        responses={200: WhatIfOfAllShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Operators: what each tenant's last invoiced period would have cost by another published price book, with the
        tenant's own terms. Nothing is changed.
        """
        sha256 = request.query_params.get("price_book_sha256")
        if not sha256:
            raise InvalidRequest("price_book_sha256: name a published price book")
        book = rating.PriceBook.read(price_actions.book_of(sha256).document)
        return Response(WhatIfOfAllShape(what_ifs.what_if_of_all(book, timezone.now())).data)
