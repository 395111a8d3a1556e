"""The form of a tenant's audit entries: how they are chained, and what is read out of their hashed fields. Pure.

An entry's hash is SHA-256 over the hash before and the entry's fields `HASHED` in canonical JSON. Outcome, number of
times, and the object's kind and name stand beside them for searches; `facts` says what they must be.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_HASH = "0" * 64
"""What the first entry of a chain follows."""
HASHED = (
    "tenant",
    "sequence",
    "at",
    "actor_kind",
    "actor_id",
    "action",
    "object_id",
    "before",
    "after",
    "request_id",
    "source",
)
SUMMARY = "audit"
"""The member of `after` that is the log's own: `outcome`, and for what is counted `times` and `minute`."""
DONE = "done"
REFUSED = "refused"
OUTCOMES = (DONE, REFUSED)
NAME_MAX = 255
"""Characters of an object's name that are searched for."""
KIND_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an entry is found by, beside its hashed fields."""

    outcome: str
    times: int
    """How often it happened in its minute; 1 for what has an entry of its own."""
    object_kind: str
    object_name: str
    """Empty where neither `before` nor `after` names the object."""


def facts(action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Facts:
    """Read out of the hashed fields. An entry without a summary was done, once: every one before 0.2."""
    summary = after.get(SUMMARY)
    read: Mapping[str, Any] = summary if isinstance(summary, dict) else {}
    outcome, times = read.get("outcome"), read.get("times")
    return Facts(
        outcome=REFUSED if outcome == REFUSED else DONE,
        times=times if isinstance(times, int) and not isinstance(times, bool) and times > 0 else 1,
        object_kind=action.partition(".")[0][:KIND_MAX],
        object_name=_name(after) or _name(before),
    )


def _name(state: Mapping[str, Any]) -> str:
    name = state.get("name")
    return name[:NAME_MAX] if isinstance(name, str) else ""


def entry_hash(previous: str, fields: Mapping[str, Any]) -> str:
    """64 hex digits. `fields` has the names of HASHED, `at` in ISO 8601 with its offset."""
    text = json.dumps({name: fields[name] for name in HASHED}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()


class ChainCheck:
    """Goes along a chain, from its beginning or from an entry whose hash is known."""

    def __init__(self, tenant: str | None = None, sequence: int = 0, previous: str = NO_HASH) -> None:
        """The next entry is `sequence` + 1 and follows `previous`; `tenant` None: that of the first entry."""
        self.tenant = tenant
        self.sequence = sequence
        self.hash = previous

    def problem(self, entry: Any) -> str:
        """What is wrong with the next entry, which has the names of HASHED, `previous_hash`, `hash`, and the facts.

        Empty: nothing, and the check has gone on to it. After a problem the check stays where it was.
        """
        if not isinstance(entry, dict):
            return "it is no audit entry"
        try:
            return self._problem(entry)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return f"it is no audit entry: {type(error).__name__}: {error}"[:200]

    def _problem(self, entry: Mapping[str, Any]) -> str:
        if self.tenant is not None and entry["tenant"] != self.tenant:
            return f"it is of another tenant, {str(entry['tenant'])[:64]!r}"
        if entry["sequence"] != self.sequence + 1:
            return f"it is entry {str(entry['sequence'])[:24]}, and {self.sequence + 1} is missing"
        if entry["previous_hash"] != self.hash:
            return "it does not follow the entry before"
        if entry["hash"] != entry_hash(self.hash, entry):
            return "its hash is not that of its fields"
        read = facts(entry["action"], entry["before"], entry["after"])
        for name in ("outcome", "times", "object_kind", "object_name"):
            if entry[name] != getattr(read, name):
                return f"{name} is not what the hashed fields say"
        self.tenant = entry["tenant"]
        self.sequence = entry["sequence"]
        self.hash = entry["hash"]
        return ""
