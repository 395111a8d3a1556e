"""The OpenAPI document, made once for all tests of a process: making it takes more than a second of processor time."""

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@cache
def document() -> dict[str, Any]:
    """Not to be changed."""
    made: dict[str, Any] = SchemaGenerator().get_schema(public=True)  # type: ignore[no-untyped-call]
    return made
