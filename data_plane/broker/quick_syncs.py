"""Which small syncs are done on the event loop: those of a disk that answers sooner than a thread would (RL135).

trying at once --slow--> handing over --enough quick ones--> trying at once
"""

QUICK_MS = 0.4
"""Mean of the last syncs up to which they are done at once. A hand-over to a thread and back takes 0.1 ms of the
processor, and on a busy machine as much again until the loop goes on."""
STALL_MS = 5.0
"""One sync of this length is enough to hand over the next ones."""
HANDED_OVER_MIN, HANDED_OVER_MAX = 64, 16_384
"""How many syncs in a row threads do before one is tried at once again: doubled with each failed try, halved after as
many that were quick. A disk that seldom stalls seldom stops the loop, and one that is always slow does so twice in
16,384 syncs."""
_MEAN_OVER = 8


class QuickSyncs:
    """What the syncs took so far. Counts syncs and knows no clock."""

    __slots__ = ("_handed_over", "_left", "_mean_ms", "_quick")

    def __init__(self) -> None:
        self._mean_ms = 0.0
        self._handed_over = HANDED_OVER_MIN
        self._left = 0
        """Syncs that threads still do before the next try."""
        self._quick = 0
        """Syncs at once since a slow one, or since `_handed_over` was halved."""

    @property
    def at_once(self) -> bool:
        """Whether the next sync should not be handed over."""
        return self._left == 0

    def took_at_once(self, ms: float) -> None:
        """A sync on the loop took so long."""
        self._mean_ms += (ms - self._mean_ms) / _MEAN_OVER
        if ms >= STALL_MS or self._mean_ms > QUICK_MS:
            self._left = self._handed_over
            self._handed_over = min(2 * self._handed_over, HANDED_OVER_MAX)
            self._mean_ms = 0.0
            self._quick = 0
            return
        self._quick += 1
        if self._quick >= self._handed_over:
            self._handed_over = max(self._handed_over // 2, HANDED_OVER_MIN)
            self._quick = 0

    def took_in_thread(self, ms: float) -> None:
        """A sync in a thread took so long, its way there and back included."""
        if ms >= STALL_MS:
            self._left = max(self._left, HANDED_OVER_MIN)
        elif self._left:
            self._left -= 1
