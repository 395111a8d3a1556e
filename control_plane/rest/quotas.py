"""REST: a tenant's limits."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView, tagged, told
from quotas import actions, queries
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission


class QuotasInput(shapes.StrictSerializer):
    produce_bytes_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    partitions_max = serializers.IntegerField(required=False, help_text="0 = no limit.")


class QuotasShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    produce_bytes_per_s = serializers.IntegerField(
        help_text="Bytes of batches as sent, over all brokers; 0 = no limit."
    )
    partitions_max = serializers.IntegerField(help_text="Partitions of all topics; 0 = no limit.")


class QuotasTold(QuotasShape):
    delivered = serializers.BooleanField()
    token = shapes.Token()


class QuotasView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.QUOTAS_READ, "PATCH": Permission.QUOTAS_WRITE}
    conditional = frozenset({"PATCH"})

    @extend_schema(
        operation_id="quotas_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: QuotasShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's limits."""
        return tagged(self.tenant, _show(self.tenant))

    @extend_schema(
        operation_id="quotas_set",
        request=QuotasInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: QuotasTold, 202: QuotasTold, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request) -> Response:
        """Operators: set the limits that are given."""
        given = QuotasInput(data=request.data)
        given.is_valid(raise_exception=True)
        with etags.unchanged(request, self.tenant):
            tenant = actions.set_limits(self.actor, self.tenant, **given.validated_data)
        return told(tenant, KIND_TENANT, _show(tenant))


def _show(tenant: Tenant) -> dict[str, Any]:
    limits = queries.limits_of(tenant)
    return {
        "tenant": tenant.public_id,
        "produce_bytes_per_s": limits.produce_bytes_per_s,
        "partitions_max": limits.partitions_max,
    }
