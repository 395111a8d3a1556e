"""REST: cells, which are brokers that some tenants' topics are placed on; for operators."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.brokers import client as brokers
from control_plane.placement import cell_actions, planning, queries
from control_plane.placement.models import CELL_NAME_LENGTH_MAX, Cell
from control_plane.rest.views import OperatorView, tagged
from penstock.contract.ids import BROKER_ID_MAX
from tenants.roles import Permission

_MEMBERS_MAX = 1_000
_HOST_LENGTH_MAX = 255


class CellShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    brokers = serializers.ListField(child=serializers.IntegerField(), help_text="Named by their ids.")
    hosts = serializers.ListField(
        child=serializers.CharField(), help_text="All brokers on these hosts, also those that join later."
    )
    tenants = serializers.SerializerMethodField(help_text="How many tenants are in it.")

    # The context has the `tenants` of each cell by its name.
    def get_tenants(self, cell: Cell) -> int:
        return int(self.context["tenants"].get(cell.name, 0))


class CellMembers(shapes.StrictSerializer):
    brokers = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=BROKER_ID_MAX),
        required=False,
        max_length=_MEMBERS_MAX,
    )
    hosts = serializers.ListField(
        child=serializers.CharField(max_length=_HOST_LENGTH_MAX), required=False, max_length=_MEMBERS_MAX
    )


class CellInput(CellMembers):
    name = serializers.RegexField(
        rf"^[a-z0-9][a-z0-9-]{{0,{CELL_NAME_LENGTH_MAX - 1}}}\Z",
        help_text="Small letters, digits and dashes.",
    )


class CellsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="cells_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Cell", CellShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: every cell. A tenant without a cell may be on every broker."""
        return self.paged(queries.cells(), CellShape, context={"tenants": queries.tenants_by_cell()})

    @extend_schema(
        operation_id="cells_create",
        request=CellInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: CellShape, **shapes.problems(403, 409, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: make a cell of brokers, by their ids or hosts. A broker is in one cell at most.

        A new tenant is given one of the cells with its first topic: of two that are drawn the one with fewer tenants. A
        tenant that has topics stays where it is until a `move_tenant` plan moves it.
        """
        given = CellInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        seen = brokers.describe(timeout_s=planning.ASK_S).brokers
        made = cell_actions.create(
            self.actor, wanted["name"], wanted.get("brokers", []), wanted.get("hosts", []), seen
        )
        return _shown(made, 201)


class CellView(OperatorView):
    permissions: ClassVar[Any] = {
        "GET": Permission.CLUSTER_READ,
        "PATCH": Permission.CLUSTER_WRITE,
        "DELETE": Permission.CLUSTER_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="cells_get",
        parameters=[shapes.ETAG],
        responses={200: CellShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, cell: str) -> Response:
        """Operators: one cell."""
        found = queries.cell(cell)
        return _shown(found)

    @extend_schema(
        operation_id="cells_change",
        request=CellMembers,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: CellShape, **shapes.problems(403, 404, 412, 422, 503)},
    )
    def patch(self, request: Request, cell: str) -> Response:
        """Operators: change which brokers are in a cell. What is placed stays until a plan moves it."""
        found = queries.cell(cell)
        given = CellMembers(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        seen = brokers.describe(timeout_s=planning.ASK_S).brokers
        with etags.unchanged(request, found):
            changed = cell_actions.change(
                self.actor,
                found,
                wanted.get("brokers", found.brokers),
                wanted.get("hosts", found.hosts),
                seen,
            )
        return _shown(changed)

    @extend_schema(
        operation_id="cells_delete",
        parameters=[shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412, 422)},
    )
    def delete(self, request: Request, cell: str) -> Response:
        """Operators: delete a cell that no tenant is in."""
        found = queries.cell(cell)
        with etags.unchanged(request, found):
            cell_actions.delete(self.actor, found)
        return Response(status=204)


def _shown(cell: Cell, status: int = 200) -> Response:
    return tagged(cell, CellShape(cell, context={"tenants": queries.tenants_by_cell()}), status)
