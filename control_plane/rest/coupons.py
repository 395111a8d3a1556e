"""REST of coupons: operators make and end them, a tenant redeems each once."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import coupon_actions
from billing.coupon_models import CODE_LENGTH_MAX
from billing.models import NAME_LENGTH_MAX
from control_plane.api import shapes
from control_plane.rest.views import OperatorView, TenantView
from penstock.contract import documents
from tenants.roles import Permission


class CouponInput(shapes.StrictSerializer):
    """A percentage or an amount."""

    code = serializers.CharField(
        max_length=CODE_LENGTH_MAX, help_text="6 or more of A to Z, 0 to 9 and -. Hard to guess."
    )
    basis_points = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=10_000, help_text="Of what each line costs."
    )
    amount_micro = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=10**15, help_text="Of each period, in `currency`."
    )
    currency = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=3, help_text="Of the amount."
    )
    days = serializers.IntegerField(
        min_value=coupon_actions.DAYS_MIN,
        max_value=coupon_actions.DAYS_MAX,
        help_text="It lowers periods that begin within so many days of its redemption.",
    )
    uses_max = serializers.IntegerField(
        min_value=1, max_value=coupon_actions.USES_MAX, help_text="So many tenants can redeem it."
    )
    reason = serializers.CharField(max_length=200, help_text="Stands on invoices.")
    from_at = serializers.DateTimeField(help_text="Redeemed from then on.")
    until_at = serializers.DateTimeField(help_text="Redeemed before that.")


class CouponShape(serializers.Serializer[Any]):
    code = serializers.CharField()
    basis_points = serializers.IntegerField()
    amount_micro = serializers.IntegerField()
    currency = serializers.CharField()
    days = serializers.IntegerField()
    uses_max = serializers.IntegerField()
    used = serializers.IntegerField(help_text="How many tenants have redeemed it.")
    reason = serializers.CharField()
    from_at = shapes.Moment()
    until_at = shapes.Moment()
    ended_at = shapes.Moment(allow_null=True)


class CodeInput(shapes.StrictSerializer):
    code = serializers.CharField(max_length=NAME_LENGTH_MAX)


class RedeemedShape(serializers.Serializer[Any]):
    discount = serializers.DictField(help_text="As it stands in the tenant's terms, from its next period on.")


class CouponsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.PRICES_WRITE, "POST": Permission.PRICES_WRITE}

    @extend_schema(
        operation_id="coupons_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Coupon", CouponShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: every coupon, and how many tenants have redeemed it."""
        return self.paged(coupon_actions.coupons().order_by("pk"), CouponShape)

    @extend_schema(
        operation_id="coupons_create",
        request=CouponInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={201: CouponShape, **shapes.problems(403, 409)},
    )
    def post(self, request: Request) -> Response:
        """Operators: make a coupon, which gives a discount to each tenant that redeems its code."""
        given = CouponInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = coupon_actions.make_coupon(self.actor, **given.validated_data)
        return Response(CouponShape(row).data, status=201)


class CouponView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.PRICES_WRITE, "DELETE": Permission.PRICES_WRITE}

    @extend_schema(operation_id="coupons_read", responses={200: CouponShape, **shapes.problems(403, 404)})
    def get(self, request: Request, coupon: str) -> Response:
        """Operators: one coupon."""
        return Response(CouponShape(coupon_actions.coupon_of(coupon)).data)

    @extend_schema(
        operation_id="coupons_end",
        request=None,
        responses={200: CouponShape, **shapes.problems(403, 404)},
    )
    def delete(self, request: Request, coupon: str) -> Response:
        """Operators: end a coupon. No one redeems it any more; who has keeps the discount."""
        row = coupon_actions.end_coupon(self.actor, coupon, timezone.now())
        return Response(CouponShape(row).data)


class RedeemView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.PAYMENTS_WRITE}

    @extend_schema(
        operation_id="coupons_redeem",
        request=CodeInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: RedeemedShape, **shapes.problems(403, 404, 409)},
    )
    def post(self, request: Request) -> Response:
        """Redeem a coupon's code, once. The tenant's next periods have its discount."""
        given = CodeInput(data=request.data)
        given.is_valid(raise_exception=True)
        code = given.validated_data["code"].strip().upper()
        discount = coupon_actions.redeem(self.actor, self.tenant, code, timezone.now())
        return Response(RedeemedShape({"discount": documents.plain(discount)}).data, status=201)
