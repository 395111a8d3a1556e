"""The hash of an audit entry: SHA-256 over the hash before and the entry in canonical JSON. Pure."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

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


def entry_hash(previous: str, fields: Mapping[str, Any]) -> str:
    """64 hex digits. `fields` has the names of HASHED, `at` in ISO 8601."""
    text = json.dumps({name: fields[name] for name in HASHED}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(bytes.fromhex(previous) + text.encode()).hexdigest()
