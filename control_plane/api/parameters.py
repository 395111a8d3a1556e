"""Query parameters of REST: the OpenAPI document names them, and any other is refused instead of ignored."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from django import urls
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from rest_framework.request import Request

from penstock.contract.errors import InvalidRequest

Names: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]
"""(method, path as the document has it) -> names of query parameters, sorted."""
TENANT_HEADER = "Penstock-Tenant"
"""Names the tenant that a request is about."""

_PATH_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
_NAME_SHOWN = 50
_making = threading.Lock()


def check(request: Request) -> None:
    """Raise `InvalidRequest` for a parameter that the operation does not have, or that is given twice."""
    given = request.query_params
    if not given:
        return
    match = request.resolver_match
    assert match is not None
    path = "/" + _PATH_PARAMETER.sub(r"{\1}", match.route)
    method = "GET" if request.method == "HEAD" else str(request.method)
    names = of_route(match.route, match.func).get((method, path), ())
    for name in given:
        if name not in names:
            known = f"known: {', '.join(names)}" if names else "it takes none"
            raise InvalidRequest(f"{_shown(name)}: no such parameter of {method} {path}; {known}")
        if len(given.getlist(name)) > 1:
            raise InvalidRequest(f"{_shown(name)}: given {len(given.getlist(name))} times, once allowed")


def of_route(route: str, view: Callable[..., HttpResponseBase]) -> Names:
    """Those of one route of the URL table. The part of the document that is about it takes milliseconds to make, the
    whole takes most of a second, for which the first request of a process would wait.
    """
    with _making:
        return _of_route(route, view)


def by_operation() -> Names:
    """All of them. Made from the document once.

    The first requests of a process wait for each other: what makes documents loads its extensions meanwhile, and breaks
    where two threads do so.
    """
    with _making:
        return _by_operation()


@cache
def _of_route(route: str, view: Callable[..., HttpResponseBase]) -> Names:
    return _made([urls.path(route, view)])


@cache
def _by_operation() -> Names:
    return _made(None)


def _made(patterns: Sequence[URLPattern] | None) -> Names:
    """From the document of these routes, or of all."""
    from drf_spectacular.generators import SchemaGenerator

    document = SchemaGenerator(patterns=patterns).get_schema(public=True)  # type: ignore[no-untyped-call]
    return MappingProxyType(
        {
            (method.upper(), path): tuple(
                sorted(
                    parameter["name"]
                    for parameter in operation.get("parameters", ())
                    if parameter["in"] == "query"
                )
            )
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }
    )


def _shown(name: str) -> str:
    """A name as the first word of a message, where problems find their field."""
    return name if re.fullmatch(r"[A-Za-z][A-Za-z_-]{0,49}", name) else repr(name[:_NAME_SHOWN])
