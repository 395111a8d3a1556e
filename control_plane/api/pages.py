"""Pages of lists: `{"items": […], "next": cursor or null}`.

A cursor names the last item of its page, in an order in which no two items are equal. So what comes or goes between two
pages neither repeats nor hides another item. It is signed for the list that gave it out, as it was asked for: another
list refuses it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.db.models import QuerySet
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX

CURSOR_PARAMETER = "cursor"
LIMIT_PARAMETER = "limit"


Key = tuple[int | str, ...]
"""Of an item: no two have the same, and an item keeps its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A list that is no query's, in the order of its items' keys."""

    behind: Callable[[Key | None, int], Sequence[Any]]
    """The first items behind the one of that key (None: the first of all), at most so many."""
    key: Callable[[Any], Key]


def in_memory(read: Callable[[], Sequence[Any]], key: Callable[[Any], Key]) -> Ordered:
    """A list that is read whole for each page, once the request's cursor and limit are known to be good."""

    def behind(after: Key | None, most: int) -> Sequence[Any]:
        return sorted((item for item in read() if after is None or key(item) > after), key=key)[:most]

    return Ordered(behind=behind, key=key)


class RowPages(CursorPagination):
    """Pages of rows, by primary key. `reader` is whose list it is: a tenant, or who calls."""

    ordering = "pk"
    cursor_query_param = CURSOR_PARAMETER
    page_size = PAGE_ITEMS_DEFAULT
    page_size_query_param = LIMIT_PARAMETER
    max_page_size = PAGE_ITEMS_MAX

    def __init__(self, request: Request, reader: str) -> None:
        asked = sorted(
            (name, value)
            for name, value in request.query_params.items()
            if name not in (CURSOR_PARAMETER, LIMIT_PARAMETER)
        )
        self._signer = signing.Signer(salt=f"page of {request.path} {asked} for {reader}")

    def get_page_size(self, request: Request) -> int:
        """Raises `InvalidRequest`."""
        text = request.query_params.get(LIMIT_PARAMETER)
        if text is None:
            return PAGE_ITEMS_DEFAULT
        if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= PAGE_ITEMS_MAX:
            raise InvalidRequest(f"{LIMIT_PARAMETER}: {text[:20]!r} is not within 1 to {PAGE_ITEMS_MAX}")
        return int(text)

    def encode_cursor(self, cursor: Cursor) -> str:
        """The text that names a position."""
        return self.named(cursor.position)

    def decode_cursor(self, request: Request) -> Cursor | None:
        """The position that the request names. Raises `InvalidRequest`."""
        position = self.position(request)
        return None if position is None else Cursor(offset=0, reverse=False, position=position)

    def named(self, position: Any) -> str:
        """The cursor of a position, which JSON can hold."""
        return self._signer.sign_object(position)

    def position(self, request: Request) -> Any:
        """The position that the request's cursor names; None: it has no cursor.

        Raises `InvalidRequest` for a cursor that this list did not give out.
        """
        text = request.query_params.get(CURSOR_PARAMETER)
        if text is None:
            return None
        try:
            return self._signer.unsign_object(text)
        except signing.BadSignature:
            raise InvalidRequest(
                f"{CURSOR_PARAMETER}: not one that this list gave out for these parameters; begin without it"
            ) from None

    def get_paginated_response(self, data: Any, beside: Mapping[str, Any] | None = None) -> Response:
        """The answer; `beside` is what else it holds."""
        return Response({"items": data, **(beside or {}), "next": self.get_next_link()})


class OrderedPages(RowPages):
    """The same of a list that is no query's."""

    def __init__(self, request: Request, reader: str, rows: Ordered) -> None:
        super().__init__(request, reader)
        self._rows = rows

    def read(self, request: Request) -> list[Any]:
        """The items of the page that the request names. Raises `InvalidRequest`."""
        size, position = self.get_page_size(request), self.position(request)
        after = None if position is None else tuple(position)
        found = list(self._rows.behind(after, size + 1))
        self._last = self._rows.key(found[size - 1]) if len(found) > size else None
        return found[:size]

    def get_next_link(self) -> str | None:
        """The cursor of the page that follows; None: there is none."""
        return None if self._last is None else self.named(self._last)


def page(rows: QuerySet[Any] | Ordered, request: Request, *, reader: str) -> tuple[list[Any], RowPages]:
    """The items of the page that the request names, and what makes the answer of them. Raises `InvalidRequest`."""
    if isinstance(rows, Ordered):
        ordered = OrderedPages(request, reader, rows)
        return ordered.read(request), ordered
    by_key = RowPages(request, reader)
    return by_key.paginate_queryset(rows, request) or [], by_key
