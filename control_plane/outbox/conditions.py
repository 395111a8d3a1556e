"""Conditions of a desired object: a list of what is not as it should be, one entry a type. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

Condition = dict[str, Any]

DELIVERY = "delivery"
"""The brokers refused the change, or could not be reached."""
RECREATED = "recreated"
"""It was gone on the brokers and was made again."""
ADOPTED = "adopted"
"""It was changed on the brokers, and is taken as it is."""
DRIFT = "drift"
"""The object on the brokers differs from what was delivered. It has been delivered again."""
UNKNOWN_OBJECTS = "unknown_objects"
"""The brokers have objects of this tenant that the control plane does not know."""
MESSAGE_LENGTH_MAX = 500


def put(
    conditions: Sequence[Condition], kind: str, reason: str, message: str, now: datetime
) -> list[Condition]:
    """With the condition of type `kind`; `since` stays while its reason stays."""
    before = find(conditions, kind)
    since = before["since"] if before and before["reason"] == reason else now.isoformat()
    entry = {"type": kind, "reason": reason, "message": message[:MESSAGE_LENGTH_MAX], "since": since}
    return sorted([*without(conditions, kind), entry], key=lambda c: str(c["type"]))


def without(conditions: Sequence[Condition], kind: str) -> list[Condition]:
    """Without the condition of type `kind`."""
    return [c for c in conditions if c["type"] != kind]


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of type `kind`, if it is there."""
    return next((c for c in conditions if c["type"] == kind), None)


def has(conditions: Sequence[Condition], kind: str, message: str) -> bool:
    """Is that very condition there?"""
    return any(c["type"] == kind and c["message"] == message[:MESSAGE_LENGTH_MAX] for c in conditions)
