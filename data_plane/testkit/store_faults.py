"""What can go wrong on the way to the simulated metadata store and back."""

from dataclasses import dataclass
from enum import StrEnum


class StoreFaultKind(StrEnum):
    """What can go wrong; each is counted in `SimulatedStore.reached` when it has happened."""

    SLOW = "slow"
    REFUSED = "refused"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    ASKED_WHILE_CUT = "asked while cut"
    WATCH_DELAYED = "watch delayed"
    WATCH_CUT = "watch cut"
    COMPACTED = "compacted"
    SESSION_EARLY = "session expired early"
    SESSION_LATE = "session expired late"


@dataclass(slots=True, kw_only=True)
class StoreFaults:
    """Switches, all off at first. A chance is for each request, pushed revision or keep-alive, from 0 to
    1."""

    latency_ms: tuple[float, float] = (0.1, 0.5)
    """One way."""
    slow_chance: float = 0.0
    slow_ms: float = 300.0
    """A slow way takes up to this much longer."""
    refused_chance: float = 0.0
    """`StoreUnavailable`: nothing applied."""
    request_lost_chance: float = 0.0
    """`OutcomeUnknown`, not applied."""
    answer_lost_chance: float = 0.0
    """`OutcomeUnknown`, applied."""
    timeout_ms: float = 1_000.0
    """A lost request or answer is noticed within this."""
    watch_delayed_chance: float = 0.0
    watch_delay_ms: float = 500.0
    watch_cut_chance: float = 0.0
    """The watch raises `StoreUnavailable` in place of this revision; resuming brings it."""
    compacted_chance: float = 0.0
    """For each watch that resumes behind: the history that it wants is gone."""
    session_early_chance: float = 0.0
    """For each keep-alive: the session ends within its time to live whatever is done."""
    session_late_ms: float = 0.0
    """A session that is not kept alive ends up to this much after its deadline."""
