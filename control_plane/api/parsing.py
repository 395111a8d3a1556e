"""Bodies of REST requests: JSON in UTF-8 of bounded size and depth, without a repeated name."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from penstock.contract import strict_json
from penstock.contract.strict_json import NotStrict

BODY_MAX = 1024 * 1024
"""Bytes."""
DEPTH_MAX = 32


class JsonParser(BaseParser):
    """Refuses what two readers could read differently: a repeated name, NaN, another encoding."""

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
            parsed = strict_json.parse(body.decode())
        except UnicodeDecodeError:
            raise ParseError("body: not UTF-8") from None
        except NotStrict as error:
            raise ParseError(f"body: {error}") from None
        except ValueError as error:
            raise ParseError(f"body: not JSON: {error}") from None
        _check_depth(parsed)
        return parsed


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
