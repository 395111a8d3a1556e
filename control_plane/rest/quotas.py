"""REST: a tenant's limits."""

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
from control_plane.rest.views import CallerView, TenantView, answer_change, tagged
from control_plane.topics import plan_use
from penstock.contract.errors import Forbidden, InvalidRequest
from penstock.rules.service_levels import SHIPPED_LEVELS, STANDARD_1
from quotas import actions, queries
from quotas.plans import Limits, Plan, level_from, limits_from
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tenants.roles import Permission, Standing, allowed


class LimitsInput(shapes.StrictSerializer):
    produce_bytes_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    partitions_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    topics_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    retention_ms_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    message_bytes_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    service_accounts_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    bin_days = serializers.IntegerField(required=False, help_text="0 = no recycle bin.")
    keys_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    consume_bytes_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    rest_calls_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    rest_processor_ms_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    connections_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    groups_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    requests_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    connection_attempts_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")
    rate_burst_ms = serializers.IntegerField(required=False, help_text="0 = the brokers' own.")
    rate_floor_percent = serializers.IntegerField(required=False, help_text="0 = the brokers' own.")
    storage_bytes_max = serializers.IntegerField(required=False, help_text="0 = no limit.")
    partition_changes_per_hour = serializers.IntegerField(required=False, help_text="0 = no limit.")
    broker_processor_ms_per_s = serializers.IntegerField(required=False, help_text="0 = no limit.")


class QuotasInput(LimitsInput):
    plan = serializers.CharField(
        required=False,
        max_length=100,
        help_text="Another plan ends every limit of the tenant's own that is not given with it. One below what the"
        " tenant uses is refused.",
    )
    plan_version = serializers.IntegerField(required=False, help_text="Its newest unless given.")


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


class LimitsShape(serializers.Serializer[Any]):
    """0 = no limit."""

    produce_bytes_per_s = serializers.IntegerField(
        help_text="Bytes per second of batches as sent, over all brokers."
    )
    partitions_max = serializers.IntegerField(help_text="Partitions of all topics.")
    topics_max = serializers.IntegerField(help_text="Topics.")
    retention_ms_max = serializers.IntegerField(help_text="The longest `retention_ms` of a topic.")
    message_bytes_max = serializers.IntegerField(help_text="The largest `max_message_bytes` of a topic.")
    service_accounts_max = serializers.IntegerField(help_text="Service accounts.")
    bin_days = serializers.IntegerField(
        help_text="Days that a deleted topic stays in the recycle bin; 0 = no recycle bin."
    )
    keys_max = serializers.IntegerField(help_text="Valid keys of people and service accounts.")
    consume_bytes_per_s = serializers.IntegerField(
        help_text="Bytes per second of batches as pushed to consumers, over all brokers."
    )
    rest_calls_per_s = serializers.IntegerField(help_text="Calls of REST per second, of all callers.")
    rest_processor_ms_per_s = serializers.IntegerField(
        help_text="Milliseconds of processor time that calls of REST take per second, of all callers."
    )
    connections_max = serializers.IntegerField(help_text="Connections with open calls at one broker.")
    groups_max = serializers.IntegerField(help_text="Consumer groups, over all brokers.")
    requests_per_s = serializers.IntegerField(help_text="Requests of clients per second, over all brokers.")
    connection_attempts_per_s = serializers.IntegerField(
        help_text="Connections that begin per second at one broker."
    )
    rate_burst_ms = serializers.IntegerField(
        help_text="For how long what was not used of a rate may be made up; 0 = the brokers' own."
    )
    rate_floor_percent = serializers.IntegerField(
        help_text="The part of each rate that brokers may use without a lease; 0 = the brokers' own."
    )
    storage_bytes_max = serializers.IntegerField(
        help_text="Bytes that all topics keep, of one copy, with those in the recycle bin."
    )
    partition_changes_per_hour = serializers.IntegerField(
        help_text="Partitions created or deleted, and changes of a topic's settings, per hour."
    )
    broker_processor_ms_per_s = serializers.IntegerField(
        help_text="Milliseconds of processor time that the work of clients takes of one broker per second."
    )


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


