"""REST of service levels: a tenant's month with what it credits, and the time that operators take out of them."""

from datetime import timedelta
from typing import Any, ClassVar

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import exclusion_actions, leaderless_partitions, service_level_pdf, service_level_reports
from billing.service_level_models import REASON_LENGTH_MAX, ServiceExclusion
from control_plane import config
from control_plane.api import shapes
from control_plane.rest.billing import PDF
from control_plane.rest.costs import data_sets
from control_plane.rest.views import OperatorView, TenantView
from penstock.contract import documents
from penstock.rules.service_level_months import latency_shown
from penstock.rules.service_levels import EXCLUDED_WINDOWS_MAX, LATENCY_MIN
from tenants.models import Tenant
from tenants.roles import Permission

_PARTS = "In parts of 10^9, rounded down; null: nothing was measured."


class LatencyPercentilesShape(serializers.Serializer[Any]):
    """Of good answers, from their arrival at a broker, in microseconds to 1 %."""

    operation = serializers.CharField()
    requests = serializers.IntegerField()
    p50_us = serializers.SerializerMethodField()
    p95_us = serializers.SerializerMethodField()
    p99_us = serializers.SerializerMethodField()
    p999_us = serializers.SerializerMethodField()

    def get_p50_us(self, found: service_level_reports.Latencies) -> int:
        return dict(found.percentiles)[500]

    def get_p95_us(self, found: service_level_reports.Latencies) -> int:
        return dict(found.percentiles)[950]

    def get_p99_us(self, found: service_level_reports.Latencies) -> int:
        return dict(found.percentiles)[990]

    def get_p999_us(self, found: service_level_reports.Latencies) -> int:
        return dict(found.percentiles)[999]


class ServiceDayShape(serializers.Serializer[Any]):
    day = serializers.DateField()
    parts = serializers.IntegerField(
        allow_null=True, help_text=f"The lower mean of produce and fetch. {_PARTS}"
    )


class LatencyMonthShape(serializers.Serializer[Any]):
    """In so many of the five-minute windows 99 % of the good produce requests took at most `within_ms`."""

    within_ms = serializers.IntegerField()
    target_parts = serializers.IntegerField(help_text="In parts of 10^9.")
    judged = serializers.IntegerField(
        help_text=f"Windows with at least {LATENCY_MIN} good produce requests; others count as in time."
    )
    missed = serializers.IntegerField(help_text="Of them, windows that were too slow.")
    parts = serializers.IntegerField(allow_null=True, help_text=f"The share of windows in time. {_PARTS}")


class LeaderlessShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    seconds = serializers.IntegerField(help_text="Of all its partitions together.")


class LeaderlessPartitionShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    seconds = serializers.IntegerField(help_text="In which it had no leader, in all.")


class AnnouncedShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    from_at = shapes.Moment()
    until_at = shapes.Moment()
    reason = serializers.CharField()
    announced_at = shapes.Moment(source="created_at")


class ServiceLevelShape(serializers.Serializer[Any]):
    month = serializers.CharField(source="document.month")
    level = serializers.CharField(
        source="document.level.name",
        help_text="Of the plan that the tenant was on when the month, or the tenant, began.",
    )
    level_version = serializers.IntegerField(source="document.level.version")
    provisional = serializers.BooleanField(help_text="It is not posted yet: its numbers may change.")
    report = serializers.SerializerMethodField(help_text="The id of the posted report; empty before.")
    posted_at = shapes.Moment(source="posted.posted_at", default=None, help_text="null: it is not posted.")
    binding_parts = serializers.IntegerField(
        source="document.binding_parts",
        allow_null=True,
        help_text=f"The lower mean of produce and fetch, by which is credited. {_PARTS}",
    )
    target_parts = serializers.IntegerField(source="document.level.target_parts")
    basis_points = serializers.IntegerField(
        source="document.basis_points", help_text="Of the month's charge, in hundredths of a percent."
    )
    currency = serializers.CharField(source="document.currency")
    minor_digits = serializers.IntegerField(source="document.minor_digits")
    charge_micro = serializers.IntegerField(
        source="document.charge_micro", help_text="Of issued invoices of the month, before credit and tax."
    )
    credit_micro = serializers.IntegerField(source="document.credit_micro")
    latency = serializers.SerializerMethodField(
        help_text="Of a level that promises latencies; of its credit and that of the binding share the higher counts."
    )
    latencies = LatencyPercentilesShape(many=True)
    days = ServiceDayShape(many=True)
    leaderless = LeaderlessShape(
        many=True,
        help_text="Topics of which partitions had no leader, the longest first, at most"
        f" {service_level_reports.LEADERLESS_MAX}. Each second counts as a failed produce and a failed fetch request.",
    )
    leaderless_partitions = LeaderlessPartitionShape(
        many=True,
        allow_null=True,
        help_text="The same by partition, the longest first, at most"
        f" {leaderless_partitions.PARTITIONS_MAX}; null: it cannot be read now.",
    )
    leaderless_partitions_more = serializers.IntegerField(help_text="How many are beside these.")
    announced = AnnouncedShape(
        many=True,
        help_text="Time to come that operators take out of service levels, the first at most"
        f" {service_level_reports.ANNOUNCED_MAX}.",
    )
    document = serializers.SerializerMethodField(
        help_text="The evidence: windows with failures, runs, exclusions, invoices. All other numbers follow from it."
    )
    document_sha256 = serializers.CharField(
        source="sha256", help_text="Once posted, it stands in the reason of the credit's grant."
    )

    def get_report(self, found: service_level_reports.MonthReport) -> str:
        return "" if found.posted is None else found.posted.public_id

    @extend_schema_field(LatencyMonthShape(allow_null=True))
    def get_latency(self, found: service_level_reports.MonthReport) -> dict[str, int | None] | None:
        return latency_shown(found.document)

    def get_document(self, found: service_level_reports.MonthReport) -> dict[str, Any]:
        return dict(documents.plain(found.document))


