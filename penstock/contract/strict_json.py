"""JSON that two readers take for the same thing: what settings, prices and requests are read from. Pure."""

import json
from typing import Any

_NAME_SHOWN = 50


class NotStrict(ValueError):
    """It may be JSON, and cannot be relied on. The text says what is wrong."""


class NameTwice(NotStrict):
    """An object has two values under one name, of which readers take the first or the last."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:_NAME_SHOWN]!r} stands there twice")
        self.name = name


def parse(text: str) -> Any:
    """The value. Raises `NotStrict` for a name twice, NaN, Infinity, a whole number of thousands of digits and what is
    nested too deep, else `ValueError`.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except RecursionError:
        raise NotStrict("nested too deep") from None
    except (NotStrict, json.JSONDecodeError):
        raise
    except ValueError:
        # The interpreter's own text is advice to its programmer.
        raise NotStrict("a whole number has too many digits") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise NameTwice(name)
            seen.add(name)
    return found


def _refuse_constant(text: str) -> Any:
    raise NotStrict(f"{text} is no JSON")
