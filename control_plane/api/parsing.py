"""Bodies of REST requests: JSON in UTF-8 of bounded size and depth, whose names stand there once."""

import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

BODY_MAX = 1024 * 1024
"""Bytes."""
DEPTH_MAX = 32
_NAME_SHOWN = 50


class JsonParser(BaseParser):
    """What two readers could take for two things is refused: a name twice, NaN, another encoding."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raises `ParseError`, whose text says what is wrong."""
        body = stream.read(BODY_MAX + 1)
        if len(body) > BODY_MAX:
            raise ParseError(f"body: more than {BODY_MAX} bytes")
        try:
            parsed = json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        except UnicodeDecodeError:
            raise ParseError("body: not UTF-8") from None
        except RecursionError:
            raise ParseError(f"body: nested more than {DEPTH_MAX} deep") from None
        except ValueError as error:
            raise ParseError(f"body: no JSON: {error}") from None
        _check_depth(parsed)
        return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ParseError(f"body: {name[:_NAME_SHOWN]!r} stands there twice")
            seen.add(name)
    return found


def _refuse_constant(text: str) -> Any:
    raise ParseError(f"body: {text} is no JSON")


def _check_depth(parsed: Any) -> None:
    level = [parsed]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ParseError(f"body: nested more than {DEPTH_MAX} deep")
