"""Cursor paging: rows by primary key, a page at a time; a cursor names the last row of the page before."""

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request
from rest_framework.serializers import Serializer

from penstock.contract.errors import InvalidRequest

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000

RowT = TypeVar("RowT", bound=Model)


def page(
    request: Request,
    rows: QuerySet[RowT],
    shape: type[Serializer[Any]],
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`{"items": […], "next": cursor or null}` for the query's `cursor` and `limit`. Raises `InvalidRequest`."""
    found, following = taken(request, rows)
    return {"items": shape(found, many=True, context=dict(context or {})).data, "next": following}


def taken(request: Request, rows: QuerySet[RowT]) -> tuple[list[RowT], str | None]:
    """The rows of the page that the query names, and the cursor of the next one. Raises `InvalidRequest`."""
    limit = _limit(request.query_params.get("limit"))
    found = rows.order_by("pk")
    cursor = request.query_params.get("cursor")
    if cursor is not None:
        found = found.filter(pk__gt=_decoded(cursor))
    first = list(found[: limit + 1])
    return first[:limit], _encoded(first[limit - 1].pk) if len(first) > limit else None


def _limit(text: str | None) -> int:
    if text is None:
        return LIMIT_DEFAULT
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= LIMIT_MAX:
        raise InvalidRequest(f"limit: {text[:20]!r} is not within 1 to {LIMIT_MAX}")
    return int(text)


def _encoded(pk: int) -> str:
    return base64.urlsafe_b64encode(b"1 %d" % pk).decode().rstrip("=")


def _decoded(cursor: str) -> int:
    try:
        version, _, pk = base64.b64decode(
            cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        ).partition(b" ")
        if version == b"1" and len(pk) < 20:
            return int(pk)
    except ValueError:
        pass
    raise InvalidRequest("cursor: not one that a list gave out")
