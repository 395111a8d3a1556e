"""Lookups of offsets by time or at a log's ends; one request asks a leader for many partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from penstock.client.cluster_view import NO_LEADER
from penstock.client.consuming.fetch_position import FetchPosition, PositionState
from penstock.client.ports import Network
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract import methods
from penstock.contract.errors import NoLeader, PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import log_pb2

_ASK_MS = 5_000
"""After this time without an answer the leader is looked up again."""
PER_REQUEST_MAX = 10_000


@dataclass(slots=True, eq=False)
class OffsetLookup:
    """One partition, one time (ms, `BEGINNING` or `END`). Ends in one callback unless it is dropped."""

    topic: str
    partition: int
    timestamp_ms: int
    deadline: float
    on_offset: Callable[[int, float], None]
    on_failure: Callable[[PenstockError, float], None]
    retry_at: float = 0.0
    attempts: int = 0
    sent: bool = False
    dropped: bool = False
    last_error: PenstockError | None = field(default=None)


class OffsetLookups:
    def __init__(self, core: Network, random: Random) -> None:
        self._core = core
        self._backoff = Backoff(50, 1_000, random)
        self._open: list[OffsetLookup] = []

    def ask(self, lookup: OffsetLookup) -> None:
        self._open.append(lookup)
        self._core.attend()

    def look_up(self, position: FetchPosition) -> None:
        """Ask for the position's target, and move it there; unless it is moved or halted meanwhile."""
        seek_epoch, target = position.seek_epoch, position.target
        position.lookup_sent = True
        if target is None:
            return

        def awaited() -> bool:
            return position.seek_epoch == seek_epoch and position.state is PositionState.AWAITING_OFFSET

        def listed(offset: int, now: float) -> None:
            if awaited():
                position.move_to(offset)
                self._core.changed = True
                self._core.attend()

        def failed(error: PenstockError, now: float) -> None:
            if awaited():
                position.halt(error)
                self._core.changed = True

        self.ask(OffsetLookup(position.topic, position.partition, target, NEVER, listed, failed))

    def look_up_all(
        self, partitions: Iterable[NamedPartition], timestamp_ms: int, deadline: float
    ) -> tuple[dict[NamedPartition, int], list[PenstockError]]:
        """Ask for one time of many (topic, partition); the mapping fills and the list gets errors as answers come."""
        offsets: dict[NamedPartition, int] = {}
        failures: list[PenstockError] = []

        def failed(error: PenstockError, now: float) -> None:
            failures.append(error)
            self._core.changed = True

        for tp in partitions:

            def listed(offset: int, now: float, tp: NamedPartition = tp) -> None:
                offsets[tp] = offset
                self._core.changed = True

            self.ask(OffsetLookup(tp[0], tp[1], timestamp_ms, deadline, listed, failed))
        return offsets, failures

    def drop(self, lookup: OffsetLookup) -> None:
        lookup.dropped = True
        if lookup in self._open:
            self._open.remove(lookup)

    def next_step_at(self) -> float:
        return min((q.deadline if q.sent else min(q.retry_at, q.deadline) for q in self._open), default=NEVER)

    def step(self, now: float) -> None:
        by_leader: dict[int, list[OffsetLookup]] = {}
        for lookup in list(self._open):
            if now >= lookup.deadline:
                self._open.remove(lookup)
                lookup.on_failure(self._too_late(lookup), now)
            elif not lookup.sent and now >= lookup.retry_at:
                leader = self._leader_of(lookup)
                if leader == NO_LEADER:
                    self._again(lookup, NoLeader(f"{lookup.topic}-{lookup.partition}: no leader now"), now)
                else:
                    by_leader.setdefault(leader, []).append(lookup)
        for leader, lookups in by_leader.items():
            for start in range(0, len(lookups), PER_REQUEST_MAX):
                self._put(leader, lookups[start : start + PER_REQUEST_MAX], now)

    def _leader_of(self, lookup: OffsetLookup) -> int:
        view = self._core.view.topics.get(lookup.topic)
        if view is None or view.error is not None or lookup.partition >= len(view.partitions):
            return NO_LEADER
        return view.partitions[lookup.partition].leader

    def _put(self, leader: int, lookups: list[OffsetLookup], now: float) -> None:
        request = log_pb2.ListOffsetsRequest()
        for lookup in lookups:
            lookup.sent = True
            lookup.attempts += 1
            view = self._core.view.topics[lookup.topic]
            request.partitions.add(
                topic_id=view.topic_id,
                partition=lookup.partition,
                leader_epoch=view.partitions[lookup.partition].leader_epoch,
                timestamp_ms=lookup.timestamp_ms,
            )

        def answered(response: bytes, now: float) -> None:
            answer = log_pb2.ListOffsetsResponse.FromString(response)
            if len(answer.partitions) != len(lookups):
                failed(refusal(None, "the broker answered for other partitions than asked"), now)
                return
            for lookup, listed in zip(lookups, answer.partitions, strict=True):
                if listed.error:
                    self._refused(lookup, refusal(listed.error, listed.message), now)
                elif self._take(lookup):
                    lookup.on_offset(listed.offset, now)

        def failed(error: PenstockError, now: float) -> None:
            for lookup in lookups:
                self._refused(lookup, error, now)

        self._core.send_request(
            methods.LIST_OFFSETS,
            request.SerializeToString(),
            deadline=now + _ASK_MS,
            on_answer=answered,
            on_failure=failed,
            broker=leader,
        )

    def _take(self, lookup: OffsetLookup) -> bool:
        if lookup.dropped or lookup not in self._open:
            return False
        self._open.remove(lookup)
        return True

    def _refused(self, lookup: OffsetLookup, error: PenstockError, now: float) -> None:
        if final(error) and not metadata_may_be_newer(error):
            if self._take(lookup):
                lookup.on_failure(error, now)
            return
        if metadata_may_be_newer(error):
            self._core.refresh(now)
        self._again(lookup, error, now)

    def _again(self, lookup: OffsetLookup, error: PenstockError, now: float) -> None:
        if lookup not in self._open:
            return
        lookup.sent = False
        lookup.last_error = error
        lookup.attempts = max(1, lookup.attempts)
        lookup.retry_at = now + self._backoff.delay_ms(lookup.attempts)
        self._core.attend()

    def _too_late(self, lookup: OffsetLookup) -> PenstockError:
        return lookup.last_error or refusal(
            None, f"{lookup.topic}-{lookup.partition}: its leader did not answer with the offset in time"
        )
