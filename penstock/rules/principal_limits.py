"""Rates that a tenant's service accounts have to themselves, within those of the tenant. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

EVERY_ACCOUNT = "service_account:*"
"""In place of a principal: each service account that has no limits of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalLimits:
    """What one principal may use, with all its keys, over all brokers. 0 = only the tenant's limit."""

    produce_bytes_per_s: int = 0
    """Bytes of batches as sent."""
    consume_bytes_per_s: int = 0
    """Bytes of batches as pushed to consumers."""
    requests_per_s: int = 0
    """Calls, and frames of streams that ask for something."""


PRINCIPAL_LIMIT_NAMES = tuple(field.name for field in fields(PrincipalLimits))


def limits_digest(limits: Mapping[str, PrincipalLimits]) -> str:
    """Of all that a tenant's principals have, hex; empty: they have none."""
    if not limits:
        return ""
    rows = [
        [principal, one.produce_bytes_per_s, one.consume_bytes_per_s, one.requests_per_s]
        for principal, one in sorted(limits.items(), key=lambda item: item[0])
    ]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
