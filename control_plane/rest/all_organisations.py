"""REST: all organisations of the service, for operators."""

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.rest.organisation_shapes import AnyOrganisationShape
from control_plane.rest.views import OperatorView
from penstock.contract.errors import InvalidRequest
from tenants.organisations import queries
from tenants.roles import Permission

_SEARCH_LENGTH_MAX = 200
"""No name is longer."""


class AllOrganisationsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.TENANT_READ}

    @extend_schema(
        operation_id="all_organisations_list",
        parameters=[
            *shapes.PAGING,
            OpenApiParameter(
                "q", str, description="What a name or display name contains, in any case; or an id."
            ),
        ],
        responses={
            200: shapes.listed("AnyOrganisation", AnyOrganisationShape(many=True)),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: every organisation, or those that are searched for."""
        text = str(request.query_params.get("q", ""))
        if len(text) > _SEARCH_LENGTH_MAX or "\0" in text:
            raise InvalidRequest(f"q: text of at most {_SEARCH_LENGTH_MAX} characters required")
        return self.paged(queries.all_organisations(text), AnyOrganisationShape)


class AnyOrganisationView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.TENANT_READ}

    @extend_schema(
        operation_id="all_organisations_get",
        parameters=[shapes.ETAG],
        responses={200: AnyOrganisationShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str) -> Response:
        """Operators: one organisation. What happens in it is its members' alone."""
        shown = AnyOrganisationShape(queries.any_organisation(organisation)).data
        return Response(shown, headers={"ETag": etags.of_content(*shown.values())})
