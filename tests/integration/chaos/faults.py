"""Which broker is hit in which round, and how."""

from dataclasses import dataclass
from enum import Enum

BROKERS = (1, 2, 3)
ROUNDS_FULL = 30
ROUNDS_QUICK = 8
_ALL_AT_ONCE = 3


class Fault(Enum):
    """What happens to a process."""

    KILL = "SIGKILL"
    PAUSE = "SIGSTOP for 5 s"


@dataclass(frozen=True, slots=True)
class Round:
    """One fault of one broker, or of all at once."""

    number: int
    brokers: tuple[int, ...]
    fault: Fault

    def __str__(self) -> str:
        whom = "all brokers" if len(self.brokers) > 1 else f"broker {self.brokers[0]}"
        return f"round {self.number}: {self.fault.value} to {whom}"


def schedule(rounds: int) -> list[Round]:
    """`rounds` rounds: each broker in turn, killed and paused alternately, and at even distances all of
    them at once.

    Of fewer than ten rounds one hits all, else three do.
    """
    all_at_once = _ALL_AT_ONCE if rounds >= 10 else 1
    together = {rounds * (index + 1) // (all_at_once + 1) for index in range(all_at_once)}
    planned: list[Round] = []
    singles = 0
    for number in range(1, rounds + 1):
        if number in together:
            fault = Fault.PAUSE if sum(len(r.brokers) > 1 for r in planned) == 1 else Fault.KILL
            planned.append(Round(number, BROKERS, fault))
            continue
        turn, broker = divmod(singles, len(BROKERS))
        fault = Fault.PAUSE if (turn + broker) % 2 else Fault.KILL
        planned.append(Round(number, (BROKERS[broker],), fault))
        singles += 1
    return planned
