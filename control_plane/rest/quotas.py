"""REST: a tenant's limits."""

from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.api.pages import in_memory
from control_plane.brokers import client as brokers
from control_plane.brokers.view import TenantUseSeen
from control_plane.rest import described
from control_plane.rest.views import CallerView, TenantView, answer_change, tagged
from control_plane.topics import plan_use
from penstock.contract.errors import Forbidden, InvalidRequest
from penstock.contract.resources import LIMITS, QUOTAS
from penstock.contract.resources.description import Method
from penstock.rules.service_levels import SHIPPED_LEVELS, STANDARD_1
from quotas import actions, queries
from quotas.plans import level_from, limits_from
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission, Standing, allowed

LimitsInput = described.change_of(LIMITS, "LimitsInput")
QuotasInput = described.change_of(QUOTAS.fields, "QuotasInput")


class PlanInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=100, trim_whitespace=False)
    limits = LimitsInput(help_text="What is not named has no limit.")
    service_level = serializers.DictField(
        required=False,
        help_text="An object with the `name` alone of a shipped level,"
        f" {' or '.join(one.name for one in SHIPPED_LEVELS)}. Or a level of the plan's own: `target_parts`, `tiers` of"
        " `below_parts` and `basis_points`, and if wanted `latency_ms` (a produce request that takes longer is a failed"
        " one) and `latency` with `within_ms`, `target_parts` and `tiers`. Shares are in parts of 10^9. Without it"
        f" {STANDARD_1.name}.",
        error_messages={
            # The framework formats it.
            "not_a_dict": 'An object is required: {{"name": …}} of'
            f" {' or '.join(one.name for one in SHIPPED_LEVELS)}, or a level of the plan's own."
        },
    )


LimitsShape = described.shape_of(LIMITS, "LimitsShape")


class TierShape(serializers.Serializer[Any]):
    below_parts = serializers.IntegerField(help_text="Below that share, in parts of 10^9, …")
    basis_points = serializers.IntegerField(help_text="… so much of the month's charge is credited.")


class LatencyObjectiveShape(serializers.Serializer[Any]):
    """99 % of the good produce requests take at most `within_ms`, in `target_parts` of the five-minute windows."""

    within_ms = serializers.IntegerField()
    target_parts = serializers.IntegerField(help_text="In parts of 10^9.")
    tiers = TierShape(many=True)


class PlanLevelShape(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="`plan/…`: of the plan alone.")
    version = serializers.IntegerField()
    target_parts = serializers.IntegerField(help_text="The share of good requests, in parts of 10^9.")
    latency_ms = serializers.IntegerField(
        allow_null=True, help_text="A produce request that takes longer is a failed one; null: none is."
    )
    tiers = TierShape(many=True)
    latency = LatencyObjectiveShape(allow_null=True)


class PlanShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    version = serializers.IntegerField()
    limits = LimitsShape()
    service_level = PlanLevelShape(help_text="Of months that begin while a tenant is on the plan.")


class LimitUseShape(serializers.Serializer[Any]):
    limit = serializers.CharField(source="name")
    present = serializers.IntegerField(help_text="The tenant's now; 0 = no limit.")
    wanted = serializers.IntegerField(help_text="The plan's; 0 = no limit.")
    used = serializers.IntegerField(
        allow_null=True,
        help_text="What the tenant uses of it; -1 = without an end, null = not counted, or the brokers do not say it.",
    )
    refused = serializers.CharField(help_text="Why the plan does not fit; empty if it does.")


class PreviewShape(serializers.Serializer[Any]):
    plan = serializers.CharField()
    plan_version = serializers.IntegerField()
    fits = serializers.BooleanField(help_text="Whether the change would be made.")
    limits = LimitUseShape(many=True)


# For a tenant. The context has its plan and limits, as `quotas`.
class _QuotasOfTenant(serializers.Serializer[Any]):
    def to_representation(self, instance: Tenant) -> dict[str, Any]:
        known = {"public_id": instance.public_id, "generation": instance.generation}
        shown: dict[str, Any] = super().to_representation(known | self.context["quotas"])
        return shown


QuotasShape = described.shape_of(
    QUOTAS.fields, "QuotasShape", _QuotasOfTenant, sources={"tenant": "public_id"}
)


class ChangedQuotas(QuotasShape, shapes.Delivery):  # type: ignore[misc,valid-type]
    pass


