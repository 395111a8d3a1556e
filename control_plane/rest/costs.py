"""REST of a tenant's costs, summed up by what it names, and of the tags by which it sums them up."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import cost_answers, cost_reports, cost_tags
from billing.cost_reports import Asked, CostRow, Report
from billing.unit_cost_actions import is_currency
from control_plane import config
from control_plane.api import etags, shapes
from control_plane.api.pages import in_memory
from control_plane.rest import described
from control_plane.rest.views import TenantView
from daemon.data_set_store import DataSetStore
from penstock.contract.errors import InvalidRequest
from penstock.contract.resources import COST_TAGS
from penstock.contract.resources.cost_tags import KIND, NAME
from penstock.contract.resources.description import Method
from penstock.rules.allocation import month_of
from tenants.roles import Permission

_ONLY = "Only what is of it; an empty value: what is of none."
_OF_TAG = f"KEY:VALUE, as team:payments. {_ONLY}"
PARAMETERS = [
    OpenApiParameter(
        "from", str, description="First day (UTC), as 2026-11-01; the first of this month if not given."
    ),
    OpenApiParameter("to", str, description="Day after the last; tomorrow if not given."),
    OpenApiParameter("month", str, description="A UTC month, as 2026-11, instead of both."),
    OpenApiParameter(
        "against",
        str,
        description="A UTC month to compare with: each row then has `before`. Not by day or month.",
    ),
    OpenApiParameter(
        "by",
        str,
        description=f"At most {cost_reports.BY_MAX} of {', '.join(cost_reports.DIMENSIONS)} and `tag:KEY`, with a"
        " comma; without it: one sum. `group` is the consumer group, `principal` whose key it was.",
    ),
    OpenApiParameter("topic", str, description=_ONLY),
    OpenApiParameter(
        "partition",
        str,
        description="Only this partition of `topic`, which is needed then and where `by` has `partition`; empty: what"
        " is of none that is known.",
    ),
    OpenApiParameter("principal", str, description=f"As access lists name it. {_ONLY}"),
    OpenApiParameter("group", str, description=_ONLY),
    OpenApiParameter("meter", str, description="Only this meter."),
    OpenApiParameter("tag", str, description=_OF_TAG),
    OpenApiParameter("currency", str, description="Needed where invoices of the time have several."),
]


class CostAmountsShape(serializers.Serializer[Any]):
    """Amounts are micro-units of the report's currency."""

    meters = serializers.DictField(child=serializers.IntegerField(), help_text="What was used, by meter.")
    usage_micro = serializers.IntegerField(help_text="What that costs, after discounts.")
    charges_micro = serializers.IntegerField(help_text="Fees, the minimum, credits and tax: of no use.")
    cost_micro = serializers.IntegerField(help_text="The sum of both.")
    provisional_micro = serializers.IntegerField(
        help_text="The part of it that is on no issued invoice; it can still change."
    )
    cost_micro_per_million_messages = serializers.IntegerField(
        allow_null=True, help_text="`usage_micro` for a million produced messages; null: there are none."
    )


class CostRowShape(CostAmountsShape):
    day = serializers.DateField(required=False)
    month = serializers.CharField(required=False)
    topic = serializers.CharField(required=False, help_text="Empty: of no topic.")
    partition = serializers.IntegerField(
        required=False, allow_null=True, help_text="Of `topic`; null: not known yet."
    )
    principal = serializers.CharField(required=False, help_text="Empty: of none, or not known.")
    principal_name = serializers.CharField(required=False, help_text="For people; empty: it has none.")
    group = serializers.CharField(required=False, help_text="Consumer group; empty: of none.")
    meter = serializers.CharField(required=False, help_text="Empty: what is of no meter.")
    tag = serializers.CharField(required=False, help_text="The value; empty: untagged.")
    second_tag = serializers.CharField(required=False, help_text="Where `by` has two tags.")
    before = CostAmountsShape(required=False, help_text="In the time that is compared with.")
    difference_micro = serializers.IntegerField(required=False)


def shown_row(row: CostRow, report: Report) -> dict[str, Any]:
    """As `CostRowShape` has it."""
    shown: dict[str, Any] = {}
    for name, value in row.values.items():
        if name.startswith(cost_reports.TAG):
            shown["second_tag" if "tag" in shown else "tag"] = value
        elif name == cost_reports.PARTITION:
            shown[name] = int(value) if value else None
        else:
            shown[name] = value or (None if name == "day" else "")
        if name == "principal":
            shown["principal_name"] = report.names.get(value, "")
    return shown | shown_amounts(row)


def shown_amounts(row: CostRow) -> dict[str, Any]:
    """As `CostAmountsShape` has them, with those of the time before, where there is one."""
    shown = dict(CostAmountsShape(row).data)
    if row.before is not None:
        shown["before"] = CostAmountsShape(row.before).data
        shown["difference_micro"] = row.difference_micro
    return shown


class _Shown(serializers.Serializer[Any]):
    def to_representation(self, instance: Any) -> Any:
        return instance


_EXTRA: dict[str, Any] = {
    "from": serializers.DateField(),
    "to": serializers.DateField(help_text="Day after the last."),
    "currency": serializers.CharField(),
    "minor_digits": serializers.IntegerField(),
    "currencies": serializers.ListField(child=serializers.CharField(), help_text="Of this time's invoices."),
    "provisional": serializers.BooleanField(help_text="A part of it can still change."),
    "total": CostRowShape(help_text="The sum of all rows, to the micro-unit."),
}


class CostsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="costs_list",
        parameters=[shapes.TENANT, *PARAMETERS, *shapes.PAGING],
        responses={
            200: shapes.listed("Cost", CostRowShape(many=True), **_EXTRA),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """What the tenant used and what that costs, in rows that add up to its invoices less credit notes, and to what
        the running period costs so far. An amount is divided by quantity: each item of a meter costs the same in a
        period.
        """
        asked = asked_by(request.query_params, timezone.now().date())
        against = against_of(request.query_params, asked)
        found = cost_answers.answered(self.tenant, asked, against, timezone.now(), data_sets)
        extra = {
            "from": asked.first.isoformat(),
            "to": asked.end.isoformat(),
            "currency": found.currency,
            "minor_digits": found.minor_digits,
            "currencies": list(found.currencies),
            "provisional": found.is_provisional,
            "total": shown_amounts(found.total),
        }
        rows = in_memory(lambda: found.rows, cost_reports.order_of)
        return self.paged(
            rows, _Shown, shown_as=lambda page: [shown_row(row, found) for row in page], extra=extra
        )


def data_sets() -> DataSetStore:
    """Where published data sets rest. Raises `StoreUnavailable`."""
    return config.current().data_set_store


def asked_by(given: Any, today: date) -> Asked:
    """What query parameters ask for. Raises `InvalidRequest`."""
    month = given.get("month")
    if month is not None:
        if given.get("from") is not None or given.get("to") is not None:
            raise InvalidRequest("month: name a month, or from and to")
        first, end = _month("month", month)
    else:
        begin = given.get("from")
        first = today.replace(day=1) if begin is None else _day("from", begin)
        until = given.get("to")
        end = max(today, first) + timedelta(days=1) if until is None else _day("to", until)
    currency = given.get("currency", "")
    if currency and not is_currency(currency):
        raise InvalidRequest(f"currency: {currency[:10]!r}; three letters of A to Z required")
    return Asked(
        first=first,
        end=end,
        by=tuple(name for name in given.get("by", "").split(",") if name),
        topic=given.get("topic"),
        principal=given.get("principal"),
        group=given.get("group"),
        meter=given.get("meter"),
        tag=_tag(given.get("tag")),
        partition=given.get("partition"),
        currency=currency,
    )


def against_of(given: Any, asked: Asked) -> Asked | None:
    """The time to compare with; None: none is named. Raises `InvalidRequest`."""
    month = given.get("against")
    if month is None:
        return None
    first, end = _month("against", month)
    return replace(asked, first=first, end=end)


def _tag(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    key, colon, value = text.partition(":")
    if not colon or not cost_tags.is_tag_key(key):
        raise InvalidRequest(f"tag: {text[:80]!r} is not like team:payments")
    return key, value


def _month(name: str, text: str) -> tuple[date, date]:
    found = month_of(text)
    if found is None:
        raise InvalidRequest(f"{name}: {text[:20]!r} is no month; one like 2026-11 required")
    return found[0].date(), found[1].date()


def _day(name: str, text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{name}: {text[:40]!r} is not a day like 2026-01-31") from None
    if not 1970 <= found.year <= 9998:
        raise InvalidRequest(f"{name}: {found}; within the years 1970 to 9998 required")
    return found


class CostTagShape(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text=KIND.help)
    name = serializers.CharField(help_text=NAME.help)
    key = serializers.CharField()
    value = serializers.CharField()


CostTagsInput = described.made_of(COST_TAGS, "CostTagsInput")
CostTagsShape = described.shape_of(COST_TAGS.fields, "CostTagsShape")


@described.operations(COST_TAGS, Method.LIST, shape=CostTagShape)
class CostTagsView(TenantView):
    def get(self, request: Request) -> Response:
        rows: Any = cost_tags.tags(self.tenant, self.access.visible)
        return self.paged(rows, CostTagShape)


@described.operations(COST_TAGS, Method.READ, Method.SET, shape=CostTagsShape, takes=CostTagsInput)
class CostTagsOfView(TenantView):
    def get(self, request: Request, kind: str, name: str) -> Response:
        tags = cost_tags.known_tags_of(self.tenant, kind, name, self.access.visible)
        return self._shown(kind, name, tags)

    def put(self, request: Request, kind: str, name: str) -> Response:
        cost_tags.known_tags_of(self.tenant, kind, name)
        body = described.taken(request, CostTagsInput)
        with etags.unchanged_within(
            request,
            self.tenant,
            lambda: _tag_of(kind, name, cost_tags.known_tags_of(self.tenant, kind, name)),
        ):
            tags = cost_tags.set_tags(self.actor, self.tenant, kind, name, body["tags"])
        return self._shown(kind, name, tags)

    @staticmethod
    def _shown(kind: str, name: str, tags: dict[str, str]) -> Response:
        shown = CostTagsShape({"kind": kind, "name": name, "tags": tags})
        return Response(shown.data, headers={"ETag": _tag_of(kind, name, tags)})


def _tag_of(kind: str, name: str, tags: dict[str, str]) -> str:
    return etags.of_content(kind, name, sorted(tags.items()))
