"""What one member of a consumer group decides: whom it asks, what it owns, when it commits, gives up and leaves.

    AWAY --poll--> JOINING --answer--> MEMBER --refused: fenced--> JOINING
    MEMBER --no poll for max_poll_interval_ms--> AWAY        any --close--> LEAVING --> GONE
    any --refused for good--> FAILED, told at each poll

A place goes through: assigned by the coordinator -> its committed offset fetched -> *owned*, held back -> the
application is told (`Assigned`) -> handed out -> held back again when it must be given up -> the application, done
with what its last poll returned, is told (`Revoked`) -> committed -> no longer owned (RL91). When the member is fenced
all places are dropped at once (`Lost`) and it joins anew with epoch 0 (RL85).

Offsets that are committed by themselves are those the last `poll` began with: what the application asked to move past
(RL92). All methods are called under the client's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from penstock.client.cluster_view import UNKNOWN_EPOCH, TopicPartition
from penstock.client.groups.assignment import AssignedPartitions, EventKind, GroupEvent
from penstock.client.groups.committed_offsets import CommittedAnswer, ask_committed, fetch_request
from penstock.client.groups.coordinator_calls import GroupCalls
from penstock.client.groups.heartbeat import JOIN, LEAVE, heartbeat_request
from penstock.client.groups.offset_commits import CommitRequest, GroupCommits
from penstock.client.ports import Network
from penstock.client.refusals import final, refusal
from penstock.client.settings import GroupSettings
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.v1 import groups_pb2 as pb

_NOTHING: Mapping[TopicPartition, int] = MappingProxyType({})
CLOSE_MS = 5_000
"""A member that closes waits so long for its last commit and its leave."""
TROUBLE_MS = 30_000
"""Who owns nothing and was refused for so long is told so at `poll`."""
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
        self._core, self._consumer, self._random = core, consumer, random
        self._calls = GroupCalls(core, settings.group, random)
        self._backoff = Backoff(50, 1_000, random)
        self._started = self._leaving = False
        self._beating = False
        self._line = 0
        """Rises when everything under way is to be forgotten."""
        self._beat_at = NEVER
        self._failures = 0
        self._trouble: tuple[float, PenstockError] | None = None
        """(since when, the last failure) of heartbeats that all fail."""
        self._owned: dict[TopicPartition, bytes] = {}
        """Topic id by place: what is told to be owned."""
        self._adding: dict[TopicPartition, bytes] = {}
        self._fetching = False
        self._fetch_at = 0.0
        self._revoking: dict[TopicPartition, None] = {}
        self._events: deque[GroupEvent] = deque()
        self._commits = GroupCommits(
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
        self._in_poll = False
        self._polled_at = 0.0
        self._close_at = NEVER

    def after_fork(self) -> None:
        """In a child process that may join: no two members have one id."""
        self.member_id = self._commits.member_id = self._random.randbytes(16).hex()

    # ---- what the application does ------------------------------------------------------------------------------

    def poll_begins(self, now: float) -> None:
        """It is done with what the last poll returned. The first poll joins, and so does one after a long silence."""
        self._in_poll = True
        self._take_passed()
        if not self._started and self.error is None and not self._leaving:
            self._started, self._beat_at = True, now
            self._auto_commit_at = now + self.settings.auto_commit_interval_ms
            self._core.attend()

    def poll_ends(self, now: float) -> None:
        self._in_poll, self._polled_at = False, now

    def _take_passed(self, left: Mapping[TopicPartition, int] = _NOTHING) -> None:
        """`left`: the first offset of what was taken by a poll and not handed out yet."""
        for place in self._owned:
            cursor = self._consumer.cursors.get(place)
            if cursor is not None and cursor.positioned:
                self._commits.passed[place] = (
                    (left[place], UNKNOWN_EPOCH) if place in left else (cursor.offset, cursor.epoch)
                )

    def next_event(self) -> GroupEvent | None:
        """What the application is to be told now. Raises what keeps it out of the group."""
        if self._events:
            return self._events.popleft()
        if self.error is not None:
            raise type(self.error)(self.error.message)
        return None

    def raise_trouble(self, now: float) -> None:
        """Raise why nothing is assigned, when the coordinator has not been reached for long."""
        if self._trouble is not None and not self._owned and now - self._trouble[0] >= TROUBLE_MS:
            error = self._trouble[1]
            raise type(error)(error.message)

    def finish(self, event: GroupEvent, now: float) -> None:
        """The application has been told."""
        if event.kind is EventKind.ASSIGNED:
            for place in event.places:
                if place in self._owned and place not in self._revoking:
                    self._consumer.let_go(place)
        elif event.kind is EventKind.LOST:
            for place in event.places:
                if place not in self._owned:
                    self._consumer.release(place)
        else:
            commit = self._due(event.places, now + COMMIT_MS) if self.settings.auto_commit else None
            if commit is None:
                self._release(event.places, now)
            else:
                commit.then = event
                self._commits.put(commit)
        self._core.changed = True
        self._core.attend()

    def owned(self) -> list[TopicPartition]:
        """By topic and partition; what must be given up is no longer among them."""
        return sorted(place for place in self._owned if place not in self._revoking)

    # ---- offsets ------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None,
        deadline: float,
        left: Mapping[TopicPartition, int] = _NOTHING,
    ) -> CommitRequest:
        """Keep the positions of all that is owned, or these offsets. Raises `InvalidRequest` for a place that is not
        owned and for an offset that nothing was read up to, `UnknownMember` when everything was lost meanwhile.
        """
        if any(event.kind is EventKind.LOST for event in self._events):
            raise errors.UnknownMember(
                f"group {self.settings.group}: this consumer was away too long and lost its partitions"
            )
        wanted: dict[TopicPartition, tuple[bytes, int, int]] = {}
        if offsets is None:
            self._take_passed(left)
            wanted = {
                place: (topic_id, *self._commits.passed[place])
                for place, topic_id in self._owned.items()
                if place in self._commits.passed
            }
        else:
            for place, offset in offsets.items():
                wanted[place] = (*self._checked(place, offset), -1)
        request = CommitRequest(wanted, deadline)
        if wanted:
            self._commits.put(request)
        else:
            request.done = True
        return request

    def _due(self, places: Iterable[TopicPartition], deadline: float) -> CommitRequest | None:
        return self._commits.due({p: self._owned[p] for p in places if p in self._owned}, deadline)

    def ask_committed(self, deadline: float) -> CommittedAnswer:
        """Ask what is committed for all that is owned; tried again until `deadline`."""
        return ask_committed(self._core, self._calls, self.settings.group, dict(self._owned), deadline)

    def _checked(self, place: TopicPartition, offset: int) -> tuple[bytes, int]:
        label, cursor = f"{place[0]}-{place[1]}", self._consumer.cursors.get(place)
        if cursor is None or place not in self._owned:
            raise errors.InvalidRequest(f"commit: {label} is not assigned to this consumer")
        if not 0 <= offset <= max(cursor.offset, cursor.high_watermark):
            raise errors.InvalidRequest(
                f"commit: {label} offset {offset}; 0 to {max(cursor.offset, cursor.high_watermark)} can be committed"
            )
        return self._owned[place], offset

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        if self.gone or not self._started:
            return
        if self._leaving and now >= self._close_at:
            self._is_gone()
            return
        self._look_at_silence(now)
        if self._beat_at <= now and not self._beating:
            self._beat(now)
        if self._adding and not self._fetching and self._fetch_at <= now:
            self._fetch(now)
        if self.settings.auto_commit and self._auto_commit_at <= now:
            self._auto_commit_at = now + self.settings.auto_commit_interval_ms
            if self._auto_commit is None or self._auto_commit.done:
                self._auto_commit = self._due(self._owned, now + COMMIT_MS)
                if self._auto_commit is not None:
                    self._commits.put(self._auto_commit)
        self._commits.step(self.epoch, now)
        self._calls.step(now)

    def next_step_at(self) -> float:
        if self.gone or not self._started:
            return NEVER
        at = min(self._close_at, self._calls.next_step_at(), self._commits.next_step_at())
        if not self._beating:
            at = min(at, self._beat_at)
        if self._adding and not self._fetching:
            at = min(at, self._fetch_at)
        if self.settings.auto_commit:
            at = min(at, self._auto_commit_at)
        if self.epoch > 0 and not self._in_poll and not self._leaving:
            at = min(at, self._polled_at + self.settings.max_poll_interval_ms)
        return at

    def _look_at_silence(self, now: float) -> None:
        """A member that does not poll processes nothing, whatever its heartbeats say (RL93)."""
        silent = now - self._polled_at >= self.settings.max_poll_interval_ms
        if silent and self.epoch > 0 and not self._in_poll and not self._leaving:
            epoch, self._beat_at = self.epoch, NEVER
            self._lose_all(now)
            self._started = False
            self._calls.ask("beat", self._request(LEAVE if epoch else JOIN), now, _ignored, _ignored)
            self._calls.step(now)

    # ---- heartbeats ---------------------------------------------------------------------------------------------

    def _request(self, epoch: int) -> pb.GroupHeartbeatRequest:
        return heartbeat_request(self.settings, self.member_id, epoch, self._consumer.topics, self._owned)

    def _beat(self, now: float) -> None:
        self._beating, line = True, self._line

        def answered(response: bytes, now: float) -> None:
            if line == self._line:
                self._beating = False
                self._heard(pb.GroupHeartbeatResponse.FromString(response), now)

        def failed(error: PenstockError, now: float) -> None:
            if line == self._line:
                self._beating = False
                self._refused(error, now)

        self._calls.ask("beat", self._request(self.epoch), now, answered, failed)

    def _heard(self, answer: pb.GroupHeartbeatResponse, now: float) -> None:
        if answer.error:
            self._refused(refusal(answer.error, answer.message), now)
            return
        self.epoch, self._failures, self._trouble = answer.member_epoch, 0, None
        self._beat_at = now + answer.heartbeat_ms
        names = {topic.topic_id: topic.name for topic in answer.topics}
        assigned = {
            (names[place.topic_id], place.partition): place.topic_id
            for place in answer.assigned
            if place.topic_id in names
        }
        gone = [
            place
            for place, topic_id in self._owned.items()
            if assigned.get(place) != topic_id and place not in self._revoking
        ]
        if gone:
            self._revoke(gone)
        self._adding = {place: topic_id for place, topic_id in assigned.items() if place not in self._owned}
        self._core.attend()

    def _refused(self, error: PenstockError, now: float) -> None:
        self._failures += 1
        self._trouble = (now if self._trouble is None else self._trouble[0], error)
        self._core.attend()
        if error.code in _FENCED:
            self._lose_all(now)
            self._beat_at = now if self._failures < 2 else now + self._backoff.delay_ms(self._failures)
        elif error.code is ErrorCode.NOT_FOUND:
            # The coordinator's broker may not have heard of a topic that others told us of.
            self._core.refresh(now)
            self._beat_at = now + self._backoff.delay_ms(self._failures)
        elif final(error):
            self._lose_all(now)
            self.error, self._beat_at = error, NEVER
            self._core.changed = True
        else:
            self._calls.forget_coordinator()
            self._beat_at = now + self._backoff.delay_ms(self._failures)

    # ---- places -------------------------------------------------------------------------------------------------

    def _revoke(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._revoking[place] = None
            self._consumer.hold(place)
        self._events.append(GroupEvent(EventKind.REVOKED, tuple(sorted(places))))
        self._core.changed = True

    def _release(self, places: Iterable[TopicPartition], now: float) -> None:
        """Given up: the next heartbeat no longer lists them, and comes at once (RL84)."""
        for place in places:
            if place in self._revoking:
                del self._revoking[place]
                del self._owned[place]
                self._commits.forget(place)
                self._consumer.release(place)
                self._beat_at = min(self._beat_at, now)
        self._core.changed = True
        self._core.attend()

    def _lose_all(self, now: float) -> None:
        """Nothing is ours any more: stop handing out at once, and tell so (RL85)."""
        self._line += 1
        self._beating = self._fetching = False
        self.epoch = JOIN
        lost = tuple(sorted(self._owned))
        for place in lost:
            self._consumer.hold(place)
            self._commits.forget(place)
        self._owned.clear()
        self._adding.clear()
        self._revoking.clear()
        self._events = deque(event for event in self._events if event.kind is EventKind.LOST)
        if lost:
            self._events.append(GroupEvent(EventKind.LOST, lost))
        self._commits.fail_all(
            errors.UnknownMember(f"group {self.settings.group}: fenced before the commit"), now
        )
        self._core.changed = True
        self._core.attend()

    def _fetch(self, now: float) -> None:
        """Ask where to go on in what was assigned, as far as the metadata knows it and nothing old is in the way."""
        asked: dict[TopicPartition, bytes] = {}
        for place, topic_id in self._adding.items():
            view = self._core.view.topics.get(place[0])
            known = view is not None and view.topic_id == topic_id and place[1] < len(view.partitions)
            if known and place not in self._consumer.cursors:
                asked[place] = topic_id
        if len(asked) < len(self._adding):
            self._fetch_at = now + 50
            if any(place not in self._consumer.cursors for place in self._adding if place not in asked):
                self._core.refresh(now)
        if not asked:
            return
        self._fetching, line = True, self._line
        request = fetch_request(self.settings.group, asked, self.member_id, self.epoch)

        def answered(response: bytes, now: float) -> None:
            if line != self._line:
                return
            self._fetching = False
            answer = pb.FetchCommittedResponse.FromString(response)
            if answer.error:
                failed(refusal(answer.error, answer.message), now)
            else:
                self._failures = 0
                self._adopt(asked, answer, now)

        def failed(error: PenstockError, now: float) -> None:
            if line != self._line:
                return
            self._fetching = False
            self._failures += 1
            self._fetch_at = now + self._backoff.delay_ms(self._failures)
            if error.code in _FENCED:
                self._beat_at = now
            elif final(error):
                self._refused(error, now)
            else:
                self._calls.forget_coordinator()
            self._core.attend()

        self._calls.ask("fetch", request, now, answered, failed)

    def _adopt(
        self, asked: dict[TopicPartition, bytes], answer: pb.FetchCommittedResponse, now: float
    ) -> None:
        """Begin to read, held back until the application is told."""
        offsets = {(offset.topic_id, offset.partition): offset for offset in answer.offsets}
        topics_read = set(answer.topics_read)
        adopted: list[TopicPartition] = []
        for place, topic_id in asked.items():
            found = offsets.get((topic_id, place[1]))
            if self._adding.get(place) != topic_id or found is None or place in self._consumer.cursors:
                continue
            del self._adding[place]
            if found.offset >= 0:
                self._commits.committed[place] = found.offset
            new = found.offset < 0 and topic_id in topics_read
            self._consumer.adopt(place, found.offset, found.leader_epoch, new=new)
            self._owned[place] = topic_id
            adopted.append(place)
        if adopted:
            self._events.append(GroupEvent(EventKind.ASSIGNED, tuple(sorted(adopted))))
            self._core.changed = True
        self._core.attend()

    def _commit_ended(self, commit: CommitRequest, now: float) -> None:
        if commit.then is not None:
            self._release(commit.then.places, now)
        self._core.attend()
        if self._leaving:
            self._leave_if_committed(now)

    def _commit_fenced(self, now: float) -> None:
        """The coordinator does not know us as we are: the next heartbeat tells more, and comes at once."""
        self._beat_at = now

    # ---- the end ------------------------------------------------------------------------------------------------

    def begin_close(
        self, now: float, *, finished: bool, left: Mapping[TopicPartition, int] = _NOTHING
    ) -> None:
        """Commit and leave; `gone` tells when. `finished`: the application is done with its last poll."""
        if self._leaving or self.gone:
            return
        if finished:
            self._take_passed(left)
        self._leaving, self._close_at, self._beat_at = True, now + CLOSE_MS, NEVER
        self._adding.clear()
        if not self._started or self.epoch <= 0:
            self._is_gone()
            return
        if self.settings.auto_commit:
            commit = self._due(self._owned, self._close_at)
            if commit is not None:
                self._commits.put(commit)
        self._leave_if_committed(now)
        self._core.attend()

    def _leave_if_committed(self, now: float) -> None:
        if self._commits.under_way or self.gone:
            return
        if self.settings.instance_id:
            self._is_gone()  # it comes back, and keeps its places for as long as its session lasts
            return

        def over(what: object, now: float) -> None:
            self._is_gone()

        self._line += 1
        self._calls.ask("beat", self._request(LEAVE), now, over, over)
        self._core.attend()

    def _is_gone(self) -> None:
        self.gone = self._core.changed = True

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._line += 1
        self._calls.close()
        self._commits.abandon(errors.Closed("consumer: closed"))
        self._is_gone()


def _ignored(what: object, now: float) -> None:
    """Nothing depends on it."""
