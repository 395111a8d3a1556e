"""REST: a tenant's limits."""

from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView, answer_change, tagged
from quotas import actions, queries
from quotas.plans import Limits
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission


class QuotasInput(shapes.StrictSerializer):
    produce_bytes_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    partitions_max = serializers.IntegerField(required=False, help_text="0 = no limit.")


# For a tenant. The context has its `limits`.
class QuotasShape(serializers.Serializer[Any]):
    tenant = serializers.CharField(source="public_id")
    produce_bytes_per_s = serializers.SerializerMethodField(
        help_text="Bytes per second of batches as sent, over all brokers; 0 = no limit."
    )
    partitions_max = serializers.SerializerMethodField(help_text="Partitions of all topics; 0 = no limit.")

    def get_produce_bytes_per_s(self, tenant: Tenant) -> int:
        return self._limits.produce_bytes_per_s

    def get_partitions_max(self, tenant: Tenant) -> int:
        return self._limits.partitions_max

    @property
    def _limits(self) -> Limits:
        limits: Limits = self.context["limits"]
        return limits


class ChangedQuotas(QuotasShape, shapes.Delivery):
    pass


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
        context = {"limits": queries.limits_of(self.tenant)}
        return tagged(self.tenant, QuotasShape(self.tenant, context=context))

    @extend_schema(
        operation_id="quotas_set",
        request=QuotasInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedQuotas, 202: ChangedQuotas, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request) -> Response:
        """Operators: set the given limits; the others stay as they are."""
        given = QuotasInput(data=request.data)
        given.is_valid(raise_exception=True)
        before = queries.quota_of(self.tenant)
        with etags.unchanged(request, self.tenant):
            tenant = actions.set_limits(self.actor, self.tenant, **given.validated_data)
        return answer_change(
            tenant,
            KIND_TENANT,
            ChangedQuotas,
            context={"limits": queries.limits_of(tenant)},
            take_back=partial(actions.take_back, self.actor, tenant, self.tenant, before),
        )
