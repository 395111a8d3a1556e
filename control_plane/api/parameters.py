"""Query parameters of REST: the OpenAPI document names them, and any other is refused instead of ignored."""

import re
import threading
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from rest_framework.request import Request

from penstock.contract.errors import InvalidRequest

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
    path = "/" + _PATH_PARAMETER.sub(r"{\1}", match.route if match is not None else "")
    method = "GET" if request.method == "HEAD" else str(request.method)
    names = by_operation().get((method, path), ())
    for name in given:
        if name not in names:
            known = f"known: {', '.join(names)}" if names else "it takes none"
            raise InvalidRequest(f"{_shown(name)}: no such parameter of {method} {path}; {known}")
        if len(given.getlist(name)) > 1:
            raise InvalidRequest(f"{_shown(name)}: given {len(given.getlist(name))} times, once allowed")


def by_operation() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """(method, path as the document has it) -> names of query parameters, sorted. Made from the document once.

    The first requests of a process wait for each other: what makes documents loads its extensions meanwhile, and breaks
    where two threads do so.
    """
    with _making:
        return _by_operation()


@cache
def _by_operation() -> Mapping[tuple[str, str], tuple[str, ...]]:
    from drf_spectacular.generators import SchemaGenerator

    document = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
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