@described.operations(
    QUOTAS, Method.READ, Method.CHANGE, shape=QuotasShape, takes=QuotasInput, changed=ChangedQuotas
)
class QuotasView(TenantView):
    counted = False

    def get(self, request: Request) -> Response:
        return tagged(self.tenant, QuotasShape(self.tenant, context=_context(self.tenant)))

    def patch(self, request: Request) -> Response:
        limits = described.taken(request, QuotasInput)
        before = queries.quota_of(self.tenant)
        with etags.unchanged(request, self.tenant):
            name, version = limits.pop("plan", ""), limits.pop("plan_version", 0)
            if version and not name:
                raise InvalidRequest("plan_version: name the plan too")
            plan = queries.plan(name, version) if name else None
            asks = plan is not None or any(limit in limits for limit in plan_use.SEEN_BY_BROKERS)
            seen = brokers.tenant_use(self.tenant.public_id) if asks else TenantUseSeen()
            tenant = plan_use.set_limits(self.actor, self.tenant, plan=plan, seen=seen, **limits)
        return answer_change(
            tenant,
            KIND_TENANT,
            ChangedQuotas,
            context=_context(tenant),
            take_back=partial(actions.take_back, self.actor, tenant, self.tenant, before),
        )


class PreviewView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.QUOTAS_READ}

    @extend_schema(
        operation_id="quotas_preview",
        parameters=[
            shapes.TENANT,
            OpenApiParameter(
                "plan",
                str,
                description="Name of a plan. Unless given the tenant's present limits are compared.",
            ),
            OpenApiParameter("version", int, description="Its newest unless given."),
        ],
        responses={200: PreviewShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What another plan would change for the tenant, and what it would refuse; or, without `plan`, what the tenant
        uses of its present limits. Changes nothing.
        """
        version = request.query_params.get("version", "0")
        if not version.isascii() or not version.isdigit() or len(version) > 9:
            raise InvalidRequest("version: a whole number required")
        name = request.query_params.get("plan")
        if name is None and int(version):
            raise InvalidRequest("version: name the plan too")
        plan = queries.plan_of(self.tenant) if name is None else queries.plan(name, int(version))
        wanted = queries.limits_of(self.tenant) if name is None else plan.limits
        seen = brokers.tenant_use(self.tenant.public_id)
        compared = plan_use.compared(self.tenant, wanted, seen, self.access.visible)
        found = {
            "plan": plan.name,
            "plan_version": plan.version,
            "fits": not any(use.refused for use in compared),
            "limits": compared,
        }
        return Response(PreviewShape(found).data)


class PlansView(CallerView):
    """Every caller reads plans; operators publish them."""

    dry_run = frozenset({"POST"})

    def admit(self, request: Request) -> None:
        super().admit(request)
        if request.method == "POST" and (
            self.caller.operator is None or not allowed(Standing.OPERATOR, Permission.QUOTAS_WRITE)
        ):
            raise Forbidden("an operator's token is required")

    @extend_schema(
        operation_id="plans_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Plan", PlanShape(many=True)), **shapes.problems()},
    )
    def get(self, request: Request) -> Response:
        """Every version of every plan, with its limits and its service level."""
        rows = in_memory(queries.plans, key=lambda plan: (plan.name, f"{plan.version:010d}"))
        return self.paged(rows, PlanShape)

    @extend_schema(
        operation_id="plans_publish",
        parameters=[shapes.IDEMPOTENCY],
        request=PlanInput,
        responses={201: PlanShape, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Operators: publish a plan, or the next version of one. Tenants on earlier versions stay there.

        Publishing the same limits and service level again changes nothing.
        """
        asked = PlanInput(data=request.data)
        asked.is_valid(raise_exception=True)
        limits = limits_from(asked.validated_data["limits"])
        name, level = asked.validated_data["name"], asked.validated_data.get("service_level")
        wanted = STANDARD_1 if level is None else level_from(name, level)
        plan = actions.publish_plan(self.actor, name, limits, wanted)
        return Response(PlanShape(plan).data, status=201)


def _context(tenant: Tenant) -> dict[str, Any]:
    plan = queries.plan_of(tenant)
    return {"quotas": {"plan": plan.name, "plan_version": plan.version, **asdict(queries.limits_of(tenant))}}
