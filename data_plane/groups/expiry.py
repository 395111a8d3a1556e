"""When an unused group is forgotten, with all it committed (RL94).

used --its last member is gone, no commits--> unused --the retention time is over--> forgotten
unused --a commit, a member--> used
"""

GROUP_RETENTION_MS = 7 * 24 * 3_600_000
SURE_MS = 3_600_000
"""A new coordinator reckons the time before it began by wall clocks: it forgets nothing within its first hour, so that
a clock that jumped forgets nothing that a user notices in time."""


def is_unused(*, members: int, unused_ms: float, known_ms: float, retention_ms: float) -> bool:
    """May the group be forgotten? `unused_ms` since its last member left or its last commit, `known_ms` since this
    coordinator began."""
    return members == 0 and unused_ms >= retention_ms and known_ms >= min(SURE_MS, retention_ms)
