"""Commits of one group member: what may be committed by itself, and requests sent one at a time, in order.

No commit overtakes an earlier one, so the group's offsets never go back unasked (RL95).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.client.groups.assignment import RebalanceEvent
from penstock.client.groups.coordinator_calls import CoordinatorCalls
from penstock.client.ports import Network
from penstock.client.refusals import final, refusal
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb

FENCED = (ErrorCode.UNKNOWN_MEMBER, ErrorCode.FENCED_MEMBER_EPOCH)


@dataclass(slots=True, eq=False)
class CommitRequest:
    """Offsets under way. `done` with `error` None: committed."""

    offsets: dict[NamedPartition, tuple[bytes, int, int]]
    """(topic id, offset, leader epoch) by partition."""
    deadline: float
    done: bool = False
    error: PenstockError | None = None
    then: RebalanceEvent | None = None
    """A revocation that waits for this commit."""
    failures: int = 0
    retry_at: float = 0.0


class OffsetCommits:
    """Calls `ended` with each request that is done, and `fenced` when the coordinator refuses us as a member."""

    def __init__(
        self,
        core: Network,
        calls: CoordinatorCalls,
        group: str,
        member_id: str,
        backoff: Backoff,
        *,
        ended: Callable[[CommitRequest, float], None],
        fenced: Callable[[float], None],
    ) -> None:
        self._core = core
        self._calls = calls
        self._backoff = backoff
        self._group = group
        self.member_id = member_id
        self._ended = ended
        self._fenced = fenced
        self.consumed: dict[NamedPartition, tuple[int, int]] = {}
        """(offset, leader epoch) that the application has asked to move past (RL92)."""
        self.committed: dict[NamedPartition, int] = {}
        self._queue: deque[CommitRequest] = deque()
        self._sent: CommitRequest | None = None

    @property
    def under_way(self) -> bool:
        return bool(self._queue)

    def put(self, request: CommitRequest) -> None:
        self._queue.append(request)
        self._core.attend()

    def due(self, partitions: Mapping[NamedPartition, bytes], deadline: float) -> CommitRequest | None:
        """A commit of what was consumed of these partitions (topic id of each) and not committed; None = nothing."""
        offsets = {
            tp: (topic_id, *self.consumed[tp])
            for tp, topic_id in partitions.items()
            if tp in self.consumed and self.consumed[tp][0] != self.committed.get(tp)
        }
        return CommitRequest(offsets, deadline) if offsets else None

    def forget(self, tp: NamedPartition) -> None:
        """It is not ours any more."""
        self.consumed.pop(tp, None)
        self.committed.pop(tp, None)

    def next_step_at(self) -> float:
        return self._queue[0].retry_at if self._queue and self._sent is None else NEVER

    def step(self, epoch: int, now: float) -> None:
        """Send the next one, as the member of this epoch (0 = of none)."""
        if self._sent is not None or not self._queue or self._queue[0].retry_at > now:
            return
        commit = self._queue[0]
        if epoch <= 0 or now >= commit.deadline:
            self._queue.popleft()
            self._end(commit, self._why_not(commit, epoch), now)
        else:
            self._send(commit, epoch, now)

    def _send(self, commit: CommitRequest, epoch: int, now: float) -> None:
        self._sent = commit
        request = pb.CommitOffsetsRequest(group=self._group, member_id=self.member_id, member_epoch=epoch)
        for (_, partition), (topic_id, offset, leader_epoch) in commit.offsets.items():
            request.offsets.add(
                topic_id=topic_id, partition=partition, offset=offset, leader_epoch=leader_epoch
            )

        def answered(response: bytes, now: float) -> None:
            if self._sent is not commit:
                return
            answer = pb.CommitOffsetsResponse.FromString(response)
            if answer.error:
                failed(refusal(answer.error, answer.message), now)
                return
            if len(answer.results) != len(commit.offsets):
                failed(refusal(None, "the coordinator answered for other partitions than asked"), now)
                return
            self._sent = None
            self._queue.popleft()
            self._answered(commit, answer, now)

        def failed(error: PenstockError, now: float) -> None:
            if self._sent is not commit:
                return
            self._sent = None
            if final(error):
                self._queue.popleft()
                if error.code in FENCED:
                    self._fenced(now)
                self._end(commit, error, now)
            else:
                commit.error = error
                commit.failures += 1
                commit.retry_at = min(now + self._backoff.delay_ms(commit.failures), commit.deadline)
                self._calls.not_answered(error)
            self._core.attend()

        self._calls.ask("commit", request, now, answered, failed)

    def _why_not(self, commit: CommitRequest, epoch: int) -> PenstockError:
        if epoch <= 0:
            return errors.UnknownMember(f"group {self._group}: this consumer is no member now")
        return commit.error or errors.TimedOut(f"group {self._group}: the commit was not answered in time")

    def _answered(self, commit: CommitRequest, answer: pb.CommitOffsetsResponse, now: float) -> None:
        error: PenstockError | None = None
        for (tp, (_, offset, _)), result in zip(commit.offsets.items(), answer.results, strict=True):
            if result.error:
                error = error or refusal(result.error, result.message)
            else:
                self.committed[tp] = offset
        self._end(commit, error, now)

    def _end(self, commit: CommitRequest, error: PenstockError | None, now: float) -> None:
        commit.done, commit.error = True, error
        self._core.changed = True
        self._core.attend()
        self._ended(commit, now)

    def fail_all(self, error: PenstockError, now: float) -> None:
        """None of them can be committed any more; a late answer is not heard."""
        self._sent = None
        queue, self._queue = self._queue, deque()
        for commit in queue:
            self._end(commit, error, now)

    def abandon(self, error: PenstockError) -> None:
        """The consumer closes: only the callers still wait for them."""
        self._sent = None
        for commit in self._queue:
            commit.done, commit.error = True, error
        self._queue.clear()
