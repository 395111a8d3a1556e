"""What clients did and saw during a simulation: the evidence that history checkers judge."""

from dataclasses import dataclass, field
from enum import Enum

from penstock.contract.ids import TopicPartition


class Outcome(Enum):
    """The answer that the sender got for a batch, or may conclude (RL17)."""

    PENDING = "pending"
    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


@dataclass(slots=True, eq=False)
class SentBatch:
    """One batch of unique values, over all its attempts. Times in virtual seconds."""

    producer: str
    where: TopicPartition
    order: int
    """Place among the batches of this producer to this partition."""
    values: tuple[bytes, ...]
    acks: int
    idempotent: bool
    began_s: float
    ended_s: float = -1.0
    outcome: Outcome = Outcome.PENDING
    offset: int = -1
    """Base offset, when applied."""
    duplicate: bool = False
    attempts: int = 0
    open_attempts: int = 0
    """Attempts that were not refused definitely: each may stand in the log, or be executed yet (RL17)."""

    def resolve(self, outcome: Outcome, now_s: float) -> None:
        if self.outcome is Outcome.PENDING:
            self.outcome = outcome
            self.ended_s = now_s

    @property
    def maybe_applied(self) -> bool:
        return self.open_attempts > 0

    @property
    def promised(self) -> bool:
        """Acknowledged by the whole in-sync set: must never be lost."""
        return self.acks == -1 and self.outcome is Outcome.APPLIED


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Values as one consumer got them, at consecutive offsets from `offset` on."""

    consumer: str
    where: TopicPartition
    at_s: float
    offset: int
    values: tuple[bytes, ...]
    leader_epoch: int
    broker: int


class MarkKind(Enum):
    """What a broker reported to a client of a partition."""

    HIGH_WATERMARK = "high watermark"
    LOG_START = "log start"
    END = "end offset"
    COMMITTED = "committed offset"
    """Of a consumer group, which is the client then."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One such telling."""

    client: str
    where: TopicPartition
    kind: MarkKind
    value: int
    at_s: float
    broker: int


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What a client noticed by itself that no correct cluster does, under the invariant that it breaks."""

    invariant: str
    explanation: str
    at_s: float


@dataclass(slots=True)
class History:
    """Everything, in the order it happened."""

    sent: list[SentBatch] = field(default_factory=list)
    reads: list[ReadBatch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)
    names: dict[TopicPartition, str] = field(default_factory=dict)
    """How to call a partition in explanations."""
    refusals: dict[str, int] = field(default_factory=dict)
    """Error codes that clients got, counted."""

    def name(self, where: TopicPartition) -> str:
        return self.names.get(where, str(where))

    def refused(self, code: str) -> None:
        self.refusals[code] = self.refusals.get(code, 0) + 1
