"""Who acts: named in every entry of the audit log and given to every action."""

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    PERSON = "person"
    KEY = "key"
    OPERATOR = "operator"
    SYSTEM = "system"
    ANONYMOUS = "anonymous"
    """No valid credential: the id is the address that the attempt came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """`id` is the public id of the person, key or operator, or the part of the service that acts."""

    kind: ActorKind
    id: str
    request_id: str = ""
    source: str = ""
    """Address of the caller."""


def system(part: str) -> Actor:
    """The service itself, for instance `system("reconciliation")`."""
    return Actor(kind=ActorKind.SYSTEM, id=part)
