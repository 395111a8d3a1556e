"""Comparing the brokers' wall clocks: the controller measures how far each is from its own, by the beats' answers.

No clock is known to be right; each is compared with the middle of all clocks. A clock that is off decides
nothing (RL8), but stamps what it takes and would delete by age, so its broker gets a warning (RL107). A result holds
for a few seconds, by the monotonic clock of the broker that uses it: a clock that has moved on by hours since then was
not compared.
"""

from dataclasses import dataclass

from penstock.contract.ids import BrokerId
from penstock.contract.limits import TIMESTAMP_AHEAD_MS_MAX

ROUND_TRIP_MS_MAX = 500.0
"""An answer that took longer says too little of the clock that stamped it."""
HOLDS_MS = 5_000
"""A comparison counts for so long: far longer than a beat, far shorter than what retention goes by."""
FAR_OFF_MS = TIMESTAMP_AHEAD_MS_MAX // 2
"""A leader this far behind comes near to refusing messages for their time, for as long as its clock stays so; one this
far ahead stamps them with a time that is still to come."""
_OTHERS_MIN = 2
"""Of two clocks that differ it is unknown which is wrong: where there are three, three are compared."""


def _holds(since_ms: float, now_ms: float) -> bool:
    return 0 <= now_ms - since_ms <= HOLDS_MS


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """What was found of one broker's clock, and when it gave the answer that shows it, by its own monotonic clock."""

    off_ms: int
    answered_ms: float

    def holds(self, now_ms: float) -> bool:
        """Whether that is so at `now_ms`, by the same clock."""
        return _holds(self.answered_ms, now_ms)


@dataclass(frozen=True, slots=True)
class _Answer:
    ahead_ms: float
    """The broker's wall clock minus the controller's monotonic one."""
    asked_ms: float
    """By the controller's monotonic clock."""
    answered_ms: float
    """By the broker's."""


class ClockComparison:
    """As the controller keeps it: wall clocks of all against its own monotonic one, which is never set."""

    def __init__(self) -> None:
        self._answers: dict[BrokerId, _Answer] = {}
        self._far_off: dict[BrokerId, None] = {}
        """By the last comparison of each."""

    def answered(
        self, broker: BrokerId, wall_ms: int, asked_ms: float, answered_ms: float, now_ms: float
    ) -> None:
        """`broker` has answered now, `wall_ms` by its wall clock and `answered_ms` by its monotonic one, the beat that
        was sent at `asked_ms`; `asked_ms` and `now_ms` by the controller's monotonic clock."""
        round_trip_ms = now_ms - asked_ms
        if 0 <= round_trip_ms <= ROUND_TRIP_MS_MAX:
            self._answers[broker] = _Answer(wall_ms - (asked_ms + round_trip_ms / 2), asked_ms, answered_ms)

    def forget(self, broker: BrokerId) -> None:
        """It is not registered any more."""
        self._answers.pop(broker, None)
        self._far_off.pop(broker, None)

    def own_off_ms(self, wall_ms: int, now_ms: float) -> int | None:
        """How far the controller's clocks, which show `wall_ms` and `now_ms`, are off the middle of all; None = too few
        others are known."""
        others = self._known(now_ms)
        return None if not others else _off(wall_ms - now_ms, wall_ms - now_ms, others)

    def found(self, broker: BrokerId, wall_ms: int, now_ms: float) -> ClockOffset | None:
        """What to report to `broker` about its clock, from a controller whose clocks show `wall_ms` and `now_ms`;
        None = not known."""
        known = self._known(now_ms)
        answer = known.get(broker)
        return (
            None
            if answer is None
            else ClockOffset(_off(answer.ahead_ms, wall_ms - now_ms, known), answer.answered_ms)
        )

    def far_off(self, me: BrokerId, wall_ms: int, now_ms: float) -> tuple[BrokerId, ...]:
        """Brokers whose clock is far off, the controller `me` included, whose clocks show `wall_ms` and `now_ms`.

        A broker that is not compared just now is as it was at its last comparison: a busy moment moves no leader. Of
        two clocks that differ neither is taken for the wrong one.
        """
        known, own_ms = self._known(now_ms), wall_ms - now_ms
        if len(known) >= _OTHERS_MIN:
            for broker, ahead_ms in [(me, own_ms), *((b, known[b].ahead_ms) for b in sorted(known))]:
                if abs(_off(ahead_ms, own_ms, known)) > FAR_OFF_MS:
                    self._far_off[broker] = None
                else:
                    self._far_off.pop(broker, None)
        return tuple(sorted(self._far_off))

    def _known(self, now_ms: float) -> dict[BrokerId, _Answer]:
        """Who answered just now, if they are enough to go by."""
        known = {
            broker: answer for broker, answer in self._answers.items() if _holds(answer.asked_ms, now_ms)
        }
        return known if len(known) >= min(_OTHERS_MIN, len(self._answers)) else {}


def _off(ahead_ms: float, own_ms: float, others: dict[BrokerId, _Answer]) -> int:
    return round(ahead_ms - _middle([own_ms, *(answer.ahead_ms for answer in others.values())]))


def _middle(values: list[float]) -> float:
    """The median; of an even number, the middle between the two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
