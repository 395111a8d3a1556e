"""REST of coupons: operators make and end them, a tenant redeems each once."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import coupon_actions
from billing.models import NAME_LENGTH_MAX
from control_plane.api import shapes
from control_plane.rest import described
from control_plane.rest.views import OperatorView, TenantView
from penstock.contract import documents
from penstock.contract.resources import COUPONS
from penstock.contract.resources.description import Method
from tenants.roles import Permission

CouponInput = described.made_of(COUPONS, "CouponInput", COUPONS.about)
CouponShape = described.shape_of(COUPONS.fields, "CouponShape")


class CodeInput(shapes.StrictSerializer):
    code = serializers.CharField(max_length=NAME_LENGTH_MAX)


class RedeemedShape(serializers.Serializer[Any]):
    discount = serializers.DictField(help_text="As it stands in the tenant's terms, from its next period on.")


@described.operations(COUPONS, Method.LIST, Method.CREATE, shape=CouponShape, takes=CouponInput)
class CouponsView(OperatorView):
    def get(self, request: Request) -> Response:
        return self.paged(coupon_actions.coupons().order_by("pk"), CouponShape)

    def post(self, request: Request) -> Response:
        row = coupon_actions.make_coupon(self.actor, **described.taken(request, CouponInput))
        return Response(CouponShape(row).data, status=201)


@described.operations(COUPONS, Method.READ, Method.REMOVE, shape=CouponShape)
class CouponView(OperatorView):
    def get(self, request: Request, coupon: str) -> Response:
        return Response(CouponShape(coupon_actions.coupon_of(coupon)).data)

    def delete(self, request: Request, coupon: str) -> Response:
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
        code = described.taken(request, CodeInput)["code"].strip().upper()
        discount = coupon_actions.redeem(self.actor, self.tenant, code, timezone.now())
        return Response(RedeemedShape({"discount": documents.plain(discount)}).data, status=201)
