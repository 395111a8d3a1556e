"""How a limit is divided among holders who want different amounts of it: max-min fairness.

No one gets more than they want while another wants more than they get, and those who want more than an even part get
the same (Bertsekas and Gallager, Data Networks, 6.5.2). What none wants is spread evenly, but for a part that is kept
for the next who comes.
"""

from collections.abc import Sequence

KEPT = 10
"""One part in so many is kept for the next holder, as far as none wants it."""


def divide(capacity: int, wants: Sequence[int]) -> list[int]:
    """Each one's part, in the order of `wants`; together at most `capacity`, which may be below 0 (nothing is left)."""
    parts = [0] * len(wants)
    left = capacity = max(0, capacity)
    hungry = sorted(range(len(wants)), key=lambda index: (wants[index], index))
    for served, index in enumerate(hungry):
        parts[index] = min(wants[index], left // (len(hungry) - served))
        left -= parts[index]
    # Something is left only where each has what they want.
    if parts and left > capacity // KEPT:
        more = (left - capacity // KEPT) // len(parts)
        parts = [part + more for part in parts]
    return parts
