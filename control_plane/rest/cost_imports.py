"""REST of imports of what the infrastructure costs, for operators: FOCUS exports and lists of costs."""

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import cost_imports
from billing.cost_imports import TakenIn
from billing.models import NAME_LENGTH_MAX
from control_plane.api import shapes
from control_plane.api.parsing import BODY_MAX
from control_plane.rest.unit_costs import CostFields
from control_plane.rest.views import OperatorView
from penstock.contract.errors import InvalidRequest
from penstock.rules import focus_costs
from tenants.roles import Permission


class ImportedCost(CostFields):
    """Of a list of costs."""


class CostImportInput(shapes.StrictSerializer):
    """Either `csv` or `costs`."""

    source = serializers.CharField(  # type: ignore[assignment]
        max_length=NAME_LENGTH_MAX,
        help_text="Whose export it is. Only what the same source had before, in the months that it has, is replaced.",
    )
    csv = serializers.CharField(
        required=False,
        max_length=BODY_MAX,
        trim_whitespace=False,
        help_text="A FOCUS 1.2 export. `penstock infrastructure import` makes a large one small.",
    )
    cost_column = serializers.ChoiceField(
        focus_costs.COST_COLUMNS,
        required=False,
        default=focus_costs.EFFECTIVE,
        help_text="What a row of the export costs.",
    )
    costs = serializers.ListField(child=ImportedCost(), required=False, max_length=cost_imports.IMPORTED_MAX)


class CostImportShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    sha256 = serializers.CharField(help_text="Equal digests are equal costs, however the file was written.")
    months = serializers.ListField(
        child=serializers.CharField(),
        help_text="In which its costs begin, or the export has rows: what the source had in them before is replaced.",
    )
    rows = serializers.IntegerField(help_text="Of the file.")
    costs = serializers.IntegerField(help_text="That it became.")
    totals = serializers.DictField(child=serializers.IntegerField(), help_text="Currency -> micro-units.")
    made_at = shapes.Moment()
    undone_at = shapes.Moment(allow_null=True, help_text="null: it counts.")


class TakenInShape(CostImportShape):
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    removed = serializers.IntegerField(
        help_text="The source had them in these months before, and has not now."
    )
    unchanged = serializers.IntegerField()


def shown_import(done: TakenIn) -> dict[str, Any]:
    """As `TakenInShape` has it."""
    counts = {name: getattr(done, name) for name in ("created", "changed", "removed", "unchanged")}
    return {**CostImportShape(done.row).data, **counts}


class CostImportsView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.COSTS_READ, "POST": Permission.COSTS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="cost_imports_list",
        parameters=[*shapes.PAGING],
        responses={
            200: shapes.listed("CostImport", CostImportShape(many=True)),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: every import of costs, undone ones too."""
        return self.paged(cost_imports.imports(), CostImportShape)

    @extend_schema(
        operation_id="cost_imports_create",
        request=CostImportInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: TakenInShape, 201: TakenInShape, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Operators: take in a FOCUS export, or a list of costs. Of each month that it has, they replace what the same
        source had before. The same again changes nothing, and is answered with the import that did it.
        """
        given = CostImportInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted, now = given.validated_data, timezone.now()
        if ("csv" in wanted) == ("costs" in wanted):
            raise InvalidRequest("csv: give either csv or costs")
        if "csv" in wanted:
            done = cost_imports.take_in_export(
                self.actor, wanted["source"], wanted["csv"], cost_column=wanted["cost_column"], now=now
            )
        else:
            done = cost_imports.take_in(self.actor, wanted["source"], wanted["costs"], now=now)
        return Response(shown_import(done), status=201 if done.is_new else 200)


class CostImportView(OperatorView):
    permissions: ClassVar[Any] = {"DELETE": Permission.COSTS_WRITE}
    dry_run = frozenset({"DELETE"})

    @extend_schema(
        operation_id="cost_imports_undo",
        responses={204: None, **shapes.problems(403, 404, 409)},
    )
    def delete(self, request: Request, cost_import: str) -> Response:
        """Operators: undo an import. What the source had in its months before is there again. Not while a later import
        of the same months counts: undo that one first.
        """
        cost_imports.undo(self.actor, cost_import, timezone.now())
        return Response(status=204)
