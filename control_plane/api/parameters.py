"""Query parameters of REST: the OpenAPI document names them, and any other is refused instead of ignored."""

import re
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from django.urls import path
from rest_framework.request import Request

from penstock.contract.errors import InvalidRequest
from penstock.rules.timestamps import read_moment

TENANT_HEADER = "Penstock-Tenant"
"""Names the tenant that a request is about."""

_PATH_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_NAME_SHOWN = 50
making = threading.Lock()
"""Held by who makes a part of the document, or all of it."""


def check(request: Request) -> None:
    """Raise `InvalidRequest` for a parameter that the operation does not have, or that is given twice."""
    given = request.query_params
    if not given:
        return
    match = request.resolver_match
    assert match is not None, "Django calls no view without one"
    method = "GET" if request.method == "HEAD" else str(request.method)
    names = names_of(match.route, match.func).get(method, ())
    for name in given:
        if name not in names:
            known = f"known: {', '.join(names)}" if names else "it takes none"
            shown = "/" + _PATH_PARAMETER.sub(r"{\1}", match.route)
            raise InvalidRequest(f"{_shown(name)}: no such parameter of {method} {shown}; {known}")
        if len(given.getlist(name)) > 1:
            raise InvalidRequest(f"{_shown(name)}: given {len(given.getlist(name))} times, once allowed")


def moment(request: Request, name: str) -> datetime | None:
    """The time, or the beginning of a day, that a parameter says, in UTC; None: it is not given.

    Raises:
        InvalidRequest: the text is neither.
    """
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return read_moment(text)
    except ValueError:
        raise InvalidRequest(f"{name}: {text[:40]!r} is not a time like 2026-01-31T12:00:00Z") from None


def names_of(route: str, view: Callable[..., Any]) -> Mapping[str, tuple[str, ...]]:
    """Method -> names of query parameters, sorted, of what answers at `route`. Made from its part of the OpenAPI
    document, once: the whole document takes a hundred times as long.

    The first requests of a process wait for each other: what makes documents loads its extensions meanwhile, and breaks
    where two threads do so.
    """
    with making:
        return _names_of(route, view)


@cache
def _names_of(route: str, view: Callable[..., Any]) -> Mapping[str, tuple[str, ...]]:
    from drf_spectacular.generators import SchemaGenerator

    part = SchemaGenerator(patterns=[path(route, view)]).get_schema(public=True)  # type: ignore[no-untyped-call]
    return MappingProxyType(
        {
            method.upper(): tuple(
                sorted(
                    parameter["name"]
                    for parameter in operation.get("parameters", ())
                    if parameter["in"] == "query"
                )
            )
            for operations in part["paths"].values()
            for method, operation in operations.items()
        }
    )


def _shown(name: str) -> str:
    """A name as the first word of a message, where problems find their field."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,49}", name) else repr(name[:_NAME_SHOWN])
