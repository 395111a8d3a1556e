"""Comparing the brokers' wall clocks: the controller measures how far each is from its own, by the beats' answers.

Nobody knows the time; the middle of all clocks is what one of them is held against. A clock that is off decides
nothing (RL8), but stamps what it takes and would delete by age, so its broker is told (RL107).
"""

from penstock.contract.ids import BrokerId

ROUND_TRIP_MS_MAX = 500.0
"""An answer that took longer says too little of the clock that stamped it."""


class ClockComparison:
    """As the controller keeps it. Offsets in ms: a broker's wall clock minus the controller's."""

    def __init__(self) -> None:
        self._offsets: dict[BrokerId, float] = {}

    def answered(self, broker: BrokerId, wall_ms: int, sent_ms: int, round_trip_ms: float) -> None:
        """`broker` answered a beat sent at `sent_ms` (controller's wall clock) with its own wall clock."""
        if 0 <= round_trip_ms <= ROUND_TRIP_MS_MAX:
            self._offsets[broker] = wall_ms - (sent_ms + round_trip_ms / 2)

    def forget(self, broker: BrokerId) -> None:
        """It is not registered any more."""
        self._offsets.pop(broker, None)

    def off_ms(self, broker: BrokerId | None) -> int | None:
        """How far a broker's clock (None = the controller's own) is off the middle of all; None = not known."""
        if not self._offsets or (broker is not None and broker not in self._offsets):
            return None
        own = 0.0 if broker is None else self._offsets[broker]
        return round(own - _middle([0.0, *self._offsets.values()]))


def _middle(values: list[float]) -> float:
    """The median; of an even number, the middle between the two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
