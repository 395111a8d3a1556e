"""Questions for offsets by time or at a log's ends, put to each partition's leader, many in one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from penstock.client.cluster_view import NO_LEADER
from penstock.client.ports import Network
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract import methods
from penstock.contract.errors import NoLeader, PenstockError
from penstock.contract.v1 import log_pb2

_ASK_MS = 5_000
"""After this time without an answer the leader is looked up anew."""
PER_REQUEST_MAX = 10_000


@dataclass(slots=True, eq=False)
class OffsetQuestion:
    """One partition, one time (ms, `BEGINNING` or `END`). Ends in one callback unless it is dropped."""

    topic: str
    partition: int
    timestamp_ms: int
    deadline: float
    on_offset: Callable[[int, float], None]
    on_failure: Callable[[PenstockError, float], None]
    retry_at: float = 0.0
    attempts: int = 0
    asked: bool = False
    dropped: bool = False
    last_error: PenstockError | None = field(default=None)


class OffsetQuestions:
    def __init__(self, core: Network, random: Random) -> None:
        self._core = core
        self._backoff = Backoff(50, 1_000, random)
        self._open: list[OffsetQuestion] = []

    def ask(self, question: OffsetQuestion) -> None:
        self._open.append(question)
        self._core.attend()

    def ask_all(
        self, places: Iterable[tuple[str, int]], timestamp_ms: int, deadline: float
    ) -> tuple[dict[tuple[str, int], int], list[PenstockError]]:
        """Ask for one time of many (topic, partition); the mapping fills and the list gets errors as answers come."""
        offsets: dict[tuple[str, int], int] = {}
        failures: list[PenstockError] = []

        def failed(error: PenstockError, now: float) -> None:
            failures.append(error)
            self._core.changed = True

        for place in places:

            def told(offset: int, now: float, place: tuple[str, int] = place) -> None:
                offsets[place] = offset
                self._core.changed = True

            self.ask(OffsetQuestion(place[0], place[1], timestamp_ms, deadline, told, failed))
        return offsets, failures

    def drop(self, question: OffsetQuestion) -> None:
        question.dropped = True
        if question in self._open:
            self._open.remove(question)

    def next_step_at(self) -> float:
        return min(
            (q.deadline if q.asked else min(q.retry_at, q.deadline) for q in self._open), default=NEVER
        )

    def step(self, now: float) -> None:
        by_leader: dict[int, list[OffsetQuestion]] = {}
        for question in list(self._open):
            if now >= question.deadline:
                self._open.remove(question)
                question.on_failure(self._too_late(question), now)
            elif not question.asked and now >= question.retry_at:
                leader = self._leader_of(question)
                if leader == NO_LEADER:
                    self._again(
                        question, NoLeader(f"{question.topic}-{question.partition}: no leader now"), now
                    )
                else:
                    by_leader.setdefault(leader, []).append(question)
        for leader, questions in by_leader.items():
            for start in range(0, len(questions), PER_REQUEST_MAX):
                self._put(leader, questions[start : start + PER_REQUEST_MAX], now)

    def _leader_of(self, question: OffsetQuestion) -> int:
        view = self._core.view.topics.get(question.topic)
        if view is None or view.error is not None or question.partition >= len(view.partitions):
            return NO_LEADER
        return view.partitions[question.partition].leader

    def _put(self, leader: int, questions: list[OffsetQuestion], now: float) -> None:
        request = log_pb2.ListOffsetsRequest()
        for question in questions:
            question.asked = True
            question.attempts += 1
            view = self._core.view.topics[question.topic]
            request.partitions.add(
                topic_id=view.topic_id,
                partition=question.partition,
                leader_epoch=view.partitions[question.partition].leader_epoch,
                timestamp_ms=question.timestamp_ms,
            )

        def answered(response: bytes, now: float) -> None:
            answer = log_pb2.ListOffsetsResponse.FromString(response)
            if len(answer.partitions) != len(questions):
                failed(refusal(None, "the broker answered for other partitions than asked"), now)
                return
            for question, listed in zip(questions, answer.partitions, strict=True):
                if listed.error:
                    self._refused(question, refusal(listed.error, listed.message), now)
                elif self._take(question):
                    question.on_offset(listed.offset, now)

        def failed(error: PenstockError, now: float) -> None:
            for question in questions:
                self._refused(question, error, now)

        self._core.enquire(
            methods.LIST_OFFSETS,
            request.SerializeToString(),
            deadline=now + _ASK_MS,
            on_answer=answered,
            on_failure=failed,
            broker=leader,
        )

    def _take(self, question: OffsetQuestion) -> bool:
        if question.dropped or question not in self._open:
            return False
        self._open.remove(question)
        return True

    def _refused(self, question: OffsetQuestion, error: PenstockError, now: float) -> None:
        if final(error) and not metadata_may_be_newer(error):
            if self._take(question):
                question.on_failure(error, now)
            return
        if metadata_may_be_newer(error):
            self._core.refresh(now)
        self._again(question, error, now)

    def _again(self, question: OffsetQuestion, error: PenstockError, now: float) -> None:
        if question not in self._open:
            return
        question.asked = False
        question.last_error = error
        question.attempts = max(1, question.attempts)
        question.retry_at = now + self._backoff.delay_ms(question.attempts)
        self._core.attend()

    def _too_late(self, question: OffsetQuestion) -> PenstockError:
        return question.last_error or refusal(
            None, f"{question.topic}-{question.partition}: its leader did not tell the offset in time"
        )
