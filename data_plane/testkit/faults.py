"""Faults and the protocol steps they are to meet: the table of which nothing may stay at zero."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class FaultKind(Enum):
    """What the nemesis does."""

    KILL = "kill"
    """SIGKILL of a broker."""
    POWER_CUT = "power cut"
    """A broker's host loses its power: what was not synced may be gone."""
    ALL_POWER_CUT = "all-node power cut"
    """All hosts at the same instant."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT some seconds later."""
    CUT = "cut"
    """Nothing gets to or from a host, the metadata store included."""
    ONE_WAY_CUT = "one-way cut"
    """Nothing gets from one host to some others."""
    RESET = "connection reset"
    """All connections between two hosts, again and again for a moment (flapping)."""
    CLOCK_JUMP = "clock jump"
    """A wall clock jumps by up to a year."""
    SLOW_SYNC = "slow sync"
    """Each sync takes up to seconds longer."""
    SYNC_ERROR = "sync error"
    """A sync fails and pages are lost."""
    DISK_FULL = "full disk"
    BIT_FLIP = "bit flip"
    """One stored bit changes, as the broker finds it at its next boot or cold read."""
    READ_ERROR = "read error"
    """Some sectors of a segment answer EIO until they are written again."""
    MISDIRECTED_WRITE = "misdirected write"
    """A write to a segment lands one sector too far."""
    FLAPPING = "flapping"
    """A host is isolated and heard again, many times within a second or two."""
    STORE_CUT = "store cut"
    """The metadata store alone cannot be reached from a host."""
    STORE_UNSURE = "store unsure"
    """The store does what it is asked and its answers are lost, for all brokers, for a while."""
    STORE_COMPACTED = "store compacted"
    """Watches break, and what they want to go on from is gone."""
    SESSION_LOST = "session lost"
    """A broker's session ends though it is kept alive."""
    LYING_SYNC = "lying sync"
    """One disk confirms syncs that it keeps in a cache, and its host loses its power soon after."""
    SLOW_LINK = "slow link"
    """What travels between a host and some others takes up to a second longer."""
    STUCK_READ = "stuck read"
    """Reads from one disk take seconds."""
    EMPTIED_DIRECTORY = "emptied directory"
    """A broker comes back with an empty log directory."""
    SWAPPED_DIRECTORY = "swapped directory"
    """A broker is started on the log directory of another one, then on its own again."""


class Step(Enum):
    """What the victim is doing when the fault strikes."""

    IDLE = "idle"
    """Nothing below is under way; a segment's name may wait for the next checkpoint."""
    PRODUCE = "produce in flight"
    """It leads, and something appended is not committed yet."""
    ELECTION = "election"
    """A partition of its has no leader that serves."""
    CATCH_UP = "catching up"
    """It follows and lags, or leads one that does."""
    IN_SYNC_CHANGE = "in-sync change"
    """It leads, and a proposed in-sync set is not settled."""
    ROLL = "roll"
    """It creates a segment's file, or has and the file's name is not durable yet."""
    TRUNCATION = "truncation"
    """It cuts a log, or has decided to and waits for the journal."""
    BOOT = "boot"
    """It has started and is not registered yet."""


@dataclass(frozen=True, slots=True, order=False)
class Combination:
    """One fault that is to meet one step."""

    fault: FaultKind
    step: Step

    def __str__(self) -> str:
        return f"{self.fault.value} x {self.step.value}"


IMPOSSIBLE: Mapping[Combination, str] = {
    Combination(FaultKind.RESET, Step.BOOT): "a booting broker has no connections to reset",
}
"""Combinations that cannot occur, each with the reason."""

COMBINATIONS: tuple[Combination, ...] = tuple(
    combination
    for fault in FaultKind
    for step in Step
    if (combination := Combination(fault, step)) not in IMPOSSIBLE
)


class ReachedTable:
    """How often each combination was reached, over any number of seeds."""

    def __init__(self) -> None:
        self.counts: dict[Combination, int] = dict.fromkeys(COMBINATIONS, 0)

    def add(self, combination: Combination) -> None:
        self.counts[combination] += 1

    def merge(self, counts: Mapping[str, int]) -> None:
        """Add what another process counted, by the combinations' names."""
        for combination in COMBINATIONS:
            self.counts[combination] += counts.get(str(combination), 0)

    def named(self) -> dict[str, int]:
        return {str(combination): count for combination, count in self.counts.items() if count}

    def missing(self) -> list[Combination]:
        """Combinations never reached."""
        return [combination for combination in COMBINATIONS if not self.counts[combination]]

    def lines(self) -> list[str]:
        """The table for people: a row a fault, a column a step, `-` where a combination cannot occur."""
        width = max(len(fault.value) for fault in FaultKind)
        columns = [max(len(step.value), 4) for step in Step]
        head = " ".join(step.value.rjust(column) for step, column in zip(Step, columns, strict=True))
        lines = [f"{'fault':<{width}} {head}"]
        for fault in FaultKind:
            combinations = []
            for step, column in zip(Step, columns, strict=True):
                combination = Combination(fault, step)
                text = "-" if combination in IMPOSSIBLE else str(self.counts[combination])
                combinations.append(text.rjust(column))
            lines.append(f"{fault.value:<{width}} {' '.join(combinations)}")
        return lines
