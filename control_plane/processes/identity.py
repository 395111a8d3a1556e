"""The id of this process, which those that it forks share: one worker is one process to the others."""

import secrets

_own = secrets.token_hex(16)


def own_id() -> str:
    """Random: never used by another process."""
    return _own