# For a tenant. The context has its `limits` and its `plan`.
class QuotasShape(serializers.Serializer[Any]):
    tenant = serializers.CharField(source="public_id")
    plan = serializers.SerializerMethodField(help_text="The plan that the tenant is on.")
    plan_version = serializers.SerializerMethodField()
    produce_bytes_per_s = serializers.SerializerMethodField(
        help_text="Bytes per second of batches as sent, over all brokers; 0 = no limit."
    )
    partitions_max = serializers.SerializerMethodField(help_text="Partitions of all topics; 0 = no limit.")
    topics_max = serializers.SerializerMethodField(help_text="Topics; 0 = no limit.")
    retention_ms_max = serializers.SerializerMethodField(
        help_text="The longest `retention_ms` of a topic; 0 = no limit."
    )
    message_bytes_max = serializers.SerializerMethodField(
        help_text="The largest `max_message_bytes` of a topic; 0 = no limit."
    )
    service_accounts_max = serializers.SerializerMethodField(help_text="Service accounts; 0 = no limit.")
    bin_days = serializers.SerializerMethodField(
        help_text="Days that a deleted topic stays in the recycle bin; 0 = no recycle bin."
    )
    keys_max = serializers.SerializerMethodField(
        help_text="Valid keys of people and service accounts; 0 = no limit."
    )
    consume_bytes_per_s = serializers.SerializerMethodField(
        help_text="Bytes per second of batches as pushed to consumers, over all brokers; 0 = no limit."
    )
    rest_calls_per_s = serializers.SerializerMethodField(
        help_text="Calls of REST per second, of all callers; 0 = no limit."
    )
    rest_processor_ms_per_s = serializers.SerializerMethodField(
        help_text="Milliseconds of processor time that calls of REST take per second, of all callers; 0 = no limit."
    )
    connections_max = serializers.SerializerMethodField(
        help_text="Connections with open calls at one broker; 0 = no limit."
    )
    groups_max = serializers.SerializerMethodField(
        help_text="Consumer groups, over all brokers; 0 = no limit."
    )
    requests_per_s = serializers.SerializerMethodField(
        help_text="Requests of clients per second, over all brokers; 0 = no limit."
    )
    connection_attempts_per_s = serializers.SerializerMethodField(
        help_text="Connections that begin per second at one broker; 0 = no limit."
    )
    rate_burst_ms = serializers.SerializerMethodField(
        help_text="For how long what was not used of a rate may be made up; 0 = the brokers' own."
    )
    rate_floor_percent = serializers.SerializerMethodField(
        help_text="The part of each rate that brokers may use without a lease; 0 = the brokers' own."
    )
    storage_bytes_max = serializers.SerializerMethodField(
        help_text="Bytes that all topics keep, of one copy, with those in the recycle bin; 0 = no limit."
    )
    partition_changes_per_hour = serializers.SerializerMethodField(
        help_text="Partitions created or deleted, and changes of a topic's settings, per hour; 0 = no limit."
    )
    broker_processor_ms_per_s = serializers.SerializerMethodField(
        help_text="Milliseconds of processor time that the work of clients takes of one broker per second; 0 = no"
        " limit."
    )

    def get_plan(self, tenant: Tenant) -> str:
        return self._plan.name

    def get_plan_version(self, tenant: Tenant) -> int:
        return self._plan.version

    def get_produce_bytes_per_s(self, tenant: Tenant) -> int:
        return self._limits.produce_bytes_per_s

    def get_partitions_max(self, tenant: Tenant) -> int:
        return self._limits.partitions_max

    def get_topics_max(self, tenant: Tenant) -> int:
        return self._limits.topics_max

    def get_retention_ms_max(self, tenant: Tenant) -> int:
        return self._limits.retention_ms_max

    def get_message_bytes_max(self, tenant: Tenant) -> int:
        return self._limits.message_bytes_max

    def get_service_accounts_max(self, tenant: Tenant) -> int:
        return self._limits.service_accounts_max

    def get_bin_days(self, tenant: Tenant) -> int:
        return self._limits.bin_days

    def get_keys_max(self, tenant: Tenant) -> int:
        return self._limits.keys_max

    def get_consume_bytes_per_s(self, tenant: Tenant) -> int:
        return self._limits.consume_bytes_per_s

    def get_rest_calls_per_s(self, tenant: Tenant) -> int:
        return self._limits.rest_calls_per_s

    def get_rest_processor_ms_per_s(self, tenant: Tenant) -> int:
        return self._limits.rest_processor_ms_per_s

    def get_connections_max(self, tenant: Tenant) -> int:
        return self._limits.connections_max

    def get_groups_max(self, tenant: Tenant) -> int:
        return self._limits.groups_max

    def get_requests_per_s(self, tenant: Tenant) -> int:
        return self._limits.requests_per_s

    def get_connection_attempts_per_s(self, tenant: Tenant) -> int:
        return self._limits.connection_attempts_per_s

    def get_rate_burst_ms(self, tenant: Tenant) -> int:
        return self._limits.rate_burst_ms

    def get_rate_floor_percent(self, tenant: Tenant) -> int:
        return self._limits.rate_floor_percent

    def get_storage_bytes_max(self, tenant: Tenant) -> int:
        return self._limits.storage_bytes_max

    def get_partition_changes_per_hour(self, tenant: Tenant) -> int:
        return self._limits.partition_changes_per_hour

    def get_broker_processor_ms_per_s(self, tenant: Tenant) -> int:
        return self._limits.broker_processor_ms_per_s

    @property
    def _limits(self) -> Limits:
        limits: Limits = self.context["limits"]
        return limits

    @property
    def _plan(self) -> Plan:
        plan: Plan = self.context["plan"]
        return plan


