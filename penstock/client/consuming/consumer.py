"""What one consumer decides: which partitions to open where, which pushes count, where each position stands.

Rules: RL20, RL56, RL57.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from penstock.client.call_arguments import named_partition, topic_name
from penstock.client.cluster_view import NO_LEADER, TopicView
from penstock.client.consuming.fetch_position import (
    FetchedBatch,
    FetchPosition,
    PositionState,
)
from penstock.client.consuming.fetch_stream import FetchStream
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.nearest import NearestReplica
from penstock.client.consuming.offset_lookups import OffsetLookups
from penstock.client.consuming.polling import BeforePoll
from penstock.client.consuming.readable import ReadablePositions
from penstock.client.consuming.skipping import Skipping
from penstock.client.groups.member import GroupMember
from penstock.client.ports import Network
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.client.settings import ConsumerSettings
from penstock.client.telling import warn
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.ids import NamedPartition
from penstock.contract.methods import BEGINNING, END
from penstock.contract.v1 import log_pb2

CREDIT_LATEST_MS = 1_000
"""Consumed bytes are reported to the broker at least this often, however few: they count what was delivered."""
_log = logging.getLogger("penstock")


class ConsumerCore:
    """State machine of one consumer. All methods are called under the client's lock.

    Batches are taken with `next_fetched`, decoded by the caller outside the lock, and given back with
    `finished`.
    """

    def __init__(
        self, core: Network, topics: tuple[str, ...], settings: ConsumerSettings, random: Random
    ) -> None:
        self.settings = settings
        self._core = core
        self._topics = topics
        self._assigned: dict[NamedPartition, None] | None = None if settings.group is None else {}
        self._backoff = Backoff(50, 1_000, random)
        self._lookups = OffsetLookups(core, random)
        self._handles = 0
        self.positions: dict[NamedPartition, FetchPosition] = {}
        self._known: dict[str, None] = {}
        self._fetcher = Fetcher(core, self, settings, self._backoff)
        self._nearest = NearestReplica(settings.zone)
        self._readable = ReadablePositions()
        self._before_poll = BeforePoll()
        self.skipping = Skipping(settings, self._fetcher, self._readable, self._before_poll)
        self._paused: dict[NamedPartition, None] = {}
        """What the application paused and has not resumed, read here or not."""
        self.stopped = False
        """The application wants no more messages; a member stays one until it is closed."""
        self.closed = False
        self.member = None if settings.group is None else GroupMember(core, self, settings.group, random)
        self.skipping.member = self.member

    # ---- what is read -------------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    def __str__(self) -> str:
        group = self.settings.group
        state = ", closed" if self.closed else ", stopped" if self.stopped else ""
        return f"{', '.join(self._topics) or 'nothing'}{'' if group is None else f' in group {group.group}'}{state}"

    def assign(self, partitions: Sequence[NamedPartition]) -> None:
        """Read exactly these partitions from now on. Positions of those read before are kept."""
        if self.member is not None:
            raise errors.ConfigurationError("assign: a member of a group reads what the group assigns to it")
        self._assigned = dict.fromkeys(partitions)
        self._topics = tuple(dict.fromkeys(topic for topic, _ in partitions))
        for tp, position in list(self.positions.items()):
            if tp not in self._assigned:
                self._leave(position)
                del self.positions[tp]
        for name in list(self._known):
            del self._known[name]
            if name not in self._topics:
                self._core.forget_topic(name, self)
        self._core.attend()

    def prepare(self) -> str | None:
        """Begin a poll: learn the partitions of all topics; the name of one not known yet, None when all are.

        Raises what the brokers said of a topic, and `NotFound` for an assigned partition that does not exist.
        """
        self._before_poll.clear()
        if not self._topics and self._assigned is None:
            raise errors.ConfigurationError(
                "consumer: it has no topics; give the names to `consumer`, or (topic, partition) pairs to `assign`"
            )
        for name in self._topics:
            if name in self._known:
                continue
            view = self._core.watch_topic(name, self)
            if view is None:
                return name
            if view.error is not None:
                error = view.error
                self._core.forget_topic(name, self)
                raise error
            if not view.partitions:
                return name
            self._check_assigned(view)
            self._known[name] = None
            # An assignment keeps positions; their leaders may have moved since then.
            self._follow_leaders(view, self._positions_in(name))
            self._grow(view, self._initial_target())
        return None

    def _check_assigned(self, view: TopicView) -> None:
        for topic, partition in self._assigned or ():
            if topic == view.name and not 0 <= partition < len(view.partitions):
                raise errors.NotFound(
                    f"{topic}: no partition {partition}; it has {len(view.partitions)}, 0 to {len(view.partitions) - 1}"
                )

    def _initial_target(self) -> int | None:
        return {"earliest": BEGINNING, "latest": END, "error": None}[self.settings.auto_offset_reset]

    def _grow(self, view: TopicView, target: int | None) -> None:
        for number in range(len(view.partitions)):
            tp = (view.name, number)
            if tp in self.positions or (self._assigned is not None and tp not in self._assigned):
                continue
            self._handles += 1
            position = FetchPosition(view.name, view.topic_id, number, self._handles)
            position.paused = tp in self._paused
            self._follow(view, position)
            self.positions[tp] = position
            self._start(position, target)
        self._core.attend()

    def _start(self, position: FetchPosition, target: int | None) -> None:
        position.look_up(target)
        if target is None:
            position.halt(
                errors.OffsetOutOfRange(
                    f"{position.label}: no position to begin at and auto_offset_reset is 'error'; seek first"
                )
            )

    def _leave(self, position: FetchPosition) -> None:
        position.move_to(0)
        position.state = PositionState.HALTED
        self._fetcher.close_partition(position)

    def topic_changed(self, view: TopicView, now: float) -> None:
        """The view of a topic that this consumer reads moved."""
        self._core.changed = True
        if view.name not in self._known:
            return
        positions = self._positions_in(view.name)
        error = view.error
        if error is None and any(position.topic_id != view.topic_id for position in positions):
            error = _created_again(view.name)
        if error is not None:
            for position in positions:
                self._fetcher.close_partition(position)
                position.halt(error)
            return
        self._follow_leaders(view, positions)
        self._grow(view, BEGINNING)
        self._core.attend()

    def _positions_in(self, topic: str) -> list[FetchPosition]:
        return [position for (name, _), position in self.positions.items() if name == topic]

    def _follow_leaders(self, view: TopicView, positions: Iterable[FetchPosition]) -> None:
        for position in positions:
            # Of a topic that is gone: it is halted when a broker says so.
            if position.topic_id == view.topic_id and self._follow(view, position):
                self._fetcher.close_partition(position)

    def _follow(self, view: TopicView, position: FetchPosition) -> bool:
        partition = view.partitions[position.partition]
        return position.follow(partition, self._nearest.of(self._core.view, position.partition, partition))

    def assignment(self) -> list[NamedPartition]:
        """What is read, in order."""
        return sorted(self.positions) if self.member is None else self.member.owned()

    # ---- what a group assigns -----------------------------------------------------------------------------------

    def add_partition(self, tp: NamedPartition, offset: int, epoch: int, *, new: bool) -> None:
        """Read this partition as well, from `offset` (-1 = nothing was committed); held back until `deliver_partition`.
        `new`: to a group that reads the topic already, so from its beginning (RL57).
        """
        view = self._core.view.topics[tp[0]]
        self._handles += 1
        position = FetchPosition(view.name, view.topic_id, tp[1], self._handles)
        position.paused = tp in self._paused
        self._follow(view, position)
        position.withheld = True
        self.positions[tp] = position
        if self._assigned is not None:
            self._assigned[tp] = None
        if offset >= 0:
            position.move_to(offset, epoch)
        else:
            self._start(position, BEGINNING if new else self._initial_target())
        self._core.attend()

    def deliver_partition(self, tp: NamedPartition) -> None:
        """Hand it out."""
        position = self.positions.get(tp)
        if position is not None:
            position.withheld = False
            self._readable.add(position)

    def hold_partition(self, tp: NamedPartition) -> None:
        """`poll` returns no more of it, and no more is fetched."""
        position = self.positions.get(tp)
        if position is not None:
            position.withheld = True
            self._fetcher.close_partition(position)
            position.state = PositionState.HALTED

    def remove_partition(self, tp: NamedPartition) -> None:
        """Read it no more."""
        position = self.positions.pop(tp, None)
        if position is not None:
            self._leave(position)
        if self._assigned is not None:
            self._assigned.pop(tp, None)

    # ---- positions ----------------------------------------------------------------------------------------------

    def position(self, topic: str, partition: int) -> FetchPosition:
        """Raises `NotFound` when this consumer does not read that partition."""
        position = self.positions.get(named_partition(topic, partition))
        if position is None:
            raise errors.NotFound(f"{topic}-{partition}: not read by this consumer; assign it first")
        return position

    def positions_of(self, topic: str) -> list[FetchPosition]:
        """All of one topic, by partition. Raises `NotFound` when this consumer reads none of it."""
        topic = topic_name(topic)
        found = [position for position in self.positions.values() if position.topic == topic]
        if not found:
            raise errors.NotFound(f"{topic}: not read by this consumer; assign it first")
        return sorted(found, key=lambda position: position.partition)

    def seek(
        self, position: FetchPosition, *, offset: int | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Move the position: to an offset, or to what a lookup of a time (or `BEGINNING`, `END`) will say."""
        self._fetcher.close_partition(position)
        if offset is not None:
            position.skip_before_ms = None
            position.move_to(offset)
            position.sought = True
        else:
            position.look_up(timestamp_ms)
        self._core.attend()

    def list_offsets(
        self, partitions: Iterable[NamedPartition], timestamp_ms: int, deadline: float
    ) -> tuple[dict[NamedPartition, int], list[PenstockError]]:
        """Ask for an offset of each partition; the mapping fills and the list gets errors as answers come
        (`changed`).
        """
        return self._lookups.look_up_all(partitions, timestamp_ms, deadline)

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        if self.member is not None:
            self.member.step(now)
        shares = Counter(position.source for position in self.positions.values())
        for position in self.positions.values():
            if position.leader_until:
                self._fetcher.nearer_again(position, now)
            if position.state is PositionState.AWAITING_OFFSET and not position.lookup_sent:
                self._lookups.look_up(position)
            elif position.state is PositionState.READY and position.retry_at <= now:
                self._fetcher.open_partition(position, shares[position.source], now)
            elif position.credit_due_at <= now and position.broker != NO_LEADER:
                self._fetcher.give_credit(position)
                position.credit_due_at = NEVER
        self._lookups.step(now)
        self._fetcher.step(now)

    def next_step_at(self) -> float:
        at = min(self._lookups.next_step_at(), self._fetcher.next_step_at())
        if self.member is not None:
            at = min(at, self.member.next_step_at())
        for position in self.positions.values():
            if position.state is PositionState.READY and position.leader != NO_LEADER:
                at = min(at, self._fetcher.may_open_at(position))
            at = min(at, position.credit_due_at)
            if position.leader_until:
                at = min(at, position.leader_until)
        return at

    def next_outgoing(self, token: int, now: float) -> tuple[bytes | None, float]:
        """The next frame for a stream, or None: only events bring one."""
        stream = self._fetcher.of(token)
        return (stream.next_frame() if stream is not None else None), NEVER

    # ---- what brokers say ---------------------------------------------------------------------------------------

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """Pushes; those of an earlier generation are dropped. Raises `FrameError`, or is dropped with the
        stream.
        """
        stream = self._fetcher.of(token)
        if stream is None:
            return
        kind, head_bytes, payload = unpack_frame(frame)
        try:
            if kind is not FrameKind.CONSUME_PUSH:
                raise errors.CorruptBatch(f"frame kind {kind.name} came on a consume stream")
            head = log_pb2.ConsumePushHead.FromString(bytes(head_bytes))
            stream.last_heard, stream.probed, stream.failures = now, False, 0
            start = 0
            for push in head.pushes:
                part = payload[start : start + push.size]
                start += push.size
                position = stream.positions.get(push.handle)
                if position is not None and position.generation == push.generation:
                    self._pushed(stream, position, push, part, now)
        except errors.CorruptBatch as error:
            self._core.close_stream(token)
            self.stream_lost(token, None, error.message, now)

    def _pushed(
        self,
        stream: FetchStream,
        position: FetchPosition,
        push: log_pb2.ConsumePush,
        part: memoryview,
        now: float,
    ) -> None:
        if push.error:
            self._refused(stream, position, push, now)
            return
        position.high_watermark = max(position.high_watermark, push.high_watermark)
        if not position.from_follower:
            position.log_start_offset = push.log_start_offset
        position.failures = 0
        if not part:
            return
        position.turned_away = 0
        position.add_fetched(part)
        self._readable.add(position)
        self._core.changed = True

    def _refused(
        self, stream: FetchStream, position: FetchPosition, push: log_pb2.ConsumePush, now: float
    ) -> None:
        """The broker has closed the handle. Whatever a follower refuses is for the leader to decide."""
        stream.forget(position)
        if position.from_follower:
            position.broker, position.state = NO_LEADER, PositionState.READY
            position.back_to_leader(now)
            self._core.refresh(now)
            self._core.attend()
            return
        position.broker = NO_LEADER
        position.state = PositionState.READY
        error = refusal(push.error, push.message)
        if isinstance(error, errors.OffsetOutOfRange):
            error.beyond_end = push.beyond_end
            position.halt(error)
            if position.part is None and not position.buffer:
                self._reset_out_of_range(position)
        elif final(error) and not metadata_may_be_newer(error):
            if isinstance(error, errors.LogTruncated):
                error.divergence_offset = push.divergence_offset
                error.message = f"{error.message}; the logs part at offset {push.divergence_offset}"
                error.args = (error.message,)
            position.halt(error)
        elif error.code is ErrorCode.NOT_FOUND and self._is_created_again(position):
            # No change of the metadata comes any more that would say so.
            position.halt(_created_again(position.topic))
        else:
            position.failures += 1
            position.retry_at = now + self._backoff.delay_ms(position.failures)
            if metadata_may_be_newer(error):
                self._core.refresh(now)
        self._core.changed = True
        self._core.attend()

    def _is_created_again(self, position: FetchPosition) -> bool:
        """The name of its topic is that of another topic now."""
        view = self._core.view.topics.get(position.topic)
        return view is not None and view.error is None and view.topic_id != position.topic_id

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """Open every partition of it again, at its leader of then; what was fetched stays."""
        self._fetcher.stream_lost(token, code, message, now)

    # ---- reading ------------------------------------------------------------------------------------------------

    def next_fetched(self) -> FetchedBatch | None:
        """The next batch to read, of each partition in turn; its `position.part` may hold what is left of it."""
        while (position := self._readable.next(stays=self._before_poll.begun)) is not None:
            self._before_poll.note(position)
            if position.part is None or position.partly_read is None:
                return position.take_first()
            if position.partly_read.seek_epoch == position.seek_epoch:
                return position.partly_read
            # The position was moved while a poll decoded the batch, outside the lock.
            position.part = position.partly_read = None
        return None

    def has_readable(self) -> bool:
        """Whether `next_fetched` would give something."""
        return self._readable.has_some()

    def give_back(self) -> None:
        """A poll was interrupted and returned nothing: what it took is read again."""
        for position in self._before_poll.unmoved():
            if self.positions.get((position.topic, position.partition)) is position:
                self._fetcher.close_partition(position)
                self._before_poll.restore(position)
        self._core.attend()

    def finished(self, fetched: FetchedBatch, now: float) -> None:
        """A batch was read whole: the position is behind it, and the broker may push as many bytes again."""
        position = fetched.position
        if fetched.seek_epoch != position.seek_epoch:
            return
        position.part = position.partly_read = None
        position.offset, position.epoch = max(position.offset, fetched.next_offset), fetched.epoch
        if (
            fetched.generation == position.generation
            and position.state is PositionState.OPEN
            and position.broker != NO_LEADER
        ):
            position.credit_owed += len(fetched.batch)
            if position.credit_owed * 4 >= position.window:
                self._fetcher.give_credit(position)
            elif position.credit_due_at == NEVER:
                position.credit_due_at = now + CREDIT_LATEST_MS
                self._core.attend_at(position.credit_due_at)

    def skip(self, fetched: FetchedBatch, now: float) -> None:
        """The application heard of a malformed batch: the position moves behind it, unless it was moved meanwhile."""
        if self.skipping.skip(fetched, now):
            self.finished(fetched, now)
            self.skipping.skipped(fetched.position, now)

    def raise_halted(self) -> None:
        """Raise the error of a partition that stands still and has nothing left to read."""
        for position in self.positions.values():
            error = position.stopped_by
            if (
                error is None
                or position.paused
                or position.withheld
                or position.buffer
                or position.part is not None
            ):
                continue
            if not self._reset_out_of_range(position):
                raise error
            self._core.attend()

    def _reset_out_of_range(self, position: FetchPosition) -> bool:
        """Whether `auto_offset_reset` says where to go on. It says nothing of an offset beyond the end that the
        application named itself: all messages would be read again, or some missed, by a mistake of one number.
        """
        error, reset = position.error, self.settings.auto_offset_reset
        if not isinstance(error, errors.OffsetOutOfRange) or not position.has_offset or reset == "error":
            return False
        if position.sought and error.beyond_end:
            return False
        position.look_up(self._initial_target())
        warn(_log, "penstock: %s; reading goes on at the %s offset (auto_offset_reset)", error.message, reset)
        return True

    def pause(self, position: FetchPosition) -> None:
        """`poll` returns nothing of it until `resume`, also where it went to another member and came back; fetched
        batches wait, and no more than its window comes.
        """
        position.paused = True
        self._paused[position.topic, position.partition] = None

    def resume(self, topic: str, partition: int | None) -> None:
        """All of the topic if `partition` is None. Raises `NotFound` for what is neither read here nor paused."""
        paused = [tp for tp in self._paused if tp[0] == topic and partition in (None, tp[1])]
        if not paused and partition is None:
            self.positions_of(topic)
        elif not paused and partition is not None:
            self.position(topic, partition)
        for tp in paused:
            del self._paused[tp]
            position = self.positions.get(tp)
            if position is not None:
                position.paused = False
                self._readable.add(position)
        self._core.changed = True

    def close(self, now: float) -> None:
        """End every stream; the bytes consumed last are still reported where the stream allows it."""
        self.closed = True
        if self.member is not None:
            self.member.abandon()
        self._fetcher.close()
        for name in self._topics:
            self._core.forget_topic(name, self)
        self.positions.clear()
        self._readable.clear()


def _created_again(topic: str) -> errors.NotFound:
    return errors.NotFound(f"{topic}: was deleted and created again; open another consumer for the new topic")
