"""REST: a tenant's access reports, stored ones and the one of this moment, and who gets e-mails about them."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access_reports import actions, queries
from control_plane.access_reports.models import AccessReport
from control_plane.access_reports.queries import NOW, Mails
from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView
from penstock.rules import access_report
from tenants.models import Tenant
from tenants.roles import Permission

CSV = "text/csv"
_MONTH = OpenApiParameter(
    "month",
    str,
    OpenApiParameter.PATH,
    description="As `2026-10`, in UTC; or `now`: a report of this moment, which is not stored.",
)


class ReportRowShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    month = serializers.CharField()
    made_at = shapes.Moment()
    sha256 = serializers.CharField(help_text="Of the report; the audit log names it too.")
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="How much the report lists, by the name of the list."
    )


class ReportShape(serializers.Serializer[Any]):
    id = serializers.CharField(allow_null=True, help_text="null: it is not stored.")
    sha256 = serializers.CharField(
        help_text="Of `report` as JSON in ASCII, with sorted names and without blanks."
    )
    report = serializers.DictField(
        help_text="`people`, `service_accounts`, `keys`, `groups`, `entries`, `invitations`, `presets`; `changes` "
        "since the report of the month `compared_with`; `unused`, `refusals`, `activity`; `left_out`: what is beyond "
        "the length of a list."
    )


class MailsShape(serializers.Serializer[Any]):
    to_owners = serializers.BooleanField(help_text="Whether owners of the tenant get e-mails about reports.")
    to_me = serializers.BooleanField(
        allow_null=True, help_text="Whether you want them, if you are an owner; null: you are no person."
    )


class MailsInput(shapes.StrictSerializer):
    to_owners = serializers.BooleanField(required=False)
    to_me = serializers.BooleanField(required=False)


class AccessReportsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_REPORT}

    @extend_schema(
        operation_id="access_reports_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("AccessReport", ReportRowShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """The stored reports, oldest first: one of each month, kept for 25 months."""
        return self.paged(queries.reports(self.tenant), ReportRowShape)


class AccessReportView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_REPORT}

    @extend_schema(
        operation_id="access_reports_get",
        parameters=[shapes.TENANT, _MONTH, shapes.ETAG],
        responses={200: ReportShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, month: str) -> Response:
        """Who may do what, what changed, what looks unused, and what was refused. A stored report never changes."""
        row, report = _found(self.tenant, month)
        digest = access_report.digest(report)
        shown = {"id": None if row is None else row.public_id, "sha256": digest, "report": report}
        return Response(ReportShape(shown).data, headers={"ETag": f'"{digest}"'})


class AccessReportCsvView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_REPORT}

    @extend_schema(
        operation_id="access_reports_csv",
        parameters=[shapes.TENANT, _MONTH],
        responses={(200, CSV): OpenApiTypes.STR, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, month: str) -> Response | StreamingHttpResponse:
        """The same report as rows for a spreadsheet. A cell that it would compute begins with an apostrophe."""
        _, report = _found(self.tenant, month)
        return csv_answer(report)


class AccessReportMailsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_REPORT, "PATCH": Permission.PEOPLE_WRITE}
    conditional = frozenset({"PATCH"})
    dry_run = frozenset({"PATCH"})

    @extend_schema(
        operation_id="access_report_mails_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: MailsShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Who gets e-mails about reports."""
        return _shown(self._mails())

    @extend_schema(
        operation_id="access_report_mails_set",
        request=MailsInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: MailsShape, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request) -> Response:
        """Choose whether owners of the tenant get e-mails about reports, and whether you do. Both are on at first."""
        given = MailsInput(data=request.data)
        given.is_valid(raise_exception=True)
        person = self.caller.person
        assert person is not None  # the permission is one of people alone
        with etags.unchanged_within(request, self.tenant, lambda: _tag(self._mails())):
            found = actions.set_mails(self.actor, self.tenant, person, **given.validated_data)
        return _shown(found)

    def _mails(self) -> Mails:
        return queries.mails(self.tenant, self.caller.person)


def csv_answer(report: dict[str, Any]) -> StreamingHttpResponse:
    """The report as a file for a spreadsheet."""
    name = f"access-{report['month'] or NOW}.csv"
    return StreamingHttpResponse(
        _encoded(report),
        content_type=f"{CSV}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _encoded(report: dict[str, Any]) -> Iterator[bytes]:
    for line in access_report.as_csv(report):
        yield line.encode()


def _found(tenant: Tenant, month: str) -> tuple[AccessReport | None, dict[str, Any]]:
    if month == NOW:
        return None, queries.present(tenant)
    row = queries.report(tenant, month)
    return row, queries.document(row)


def _tag(found: Mails) -> str:
    return etags.of_content(found.to_owners, found.to_me)


def _shown(found: Mails) -> Response:
    return Response(MailsShape(found).data, headers={"ETag": _tag(found)})
