"""The id under which this process holds leases, and those that it forks with it: one worker is one to the others."""

import secrets

_own = secrets.token_hex(16)


def own_id() -> str:
    """Random: never used by another process."""
    return _own
