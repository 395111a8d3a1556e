"""What processor time a tenant's calls of REST take, and whether its limit has some left.

A call is counted when it ends, by what it took: no one knows that before. So a tenant may be ahead of its limit. It is
kept as a time, as in the generic cell rate algorithm: how long the limit needs for what was used (`Counters.take`).
Calls are let in while that is at most `REST_PROCESSOR_BURST_S`. Those under way count with what the tenant's last ones
took, so that those that wait for the moment when it clears are not let in all at once.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from control_plane import rate_counters
from control_plane.api.problems import RateReached
from quotas.plans import REST_PROCESSOR_BURST_S

REST_PROCESSOR = "rest_processor_ms_per_s"
AHEAD_S_MAX = 60.0
"""However long a call took, its tenant is not refused for longer than so."""
REFUSED_S_MIN = 1.0
"""A refusal holds for so long, as `Retry-After` says: each costs a third of a call, and nothing counts that."""
REMEMBERED_MAX = 10_000
_WEIGHT = 0.2
"""Of the last call, in what a call is expected to take."""


@dataclass(slots=True)
class _Known:
    """Of one tenant, as this process knows it."""

    even_at: float = 0.0
    """When the limit will have made up for what was used, by this process's clock."""
    expected_s: float = 0.0
    under_way: int = 0


@dataclass(slots=True)
class Call:
    """One call that was let in."""

    of: "ProcessorTime"
    name: str
    ms_per_s: int
    known: _Known
    is_under_way: bool = True

    def ended(self, took_s: float) -> None:
        """It took so much of a processor. Once more where its answer was made later, in parts."""
        self.of.count(self, took_s)


class ProcessorTime:
    """Of all web processes, by name; each hears of the others' calls when one of its own ends."""

    def __init__(
        self,
        counters: Callable[[], rate_counters.Counters] = rate_counters.counters,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """The one that was used longest ago first."""

    def begin(self, name: str, ms_per_s: int, whose: str) -> Call:
        """Let a call in. Raises `RateReached` when the time is used up."""
        now = self._clock()
        with self._lock:
            known = self._known.setdefault(name, _Known())
            self._known.move_to_end(name)
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
            ahead_s = max(0.0, known.even_at - now) + known.under_way * known.expected_s * 1000 / ms_per_s
            if ahead_s <= REST_PROCESSOR_BURST_S:
                known.under_way += 1
                return Call(of=self, name=name, ms_per_s=ms_per_s, known=known)
        raise RateReached(
            limit=REST_PROCESSOR,
            whose=whose,
            most=f"{ms_per_s} a second, with at most {REST_PROCESSOR_BURST_S * ms_per_s} ahead",
            used=f"calls are {ahead_s * ms_per_s:.0f} ahead",
            clears_in_s=max(REFUSED_S_MIN, ahead_s - REST_PROCESSOR_BURST_S),
        )

    def count(self, call: Call, took_s: float) -> None:
        """What a call took."""
        ahead_s = self._counters().take(call.name, took_s * 1000 / call.ms_per_s, most_s=AHEAD_S_MAX)
        with self._lock:
            known = call.known
            known.even_at = self._clock() + ahead_s
            if call.is_under_way:
                call.is_under_way = False
                known.under_way -= 1
                known.expected_s += (took_s - known.expected_s) * (_WEIGHT if known.expected_s else 1.0)

    def forget_all(self) -> None:
        """Each tenant begins again in this process."""
        with self._lock:
            self._known.clear()


processor_time = ProcessorTime()