class ChangedQuotas(QuotasShape, shapes.Delivery):
    pass


class QuotasView(TenantView):
    counted = False
    permissions: ClassVar[Any] = {"GET": Permission.QUOTAS_READ, "PATCH": Permission.QUOTAS_WRITE}
    conditional = frozenset({"PATCH"})
    dry_run = frozenset({"PATCH"})

    @extend_schema(
        operation_id="quotas_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: QuotasShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's limits."""
        return tagged(self.tenant, QuotasShape(self.tenant, context=_context(self.tenant)))

    @extend_schema(
        operation_id="quotas_set",
        request=QuotasInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedQuotas, 202: ChangedQuotas, **shapes.problems(403, 404, 409, 412)},
    )
    def patch(self, request: Request) -> Response:
        """Operators: set the given limits, or another plan; the others stay as they are.

        A limit that becomes lower than it was, and is below what the tenant uses, is refused.
        """
        given = QuotasInput(data=request.data)
        given.is_valid(raise_exception=True)
        before = queries.quota_of(self.tenant)
        with etags.unchanged(request, self.tenant):
            asked = dict(given.validated_data)
            name, version = asked.pop("plan", ""), asked.pop("plan_version", 0)
            if version and not name:
                raise InvalidRequest("plan_version: name the plan too")
            plan = queries.plan(name, version) if name else None
            asks = plan is not None or any(name in asked for name in plan_use.SEEN_BY_BROKERS)
            seen = brokers.tenant_use(self.tenant.public_id) if asks else TenantUseSeen()
            tenant = plan_use.set_limits(self.actor, self.tenant, plan=plan, seen=seen, **asked)
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
        compared = plan_use.compared(self.tenant, wanted, brokers.tenant_use(self.tenant.public_id))
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
    return {"limits": queries.limits_of(tenant), "plan": queries.plan_of(tenant)}
