"""REST: a tenant's audit log. It is in this package because the audit app imports no other app."""

import re
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.audit import queries
from control_plane.rest.views import TenantView
from penstock.contract.errors import InvalidRequest, NotFound
from tenants.roles import Permission

_SEQUENCE = re.compile(r"[1-9][0-9]{0,17}")


class AuditShape(serializers.Serializer[Any]):
    sequence = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor_kind = serializers.CharField()
    actor_id = serializers.CharField()
    action = serializers.CharField()
    object_id = serializers.CharField()
    before = serializers.DictField()
    after = serializers.DictField()
    request_id = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]
    previous_hash = serializers.CharField()
    hash = serializers.CharField(help_text="SHA-256 over the previous hash and this entry.")


class AuditHeadShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    sequence = serializers.IntegerField(help_text="Number of the entry; 0: there is none yet.")
    hash = serializers.CharField(help_text="It covers this entry and all earlier ones.")


class AuditView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.AUDIT_READ}

    @extend_schema(
        operation_id="audit_list",
        parameters=[
            shapes.TENANT,
            *shapes.PAGING,
            OpenApiParameter("object", str, description="Public id of an object: only entries about it."),
            OpenApiParameter("action", str, description="For instance `topic.create`."),
        ],
        responses={200: shapes.listed("Audit", AuditShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Who changed what, oldest first."""
        rows = queries.entries(self.tenant.public_id)
        if "object" in request.query_params:
            rows = rows.filter(object_id=request.query_params["object"])
        if "action" in request.query_params:
            rows = rows.filter(action=request.query_params["action"])
        return self.paged(rows, AuditShape)


class AuditHeadView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TENANT_READ}

    @extend_schema(
        operation_id="audit_head",
        parameters=[
            shapes.TENANT,
            OpenApiParameter("sequence", int, description="Number of an entry; the newest if not given."),
        ],
        responses={200: AuditHeadShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The end of the audit log's hash chain, to store and compare later. It reveals nothing of the entries."""
        tenant = self.tenant.public_id
        asked = request.query_params.get("sequence")
        if asked is None:
            sequence, found = queries.head(tenant)
            return Response(AuditHeadShape({"tenant": tenant, "sequence": sequence, "hash": found}).data)
        if not _SEQUENCE.fullmatch(asked):
            raise InvalidRequest(f"sequence: {asked[:32]!r} is not a whole number above 0")
        earlier = queries.hash_at(tenant, int(asked))
        if earlier is None:
            raise NotFound(f"the audit log has no entry {asked}")
        return Response(AuditHeadShape({"tenant": tenant, "sequence": int(asked), "hash": earlier}).data)
