"""Answers to producers that wait at one replica, and what its queue says to the producers with them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data_plane.node.ports import Clock
from data_plane.node.replicas.loads import PartitionLoads
from data_plane.node.stats import NodeStats
from data_plane.replication.acknowledgement import AnswerWhen, PendingAnswers
from data_plane.throttling.queues import PartitionQueue
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition

_ANSWERS_A_TURN = 500
"""One client can have as many batches waiting as its credit allows."""


@dataclass(slots=True)
class ProduceOutcome:
    """What became of one produced batch; `error` 0 = applied."""

    error: int = ErrorCode.OK
    message: str = ""
    base_offset: int = -1
    accepted_ms: int = -1
    duplicate: bool = False
    leader_epoch: int = -1
    retry_after_ms: int = 0
    """Not 0: so soon it is worth another try."""
    slow_down_ms: int = 0
    """Not 0: so long its producer is to send nothing to the partition."""
    size: int = 0
    """What it is in the partition's queue, in bytes."""
    taken_ms: float = 0.0
    """Since when it is there (monotonic)."""


Answer = Callable[[ProduceOutcome], None]


class ProduceAnswers:
    """Of one leadership after the other."""

    def __init__(
        self,
        where: TopicPartition,
        queue: PartitionQueue,
        *,
        clock: Clock,
        loads: PartitionLoads,
        stats: NodeStats,
    ) -> None:
        self._where = where
        self._queue = queue
        self._clock = clock
        self._loads = loads
        self._stats = stats
        self._pending: PendingAnswers[tuple[Answer, ProduceOutcome]] = PendingAnswers()

    def wait(self, when: AnswerWhen, end_offset: int, answer: Answer, outcome: ProduceOutcome) -> None:
        """A batch was appended; it ends at `end_offset`, behind all that wait, and is in the queue from now on."""
        self._queue.took(outcome.size)
        self._pending.wait(when, end_offset, (answer, outcome))

    def wait_again(self, when: AnswerWhen, end_offset: int, answer: Answer, outcome: ProduceOutcome) -> None:
        """A batch came that was appended before."""
        self._pending.wait_again(when, end_offset, (answer, outcome))

    def give_due(self, durable_end: int, high_watermark: int) -> bool:
        """Answer what is due, as much as one turn may; whether there may be more."""
        due = self._pending.due(durable_end, high_watermark, _ANSWERS_A_TURN)
        if not due:
            return False  # the ordinary case, after each batch
        size = sum([outcome.size for _, outcome in due])
        if size:
            self._queue.answered(size)
            if self._queue.waiting_bytes:
                self._slow_down(due)
        for answer, outcome in due:
            answer(outcome)
        return len(due) == _ANSWERS_A_TURN

    def _slow_down(self, due: Sequence[tuple[Answer, ProduceOutcome]]) -> None:
        now_ms = self._clock.monotonic_ms()
        for _, outcome in due:
            if outcome.size:
                outcome.slow_down_ms = self._queue.slow_down_ms(now_ms - outcome.taken_ms)
                if outcome.slow_down_ms:
                    self._loads.slowed(self._where)
                    self._stats.slow_downs += 1

    def end(self, durable_end: int, high_watermark: int, message: str) -> int:
        """The leadership is over: answer what was due, and all others with an unknown outcome; how many those are."""
        for answer, outcome in self._pending.due(durable_end, high_watermark, len(self._pending)):
            answer(outcome)
        lost = self._pending.take_all()
        self._queue.clear()
        for answer, outcome in lost:
            outcome.error = ErrorCode.OUTCOME_UNKNOWN
            outcome.message = message
            answer(outcome)
        return len(lost)