class ExclusionInput(shapes.StrictSerializer):
    tenant = serializers.CharField(
        required=False, default=None, allow_null=True, max_length=64, help_text="Its id. null: all tenants."
    )
    from_at = serializers.DateTimeField(
        help_text="At least so many hours from now as the service promises (`service_levels.exclusion_notice_hours`)."
    )
    until_at = serializers.DateTimeField(
        help_text=f"Of a month at most {EXCLUDED_WINDOWS_MAX} windows of five minutes are taken out of any tenant's."
    )
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX, help_text="Tenants see it in their reports.")


class ExclusionShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    tenant = serializers.CharField(source="tenant.public_id", default=None, help_text="null: all tenants.")
    from_at = shapes.Moment()
    until_at = shapes.Moment()
    reason = serializers.CharField()
    withdrawn_at = shapes.Moment(allow_null=True, help_text="From then on it excludes nothing.")
    created_at = shapes.Moment(help_text="When it was announced.")


class ServiceLevelView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="sla_read",
        parameters=[shapes.TENANT],
        responses={200: ServiceLevelShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, month: str) -> Response:
        """The service level of a UTC month, as `2026-11`: how much of what the tenant asked for was done, by several
        formulas, and what is credited. A month is posted two days after its end, once its invoices are issued.
        """
        found = report_of(self.tenant, month)
        return Response(ServiceLevelShape(found).data)


class ServiceLevelPdfView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="sla_pdf",
        parameters=[shapes.TENANT],
        responses={(200, PDF): OpenApiTypes.BINARY, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, month: str) -> HttpResponse:
        """The same as PDF."""
        return pdf_answer(self.tenant, month)


def report_of(tenant: Tenant, month: str) -> service_level_reports.MonthReport:
    """The month as it is shown. Raises `NotFound`."""
    report = service_level_reports.month_report(tenant, month, timezone.now())
    return leaderless_partitions.with_partitions(tenant, report, data_sets)


def pdf_answer(tenant: Tenant, month: str) -> HttpResponse:
    """The month as a file to print."""
    found = report_of(tenant, month)
    printed = service_level_pdf.report_pdf(tenant, found, config.current().invoices.issuer)
    file = f'attachment; filename="sla-{found.document.month}.pdf"'
    return HttpResponse(printed, content_type=PDF, headers={"Content-Disposition": file})


class ExclusionsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.SLA_WRITE, "POST": Permission.SLA_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="sla_exclusions_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("SlaExclusion", ExclusionShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: time that was or will be taken out of service levels."""
        return self.paged(ServiceExclusion.objects.select_related("tenant").order_by("pk"), ExclusionShape)

    @extend_schema(
        operation_id="sla_exclusions_create",
        request=ExclusionInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={201: ExclusionShape, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request) -> Response:
        """Operators: announce that a time to come is taken out of the service levels of a tenant or of all, with a
        reason. Each five-minute window that it touches counts neither way. It stands in the audit log of each tenant
        that it is about, and in their reports from now on.
        """
        given = ExclusionInput(data=request.data)
        given.is_valid(raise_exception=True)
        now, notice = timezone.now(), config.current().service_levels.exclusion_notice_hours
        row = exclusion_actions.exclude(
            self.actor, **given.validated_data, now=now, notice=timedelta(hours=notice)
        )
        exclusion_actions.tell_tenants(now)
        return Response(ExclusionShape(row).data, status=201)


class ExclusionView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.SLA_WRITE, "DELETE": Permission.SLA_WRITE}

    @extend_schema(
        operation_id="sla_exclusions_read", responses={200: ExclusionShape, **shapes.problems(403, 404)}
    )
    def get(self, request: Request, exclusion: str) -> Response:
        """Operators: one exclusion."""
        return Response(ExclusionShape(exclusion_actions.exclusion_of(exclusion)).data)

    @extend_schema(
        operation_id="sla_exclusions_withdraw",
        request=None,
        responses={200: ExclusionShape, **shapes.problems(403, 404)},
    )
    def delete(self, request: Request, exclusion: str) -> Response:
        """Operators: withdraw an exclusion. Months that were posted with it keep it."""
        row = exclusion_actions.withdraw(self.actor, exclusion, timezone.now())
        exclusion_actions.tell_tenants(timezone.now())
        return Response(ExclusionShape(row).data)
