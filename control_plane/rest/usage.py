"""REST of usage and of availability."""

from datetime import UTC, date, datetime, time
from functools import partial
from typing import ClassVar, TypeVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from billing import hourly_usage, queries
from control_plane.api.pages import KeyedList, in_memory
from control_plane.api.parameters import moment
from control_plane.api.shapes import PAGING, TENANT, listed, problems
from control_plane.rest import billing_shapes as shapes
from control_plane.rest.costs import data_sets
from control_plane.rest.views import TenantView
from penstock.contract.errors import InvalidRequest
from penstock.rules.timestamps import read_moment
from tenants.roles import Permission

Time = TypeVar("Time", date, datetime)


class UsageView(TenantView):
    permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="usage_list",
        parameters=[TENANT, *PAGING, shapes.BY, shapes.FROM_USED, shapes.TO_USED],
        responses={200: listed("Usage", shapes.UsageShape(many=True)), **problems(403, 404, 503)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's usage, by topic, day, hour, minute or principal. Invoices are made from the same numbers.
        Requests and connections are of no topic: it is empty.
        """
        by = [name for name in request.query_params.get("by", "").split(",") if name]
        if len(by) != len(set(by)) or any(name not in hourly_usage.GROUPS for name in by):
            raise InvalidRequest(f"by: {','.join(by)[:50]!r}; known: {', '.join(hourly_usage.GROUPS)}")
        if any(name in hourly_usage.FINER for name in by):
            return self._from_data_sets(request, by)
        first, end = in_order(_day(request, "from"), _day(request, "to"))
        asked = partial(queries.usage, self.tenant, by=by, first=first, end=end)
        groups = partial(queries.usage_groups, self.tenant, by=by, first=first, end=end)
        return self.paged(
            KeyedList(
                read_after=lambda after, most: groups(after=after, most=most),
                key=lambda group: tuple(map(str, group)),
            ),
            shapes.UsageShape,
            shown_as=lambda only: asked(only=only),
        )

    def _from_data_sets(self, request: Request, by: list[str]) -> Response:
        """What the database does not have."""
        first, end = in_order(moment(request, "from"), moment(request, "to"))
        asked = hourly_usage.asked_for(by, first, end, timezone.now())
        return self.paged(
            KeyedList(
                read_after=lambda after, most: hourly_usage.groups_after(
                    data_sets, self.tenant, asked, after, most
                ),
                key=lambda item: hourly_usage.key_of(asked, item),
            ),
            shapes.UsageShape,
        )


class AvailabilityView(TenantView):
    permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(
        operation_id="availability_list",
        parameters=[TENANT, *PAGING, shapes.FROM, shapes.TO],
        responses={200: listed("Availability", shapes.AvailabilityShape(many=True)), **problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Valid requests, and those of them that failed through a fault of the service, by operation."""
        first, end = in_order(moment(request, "from"), moment(request, "to"))
        rows = in_memory(
            lambda: queries.availability(self.tenant, first=first, end=end),
            key=lambda item: (item["operation"],),
        )
        return self.paged(rows, shapes.AvailabilityShape)


def in_order(first: Time | None, end: Time | None) -> tuple[Time | None, Time | None]:
    """Raises `InvalidRequest` for a time that ends before it begins: nothing is in it."""
    if first is not None and end is not None and first > end:
        raise InvalidRequest(f"to: {end.isoformat()} is before from, {first.isoformat()}")
    return first, end


def _day(request: Request, name: str) -> date | None:
    """A day, or the moment at which one begins, in UTC: usage is counted by whole days."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        begins = read_moment(text).astimezone(UTC)
    except ValueError:
        raise InvalidRequest(
            f"{name}: {text[:40]!r} is not a day like 2026-01-31, nor a time like 2026-01-31T00:00:00Z"
        ) from None
    if begins.time() != time.min:
        raise InvalidRequest(
            f"{name}: {text[:40]!r} is within a day (UTC), and usage is counted by day: the beginning of one required"
        )
    return begins.date()
