"""What one member of a consumer group decides: what it owns, when it commits, gives up and leaves.

    AWAY --poll--> JOINING --answer--> MEMBER --refused: fenced--> JOINING
    MEMBER --no poll for max_poll_interval_ms--> AWAY        any --close--> LEAVING --> GONE
    any --refused for good--> FAILED, raised at each poll

A partition goes through: assigned by the coordinator -> its committed offset fetched -> *owned*, held back -> the
application hears `ASSIGNED` -> read by `poll` -> held back again when it must be given up -> the application, done
with what its last poll returned, hears `REVOKED` -> committed -> no longer owned (RL91). When the member is fenced, all
partitions are dropped at once (`LOST`) and it joins again with epoch 0 (RL85).

Offsets that are committed by themselves are those the last `poll` began with: what the application asked to move past
(RL92). All methods are called under the client's lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from penstock.client.cluster_view import UNKNOWN_EPOCH
from penstock.client.groups.assignment import AssignedPartitions, RebalanceEvent, RebalanceKind
from penstock.client.groups.committed_offsets import CommittedOffsets, ask_committed, fetch_request
from penstock.client.groups.coordinator_calls import CoordinatorCalls
from penstock.client.groups.heartbeat import JOIN, LEAVE, heartbeat_request
from penstock.client.groups.offset_commits import CommitRequest, OffsetCommits
from penstock.client.ports import Network
from penstock.client.refusals import final, refusal
from penstock.client.settings import GroupSettings
from penstock.client.telling import warn
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb

_log = logging.getLogger("penstock")
_NOTHING: Mapping[NamedPartition, int] = MappingProxyType({})
CLOSE_MS = 5_000
"""A member that closes waits so long for its last commit and its leave."""
TROUBLE_MS = 30_000
"""A member that owns nothing and was refused for so long raises the reason at `poll`."""
PROGRESS_MS = 50
"""How often a loop over messages says at most that it goes on."""
COMMIT_MS = 30_000
"""A commit of its own is tried so long."""
_FENCED = (ErrorCode.UNKNOWN_MEMBER, ErrorCode.FENCED_MEMBER_EPOCH)


class GroupMember:
    """See the module."""

    def __init__(
        self, core: Network, consumer: AssignedPartitions, settings: GroupSettings, random: Random
    ) -> None:
        self.settings = settings
        self.member_id = random.randbytes(16).hex()
        self.epoch = JOIN
        self.error: PenstockError | None = None
        """Why it cannot be a member."""
        self.gone = False
        """It has left, or can do no more about it."""
        self._core = core
        self._consumer = consumer
        self._random = random
        self._calls = CoordinatorCalls(core, settings.group, random)
        self._backoff = Backoff(50, 1_000, random)
        self._started = self._leaving = False
        self._heartbeat_sent = False
        self._incarnation = 0
        """Rises when everything under way is to be forgotten."""
        self._heartbeat_at = NEVER
        self._failures = 0
        self._trouble: tuple[float, PenstockError] | None = None
        """(since when, the last failure) of heartbeats that all fail."""
        self._owned: dict[NamedPartition, bytes] = {}
        """Topic id by partition: what heartbeats report as owned."""
        self._adding: dict[NamedPartition, bytes] = {}
        self._fetching = False
        self._fetch_at = 0.0
        self._revoking: dict[NamedPartition, None] = {}
        self._events: deque[RebalanceEvent] = deque()
        self._commits = OffsetCommits(
            core,
            self._calls,
            settings.group,
            self.member_id,
            self._backoff,
            ended=self._commit_ended,
            fenced=self._commit_fenced,
        )
        self._auto_commit_at = NEVER
        self._auto_commit: CommitRequest | None = None
        self._polls = 0
        """Under way: polls, one in a hook of another one too, and hooks."""
        self._polled_at = 0.0
        self._close_at = NEVER

    def after_fork(self) -> None:
        """In a child process that may join: no two members have one id."""
        self.member_id = self._commits.member_id = self._random.randbytes(16).hex()

    # ---- what the application does ------------------------------------------------------------------------------

    def poll_begins(self, now: float) -> None:
        """It is done with what the last poll returned. The first poll joins, and so does one after a long silence."""
        self._polls += 1
        self._note_consumed()
        if not self._started and self.error is None and not self._leaving:
            self._started = True
            self._heartbeat_at = now
            self._auto_commit_at = now + self.settings.auto_commit_interval_ms
            self._core.attend()

    def hooks_begin(self) -> None:
        """The application's hooks run outside a poll: until `poll_ends` it is not silent, however long they take."""
        self._polls += 1

    def poll_ends(self, now: float) -> None:
        self._polls -= 1
        self._polled_at = now

    def progressed(self, now: float, left: Mapping[NamedPartition, int]) -> None:
        """More of what a poll has returned is wanted: the application is done with all but what is `left`."""
        self._polled_at = now
        self._note_consumed(left)

    def _note_consumed(self, left: Mapping[NamedPartition, int] = _NOTHING) -> None:
        """`left`: the first offset of what a poll has taken and iteration has not returned yet."""
        for tp in self._owned:
            position = self._consumer.positions.get(tp)
            if position is not None and position.has_offset:
                self._commits.consumed[tp] = (
                    (left[tp], UNKNOWN_EPOCH) if tp in left else (position.offset, position.epoch)
                )

    @property
    def has_news(self) -> bool:
        """True where `next_event` has something, or raises."""
        return bool(self._events) or self.error is not None

    def next_event(self) -> RebalanceEvent | None:
        """What the application must hear now. Raises what keeps it out of the group."""
        if self._events:
            return self._events.popleft()
        if self.error is not None:
            raise type(self.error)(self.error.message)
        return None

    def raise_if_unreachable(self, now: float) -> None:
        """Raise why nothing is assigned, when the coordinator has not been reached for long."""
        if self._trouble is not None and not self._owned and now - self._trouble[0] >= TROUBLE_MS:
            error = self._trouble[1]
            raise type(error)(error.message)

    def finish(self, event: RebalanceEvent, now: float, *, kept: bool) -> None:
        """The application has heard of it. `kept`: its hook ended well; of what it could not keep nothing is
        committed (RL92)."""
        if event.kind is RebalanceKind.ASSIGNED:
            for tp in event.partitions:
                if tp in self._owned and tp not in self._revoking:
                    self._consumer.deliver_partition(tp)
        elif event.kind is RebalanceKind.LOST:
            for tp in event.partitions:
                if tp not in self._owned:
                    self._consumer.remove_partition(tp)
        else:
            commits = self.settings.auto_commit and kept
            commit = self._due(event.partitions, now + COMMIT_MS) if commits else None
            if commit is None:
                self._release(event.partitions, now)
            else:
                commit.then = event
                self._commits.put(commit)
        self._core.changed = True
        self._core.attend()

    def owned(self) -> list[NamedPartition]:
        """By topic and partition; what must be given up is no longer among them."""
        return sorted(tp for tp in self._owned if tp not in self._revoking)

    def given_up_at_close(self) -> list[NamedPartition]:
        """What the application has not heard yet that it loses by closing: what it owns, and what it was to give up."""
        unheard = [
            tp for event in self._events if event.kind is RebalanceKind.REVOKED for tp in event.partitions
        ]
        return sorted({*self.owned(), *unheard})

    # ---- offsets ------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[NamedPartition, int] | None,
        deadline: float,
        left: Mapping[NamedPartition, int] = _NOTHING,
    ) -> CommitRequest:
        """Commit the positions of all owned partitions, or these offsets.

        Raises `InvalidRequest` for a partition that is not owned and for an offset that was not read up to,
        `UnknownMember` when all partitions were lost meanwhile.
        """
        if any(event.kind is RebalanceKind.LOST for event in self._events):
            raise errors.UnknownMember(
                f"group {self.settings.group}: this consumer was away too long and lost its partitions"
            )
        wanted: dict[NamedPartition, tuple[bytes, int, int]] = {}
        if offsets is None:
            self._note_consumed(left)
            wanted = {
                tp: (topic_id, *self._commits.consumed[tp])
                for tp, topic_id in self._owned.items()
                if tp in self._commits.consumed
            }
        else:
            for tp, offset in offsets.items():
                wanted[tp] = (*self._checked(tp, offset), -1)
        request = CommitRequest(wanted, deadline)
        if wanted:
            self._commits.put(request)
        else:
            request.done = True
        return request

    def _due(self, partitions: Iterable[NamedPartition], deadline: float) -> CommitRequest | None:
        return self._commits.due({p: self._owned[p] for p in partitions if p in self._owned}, deadline)

    def ask_committed(self, deadline: float) -> CommittedOffsets:
        """Ask what is committed for all that is owned; tried again until `deadline`."""
        return ask_committed(
            self._core, self._calls, self.settings.group, dict(self._owned), deadline, self._backoff
        )

    def _checked(self, tp: NamedPartition, offset: int) -> tuple[bytes, int]:
        label, position = f"{tp[0]}-{tp[1]}", self._consumer.positions.get(tp)
        if position is None or tp not in self._owned:
            raise errors.InvalidRequest(f"commit: {label} is not assigned to this consumer")
        highest = max(position.offset, position.high_watermark)
        if not 0 <= offset <= highest:
            raise errors.InvalidRequest(f"commit: {label} offset {offset}; 0 to {highest} can be committed")
        return self._owned[tp], offset

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        if self.gone or not self._started:
            return
        if self._leaving and now >= self._close_at:
            self._has_left()
            return
        self._check_poll_interval(now)
        if self._heartbeat_at <= now and not self._heartbeat_sent:
            self._send_heartbeat(now)
        if self._adding and not self._fetching and self._fetch_at <= now:
            self._fetch(now)
        if self.settings.auto_commit and self._auto_commit_at <= now:
            self._auto_commit_at = now + self.settings.auto_commit_interval_ms
            if self._auto_commit is None or self._auto_commit.done:
                # What is to be given up waits for the application's hook.
                self._auto_commit = self._due(self.owned(), now + COMMIT_MS)
                if self._auto_commit is not None:
                    self._commits.put(self._auto_commit)
        self._commits.step(self.epoch, now)
        self._calls.step(now)

    def next_step_at(self) -> float:
        if self.gone or not self._started:
            return NEVER
        at = min(self._close_at, self._calls.next_step_at(), self._commits.next_step_at())
        if not self._heartbeat_sent:
            at = min(at, self._heartbeat_at)
        if self._adding and not self._fetching:
            at = min(at, self._fetch_at)
        if self.settings.auto_commit:
            at = min(at, self._auto_commit_at)
        if self.epoch > 0 and not self._polls and not self._leaving:
            at = min(at, self._polled_at + self.settings.max_poll_interval_ms)
        return at

    def _check_poll_interval(self, now: float) -> None:
        """A member that does not poll processes nothing, whatever its heartbeats say (RL93)."""
        silent = now - self._polled_at >= self.settings.max_poll_interval_ms
        if silent and self.epoch > 0 and not self._polls and not self._leaving:
            warn(
                _log,
                "penstock: group %s: nothing was polled for %.1f s, the max_poll_interval_ms of this consumer: it "
                "leaves the group, and other members read again what is not committed. Its next poll joins again. "
                "Do less between polls, take fewer messages at once, or give a longer interval",
                self.settings.group,
                self.settings.max_poll_interval_ms / 1000,
            )
            epoch, self._heartbeat_at = self.epoch, NEVER
            self._lose_all(now)
            self._started = False
            self._calls.ask("heartbeat", self._request(LEAVE if epoch else JOIN), now, _ignored, _ignored)
            self._calls.step(now)

    # ---- heartbeats ---------------------------------------------------------------------------------------------

    def _request(self, epoch: int) -> pb.GroupHeartbeatRequest:
        return heartbeat_request(self.settings, self.member_id, epoch, self._consumer.topics, self._owned)

    def _send_heartbeat(self, now: float) -> None:
        self._heartbeat_sent, incarnation = True, self._incarnation

        def answered(response: bytes, now: float) -> None:
            if incarnation == self._incarnation:
                self._heartbeat_sent = False
                self._heartbeat_answered(pb.GroupHeartbeatResponse.FromString(response), now)

        def failed(error: PenstockError, now: float) -> None:
            if incarnation == self._incarnation:
                self._heartbeat_sent = False
                self._heartbeat_refused(error, now)

        self._calls.ask("heartbeat", self._request(self.epoch), now, answered, failed)

    def _heartbeat_answered(self, answer: pb.GroupHeartbeatResponse, now: float) -> None:
        if answer.error:
            self._heartbeat_refused(refusal(answer.error, answer.message), now)
            return
        self.epoch = answer.member_epoch
        self._failures = 0
        self._trouble = None
        self._heartbeat_at = now + answer.heartbeat_ms
        names = {topic.topic_id: topic.name for topic in answer.topics}
        assigned = {
            (names[tp.topic_id], tp.partition): tp.topic_id for tp in answer.assigned if tp.topic_id in names
        }
        gone = [
            tp
            for tp, topic_id in self._owned.items()
            if assigned.get(tp) != topic_id and tp not in self._revoking
        ]
        if gone:
            self._revoke(gone)
        self._adding = {tp: topic_id for tp, topic_id in assigned.items() if tp not in self._owned}
        self._core.attend()

    def _heartbeat_refused(self, error: PenstockError, now: float) -> None:
        self._failures += 1
        self._trouble = (now if self._trouble is None else self._trouble[0], error)
        self._core.attend()
        if error.code in _FENCED:
            self._lose_all(now)
            self._heartbeat_at = now if self._failures < 2 else now + self._backoff.delay_ms(self._failures)
        elif error.code is ErrorCode.NOT_FOUND:
            # The coordinator's broker may not know yet a topic that other brokers know.
            self._core.refresh(now)
            self._heartbeat_at = now + self._backoff.delay_ms(self._failures)
        elif final(error):
            self._lose_all(now)
            self.error = error
            self._heartbeat_at = NEVER
            self._core.changed = True
        else:
            self._calls.not_answered(error)
            self._heartbeat_at = now + self._backoff.delay_ms(self._failures)

    # ---- partitions -------------------------------------------------------------------------------------------------

    def _revoke(self, partitions: list[NamedPartition]) -> None:
        for tp in partitions:
            self._revoking[tp] = None
            self._consumer.hold_partition(tp)
        self._events.append(RebalanceEvent(RebalanceKind.REVOKED, tuple(sorted(partitions))))
        self._core.changed = True

    def _release(self, partitions: Iterable[NamedPartition], now: float) -> None:
        """Given up: the next heartbeat no longer lists them, and comes at once (RL84)."""
        for tp in partitions:
            if tp in self._revoking:
                del self._revoking[tp]
                del self._owned[tp]
                self._commits.forget(tp)
                self._consumer.remove_partition(tp)
                self._heartbeat_at = min(self._heartbeat_at, now)
        self._core.changed = True
        self._core.attend()

    def _lose_all(self, now: float) -> None:
        """Nothing is ours any more: stop reading at once, and report `LOST` (RL85)."""
        self._incarnation += 1
        self._heartbeat_sent = self._fetching = False
        self.epoch = JOIN
        lost = tuple(sorted(self._owned))
        for tp in lost:
            self._consumer.hold_partition(tp)
            self._commits.forget(tp)
        self._owned.clear()
        self._adding.clear()
        self._revoking.clear()
        self._events = deque(event for event in self._events if event.kind is RebalanceKind.LOST)
        if lost:
            self._events.append(RebalanceEvent(RebalanceKind.LOST, lost))
        self._commits.fail_all(
            errors.UnknownMember(f"group {self.settings.group}: fenced before the commit"), now
        )
        self._core.changed = True
        self._core.attend()

    def _fetch(self, now: float) -> None:
        """Ask where to go on in what was assigned, as far as the metadata knows it and nothing old is in the way."""
        asked: dict[NamedPartition, bytes] = {}
        for tp, topic_id in self._adding.items():
            view = self._core.view.topics.get(tp[0])
            known = view is not None and view.topic_id == topic_id and tp[1] < len(view.partitions)
            if known and tp not in self._consumer.positions:
                asked[tp] = topic_id
        if len(asked) < len(self._adding):
            self._fetch_at = now + 50
            if any(tp not in self._consumer.positions for tp in self._adding if tp not in asked):
                self._core.refresh(now)
        if not asked:
            return
        self._fetching, incarnation = True, self._incarnation
        request = fetch_request(self.settings.group, asked, self.member_id, self.epoch)

        def answered(response: bytes, now: float) -> None:
            if incarnation != self._incarnation:
                return
            self._fetching = False
            answer = pb.FetchCommittedResponse.FromString(response)
            if answer.error:
                failed(refusal(answer.error, answer.message), now)
            else:
                self._failures = 0
                self._adopt(asked, answer, now)

        def failed(error: PenstockError, now: float) -> None:
            if incarnation != self._incarnation:
                return
            self._fetching = False
            self._failures += 1
            self._fetch_at = now + self._backoff.delay_ms(self._failures)
            if error.code in _FENCED:
                self._heartbeat_at = now
            elif final(error):
                self._heartbeat_refused(error, now)
            else:
                self._calls.not_answered(error)
            self._core.attend()

        self._calls.ask("fetch", request, now, answered, failed)

    def _adopt(
        self, asked: dict[NamedPartition, bytes], answer: pb.FetchCommittedResponse, now: float
    ) -> None:
        """Begin to read, held back until the application has heard of it."""
        offsets = {(offset.topic_id, offset.partition): offset for offset in answer.offsets}
        topics_read = set(answer.topics_read)
        adopted: list[NamedPartition] = []
        for tp, topic_id in asked.items():
            found = offsets.get((topic_id, tp[1]))
            if self._adding.get(tp) != topic_id or found is None or tp in self._consumer.positions:
                continue
            del self._adding[tp]
            if found.offset >= 0:
                self._commits.committed[tp] = found.offset
            new = found.offset < 0 and topic_id in topics_read
            self._consumer.add_partition(tp, found.offset, found.leader_epoch, new=new)
            self._owned[tp] = topic_id
            adopted.append(tp)
        if adopted:
            self._events.append(RebalanceEvent(RebalanceKind.ASSIGNED, tuple(sorted(adopted))))
            self._core.changed = True
        self._core.attend()

    def _commit_ended(self, commit: CommitRequest, now: float) -> None:
        if commit.then is not None:
            self._release(commit.then.partitions, now)
        self._core.attend()
        if self._leaving:
            self._leave_if_committed(now)

    def _commit_fenced(self, now: float) -> None:
        """The coordinator does not know us as we are: the next heartbeat shows more, and comes at once."""
        self._heartbeat_at = now

    # ---- the end ------------------------------------------------------------------------------------------------

    def begin_close(
        self, now: float, *, finished: bool, kept: bool, left: Mapping[NamedPartition, int] = _NOTHING
    ) -> None:
        """Commit and leave; `gone` is set when that is over. `finished`: the application is done with its last poll.
        `kept`: its hook ended well, else nothing is committed."""
        if self._leaving or self.gone:
            return
        if finished:
            self._note_consumed(left)
        self._leaving = True
        self._close_at = now + CLOSE_MS
        self._heartbeat_at = NEVER
        self._adding.clear()
        if not self._started or self.epoch <= 0:
            self._has_left()
            return
        if self.settings.auto_commit and kept:
            commit = self._due(self._owned, self._close_at)
            if commit is not None:
                self._commits.put(commit)
        self._leave_if_committed(now)
        self._core.attend()

    def _leave_if_committed(self, now: float) -> None:
        if self._commits.under_way or self.gone:
            return
        if self.settings.instance_id:
            self._has_left()  # it comes back, and keeps its partitions for as long as its session lasts
            return

        def over(what: object, now: float) -> None:
            self._has_left()

        self._incarnation += 1
        self._calls.ask("heartbeat", self._request(LEAVE), now, over, over)
        self._core.attend()

    def _has_left(self) -> None:
        self.gone = self._core.changed = True

    def abandon(self) -> None:
        """Its consumer closes and waits no longer."""
        self._incarnation += 1
        self._calls.close()
        self._commits.abandon(errors.Closed("consumer: closed"))
        self._has_left()


def _ignored(what: object, now: float) -> None:
    """Nothing depends on it."""
