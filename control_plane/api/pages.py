"""Pages of lists: `{"items": […], "next": cursor or null}`.

A cursor names the last item of its page. No two items of a list are equal in its order, so an item that comes or goes
between two pages neither repeats nor hides another one. A cursor is signed for one list, its parameters and its reader.
Every other list refuses it.
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
"""Identifies an item and gives the list its order. No two items have the same key, and a key never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedList:
    """A list that is not a database query. It is in the order of its items' keys."""

    read_after: Callable[[Key | None, int], Sequence[Any]]
    """Returns the items that follow the one with this key (None: the first of all), at most as many as asked for."""
    key: Callable[[Any], Key]


def in_memory(read: Callable[[], Sequence[Any]], key: Callable[[Any], Key]) -> KeyedList:
    """A list that is read whole for each page, after the request's cursor and limit have been checked."""

    def read_after(after: Key | None, most: int) -> Sequence[Any]:
        return sorted((item for item in read() if after is None or key(item) > after), key=key)[:most]

    return KeyedList(read_after=read_after, key=key)


class RowPages(CursorPagination):
    """Pages of rows, by primary key. `reader` names whose list it is: a tenant's or a caller's."""

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
        """The cursor of a position. The position must be JSON."""
        return self._signer.sign_object(position)

    def position(self, request: Request) -> Any:
        """The position that the request's cursor names; None: it has no cursor.

        Raises `InvalidRequest` for a cursor that this list did not return.
        """
        text = request.query_params.get(CURSOR_PARAMETER)
        if text is None:
            return None
        try:
            return self._signer.unsign_object(text)
        except signing.BadSignature:
            raise InvalidRequest(
                f"{CURSOR_PARAMETER}: this list did not return it for these parameters; begin without a cursor"
            ) from None

    def get_paginated_response(self, data: Any, extra: Mapping[str, Any] | None = None) -> Response:
        """The answer, with the `extra` members."""
        return Response({"items": data, **(extra or {}), "next": self.get_next_link()})


class KeyedPages(RowPages):
    """Pages of a list that is not a database query."""

    def __init__(self, request: Request, reader: str, rows: KeyedList) -> None:
        super().__init__(request, reader)
        self._rows = rows

    def read(self, request: Request) -> list[Any]:
        """The items of the page that the request names. Raises `InvalidRequest`."""
        size, position = self.get_page_size(request), self.position(request)
        after = None if position is None else tuple(position)
        found = list(self._rows.read_after(after, size + 1))
        self._last = self._rows.key(found[size - 1]) if len(found) > size else None
        return found[:size]

    def get_next_link(self) -> str | None:
        """The cursor of the next page; None: this is the last one."""
        return None if self._last is None else self.named(self._last)


def page(rows: QuerySet[Any] | KeyedList, request: Request, *, reader: str) -> tuple[list[Any], RowPages]:
    """The items of the page that the request names, and the paginator for the answer. Raises `InvalidRequest`."""
    if isinstance(rows, KeyedList):
        ordered = KeyedPages(request, reader, rows)
        return ordered.read(request), ordered
    by_key = RowPages(request, reader)
    return by_key.paginate_queryset(rows, request) or [], by_key
