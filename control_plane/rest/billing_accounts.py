"""REST of a tenant's billing account: its currency, and where it is for taxes."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import account_actions, tax_actions
from billing.tax_models import ADDRESS_LENGTH_MAX, EMAIL_LENGTH_MAX, TAX_ID_LENGTH_MAX, TaxAddress
from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView
from tenants.roles import Permission

_POST = "As the post writes it; empty: none."


class BillingAccountShape(serializers.Serializer[Any]):
    currency = serializers.CharField(
        allow_null=True, help_text="What the tenant is invoiced in, for good; null: there are no prices yet."
    )
    tax_by = serializers.ChoiceField(
        choices=["none", "table", "stripe_tax"],
        help_text="How the next period is taxed: not, by the table in the terms, or as Stripe Tax states it.",
    )


class TaxAddressInput(shapes.StrictSerializer):
    country = serializers.CharField(max_length=2, help_text="Of ISO 3166-1: DE.")
    state = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=ADDRESS_LENGTH_MAX, help_text=_POST
    )
    postal_code = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=ADDRESS_LENGTH_MAX
    )
    city = serializers.CharField(required=False, default="", allow_blank=True, max_length=ADDRESS_LENGTH_MAX)
    line1 = serializers.CharField(required=False, default="", allow_blank=True, max_length=ADDRESS_LENGTH_MAX)
    line2 = serializers.CharField(required=False, default="", allow_blank=True, max_length=ADDRESS_LENGTH_MAX)
    tax_id_type = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=20,
        help_text="As Stripe calls it: eu_vat, us_ein.",
    )
    tax_id = serializers.CharField(required=False, default="", allow_blank=True, max_length=TAX_ID_LENGTH_MAX)
    legal_name = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=ADDRESS_LENGTH_MAX,
        help_text="Who is invoiced, as its register calls it; empty: the tenant's name.",
    )
    email = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=EMAIL_LENGTH_MAX,
        help_text="Where issued invoices go; empty: to the people who may pay them.",
    )
    no_mail = serializers.BooleanField(
        required=False, default=False, help_text="Whether issued invoices are not sent by e-mail."
    )


class TaxAddressShape(serializers.Serializer[Any]):
    """All empty: the tenant has given none."""

    country = serializers.CharField()
    state = serializers.CharField()
    postal_code = serializers.CharField()
    city = serializers.CharField()
    line1 = serializers.CharField()
    line2 = serializers.CharField()
    tax_id_type = serializers.CharField()
    tax_id = serializers.CharField()
    legal_name = serializers.CharField()
    email = serializers.CharField()
    no_mail = serializers.BooleanField()


class BillingAccountView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="billing_account_read",
        parameters=[shapes.TENANT],
        responses={200: BillingAccountShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What the tenant is invoiced in, and how it is taxed."""
        shown = {
            "currency": account_actions.currency_of(self.tenant),
            "tax_by": tax_actions.tax_by(self.tenant),
        }
        return Response(BillingAccountShape(shown).data)


class TaxAddressView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.INVOICES_READ, "PUT": Permission.PAYMENTS_WRITE}
    conditional = frozenset({"PUT"})
    dry_run = frozenset({"PUT"})

    @extend_schema(
        operation_id="tax_address_read",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: TaxAddressShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's billing profile: its legal name, address, tax number and e-mail address, as it says."""
        return self._shown(tax_actions.address_of(self.tenant))

    @extend_schema(
        operation_id="tax_address_set",
        request=TaxAddressInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: TaxAddressShape, **shapes.problems(403, 404, 412, 422)},
    )
    def put(self, request: Request) -> Response:
        """Set the billing profile, all of it. It stands on the invoices that are issued from then on."""
        given = TaxAddressInput(data=request.data)
        given.is_valid(raise_exception=True)
        with etags.unchanged_within(
            request, self.tenant, lambda: _tag_of(tax_actions.address_of(self.tenant))
        ):
            row = tax_actions.set_address(self.actor, self.tenant, now=timezone.now(), **given.validated_data)
        return self._shown(row)

    def _shown(self, row: TaxAddress | None) -> Response:
        return Response(TaxAddressShape(row or TaxAddress()).data, headers={"ETag": _tag_of(row)})


def _tag_of(row: TaxAddress | None) -> str:
    return etags.of_content(*("" if row is None else getattr(row, name) for name in tax_actions.FIELDS))
