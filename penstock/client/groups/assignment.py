"""What the application is told of its group within `poll`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.client.place import Place


class EventKind(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True, eq=False)
class GroupEvent:
    """Something that the application is told within `poll`; given back with `finish`."""

    kind: EventKind
    places: tuple[Place, ...]
