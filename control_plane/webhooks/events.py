"""What webhooks deliver: events with dotted types, from sources that keep them in an order of their own. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import WEBHOOK_EVENTS_MAX, WEBHOOK_PAYLOAD_BYTES_MAX

PING = "webhook.ping"
"""The type of a test event, which every webhook gets whatever its patterns are."""
PATTERN_LENGTH_MAX = 100
_PATTERN = re.compile(r"\*|[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)*(?:\.\*)?")
LARGE = ("before", "after")
"""Members of an event's data that are left out of a payload that would be too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `id` is the same in every attempt, for every webhook of the tenant, and for no other event."""

    id: str
    type: str
    at: str
    """ISO 8601 with its offset."""
    position: int
    """In its source."""
    data: Mapping[str, Any]

    def payload(self) -> str:
        """The body, in ASCII: any text can stand in it. Of one that is too large, `data` is without `LARGE`."""
        text = self._written(self.data)
        if len(text) <= WEBHOOK_PAYLOAD_BYTES_MAX:
            return text
        short = {name: value for name, value in self.data.items() if name not in LARGE}
        return self._written({**short, "truncated": True})

    def _written(self, data: Mapping[str, Any]) -> str:
        return json.dumps({"type": self.type, "timestamp": self.at, "data": data}, separators=(",", ":"))


class Source(Protocol):
    """Keeps events of tenants, each at a position. Positions of a tenant grow, and no event appears below one that was
    read. Types begin with the source's name and a dot.
    """

    name: str

    def newest(self, tenant: str) -> int:
        """The position of the tenant's newest event; 0: there is none."""
        ...

    def after(self, tenant: str, position: int, most: int) -> Sequence[Event]:
        """The tenant's events that follow, in their order, at most so many."""
        ...


def checked_patterns(patterns: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Sorted, without repetitions. The list of types is open; the source must be one that there is.

    Raises `InvalidRequest`.
    """
    if not 1 <= len(patterns) <= WEBHOOK_EVENTS_MAX:
        raise InvalidRequest(
            f"events: 1 to {WEBHOOK_EVENTS_MAX} patterns required, as audit.* or audit.topic.create"
        )
    for pattern in patterns:
        if len(pattern) > PATTERN_LENGTH_MAX or not _PATTERN.fullmatch(pattern):
            raise InvalidRequest(
                f"events: {pattern[:PATTERN_LENGTH_MAX]!r} is no pattern; a type, its beginning with .*, or * required"
            )
        if pattern != "*" and pattern.partition(".")[0] not in sources:
            raise InvalidRequest(
                f"events: {pattern!r}: no such source of events; there are {', '.join(sorted(sources))}"
            )
    return sorted(set(patterns))


def wanted(event_type: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches: the whole type, or what it begins with, in whole words."""
    return any(
        pattern == "*"
        or pattern == event_type
        or (pattern.endswith(".*") and event_type.startswith(pattern[:-1]))
        for pattern in patterns
    )
