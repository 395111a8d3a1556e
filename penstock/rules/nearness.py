"""When what is used of a limit is near it: one mark for gauges, e-mails and the console. Pure."""

NEAR_PERCENT = 80
"""From so much of a limit on it is near."""
CLEAR_PERCENT = 75
"""Below so much it is no longer near, and the tenant is warned again the next time: use that goes to and fro about the
mark warns once."""


def is_near(used: int, limit: int) -> bool:
    """Whether a limit is nearly used up, or is; 0 = there is no limit."""
    return limit > 0 and used * 100 >= limit * NEAR_PERCENT
