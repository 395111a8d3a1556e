"""What of a broker's processor is left for unmetered work, such as questions and joins, and how long a
tenant waits that asks for more of it.

Shares count what tenants use of one process. What else its machine has to do they do not see: two more brokers on two
processors, gRPC's threads, other services. All of that shows in how late timers fire. So while they fire late and other
tenants work, there is less and less for questions, down to what a tenant always has; while they fire in time, there is
more again. Times are monotonic milliseconds.
"""

import math

from data_plane.throttling.shares import SHARED, WAIT_MS_MAX
from data_plane.throttling.use import WINDOW_MS, Use, until_faded_ms
from penstock.contract.ids import TenantId

LOOK_MS = 20.0
"""Between looks at how late a timer fires, while a question waits."""
LATE_MS = 1.0
"""On the mean of MEAN_MS; a resting machine's is 0.5 to 0.8 ms, as event loops round up to whole milliseconds."""
MEAN_MS = 400.0
ALWAYS = 0.05
"""Of the processor, for the questions of each tenant: an application that starts gets its answers."""
_LESS, _MORE = 0.9, 0.002
"""At each look: factor while timers fire late, addend while they do not. From all to ALWAYS in 0.5 s, back in 8 s."""


class Spare:
    """For all tenants' questions on one broker."""

    def __init__(self, work: Use) -> None:
        """`work`: of everything that tenants do."""
        self._work = work
        self.asked = Use()
        """`asked`: of their questions."""
        self.beats = Use()
        """Of the signs of life of their groups' members, which are no questions."""
        self.part = SHARED
        """Of the processor, for all questions together."""
        self._late_ms = 0.0

    def observe(self, late_ms: float) -> None:
        """A timer of LOOK_MS fired so late."""
        self._late_ms += (late_ms - self._late_ms) * (1 - math.exp(-LOOK_MS / MEAN_MS))
        if self._late_ms > LATE_MS:
            self.part = max(ALWAYS, self.part * _LESS)
        else:
            self.part = min(SHARED, self.part + _MORE)

    def wait_ms(self, tenant: TenantId, now_ms: float) -> float:
        """Until another question of the tenant may be worked on; 0 = now, WAIT_MS_MAX at most."""
        if not self._is_short(now_ms):
            return 0.0
        allowed = max(ALWAYS, self.part / max(1, self.asked.working(now_ms))) * WINDOW_MS
        return min(WAIT_MS_MAX, until_faded_ms(self.asked.of(tenant, now_ms), allowed))

    def beat_wait_ms(self, tenant: TenantId, now_ms: float) -> float:
        """The same for a sign of life: of ALWAYS for these alone, so that questions do not cost members their place."""
        if not self._is_short(now_ms):
            return 0.0
        return min(WAIT_MS_MAX, until_faded_ms(self.beats.of(tenant, now_ms), ALWAYS * WINDOW_MS))

    def is_asked(self, now_ms: float) -> bool:
        """Whether it matters how late timers fire."""
        return self.asked.working(now_ms) > 0 or self.beats.working(now_ms) > 0

    def _is_short(self, now_ms: float) -> bool:
        return self.part < SHARED and self._work.working(now_ms) > 1
