"""What one consumer decides: which partitions to open where, which pushes count, where each position stands.

Rules: RL20, RL56, RL57.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from random import Random

from penstock.client.cluster_view import NO_LEADER, TopicPartition, TopicView
from penstock.client.consuming.fetch_position import BEGINNING, END, Chunk, Cursor, CursorState
from penstock.client.consuming.fetch_stream import FetchLane
from penstock.client.consuming.fetcher import FetchLanes
from penstock.client.consuming.malformed import SkipLog, skipped_batch
from penstock.client.consuming.offset_lookups import OffsetQuestion, OffsetQuestions
from penstock.client.groups.member import GroupMember
from penstock.client.ports import Network
from penstock.client.refusals import final, metadata_may_be_newer, refusal
from penstock.client.settings import ConsumerSettings
from penstock.client.timing import NEVER, Backoff
from penstock.contract import errors
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameKind, unpack_frame
from penstock.contract.v1 import log_pb2

CREDIT_LATEST_MS = 1_000
"""Consumed bytes are told to the broker at least this often, however few: what was delivered is counted by
them.
"""


class ConsumerCore:
    """State machine of one consumer. All methods are called under the client's lock.

    Batches are taken with `take_chunk`, decoded by the caller outside the lock, and given back with
    `finished`.
    """

    def __init__(
        self, core: Network, topics: tuple[str, ...], settings: ConsumerSettings, random: Random
    ) -> None:
        self.settings = settings
        self._core = core
        self._topics = topics
        self._assigned: dict[TopicPartition, None] | None = None if settings.group is None else {}
        self._backoff = Backoff(50, 1_000, random)
        self._questions = OffsetQuestions(core, random)
        self._handles = 0
        self.cursors: dict[TopicPartition, Cursor] = {}
        self._known: dict[str, None] = {}
        self._lanes = FetchLanes(core, self, settings, self._backoff)
        self._filled: deque[Cursor] = deque()
        self.skips = SkipLog()
        self.closed = False
        self.member = None if settings.group is None else GroupMember(core, self, settings.group, random)

    # ---- what is read -------------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[str, ...]:
        return self._topics

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read exactly these partitions from now on. Positions of those read before are kept."""
        if self.member is not None:
            raise errors.ConfigurationError("assign: a member of a group reads what the group assigns to it")
        self._assigned = dict.fromkeys(places)
        self._topics = tuple(dict.fromkeys(topic for topic, _ in places))
        for place, cursor in list(self.cursors.items()):
            if place not in self._assigned:
                self._leave(cursor)
                del self.cursors[place]
        for name in list(self._known):
            del self._known[name]
            if name not in self._topics:
                self._core.forget_topic(name, self)
        self._core.attend()

    def prepare(self) -> str | None:
        """Learn the partitions of all topics; the name of one that is not known yet, or None when all are.

        Raises what the brokers said of a topic, and `NotFound` for an assigned partition that does not exist.
        """
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
        for number, partition in enumerate(view.partitions):
            place = (view.name, number)
            if place in self.cursors or (self._assigned is not None and place not in self._assigned):
                continue
            self._handles += 1
            cursor = Cursor(view.name, view.topic_id, number, self._handles)
            cursor.leader, cursor.leader_epoch = partition.leader, partition.leader_epoch
            self.cursors[place] = cursor
            self._start(cursor, target)
        self._core.attend()

    def _start(self, cursor: Cursor, target: int | None) -> None:
        cursor.jump(target)
        if target is None:
            cursor.halt(
                errors.OffsetOutOfRange(
                    f"{cursor.label}: no position to begin at and auto_offset_reset is 'error'; seek first"
                )
            )

    def _leave(self, cursor: Cursor) -> None:
        cursor.place(0)
        cursor.state = CursorState.HALTED
        self._lanes.close_cursor(cursor)

    def topic_changed(self, view: TopicView, now: float) -> None:
        """The view of a topic that this consumer reads moved."""
        self._core.changed = True
        if view.name not in self._known:
            return
        cursors = [cursor for (topic, _), cursor in self.cursors.items() if topic == view.name]
        error = view.error
        if error is None and any(cursor.topic_id != view.topic_id for cursor in cursors):
            error = errors.NotFound(
                f"{view.name}: was deleted and created anew; open another consumer for the new topic"
            )
        if error is not None:
            for cursor in cursors:
                self._lanes.close_cursor(cursor)
                cursor.halt(error)
            return
        for cursor in cursors:
            partition = view.partitions[cursor.partition]
            if (cursor.leader, cursor.leader_epoch) != (partition.leader, partition.leader_epoch):
                cursor.leader, cursor.leader_epoch = partition.leader, partition.leader_epoch
                if cursor.state is CursorState.OPEN:
                    self._lanes.close_cursor(cursor)
                cursor.retry_at, cursor.failures = now, 0
        self._grow(view, BEGINNING)
        self._core.attend()

    def assignment(self) -> list[TopicPartition]:
        """What is read, in order."""
        return sorted(self.cursors) if self.member is None else self.member.owned()

    # ---- what a group assigns -----------------------------------------------------------------------------------

    def adopt(self, place: TopicPartition, offset: int, epoch: int, *, new: bool) -> None:
        """Read this partition as well, from `offset` (-1 = nothing was committed); held back until `let_go`.
        `new`: to a group that reads the topic already, so from its beginning (RL57).
        """
        view = self._core.view.topics[place[0]]
        partition = view.partitions[place[1]]
        self._handles += 1
        cursor = Cursor(view.name, view.topic_id, place[1], self._handles)
        cursor.leader, cursor.leader_epoch, cursor.held = partition.leader, partition.leader_epoch, True
        self.cursors[place] = cursor
        if self._assigned is not None:
            self._assigned[place] = None
        if offset >= 0:
            cursor.place(offset, epoch)
        else:
            self._start(cursor, BEGINNING if new else self._initial_target())
        self._core.attend()

    def let_go(self, place: TopicPartition) -> None:
        """Hand it out."""
        cursor = self.cursors.get(place)
        if cursor is not None:
            cursor.held = False
            self._fill(cursor)

    def hold(self, place: TopicPartition) -> None:
        """Hand out nothing more of it, and fetch no more."""
        cursor = self.cursors.get(place)
        if cursor is not None:
            cursor.held = True
            self._lanes.close_cursor(cursor)
            cursor.state = CursorState.HALTED

    def release(self, place: TopicPartition) -> None:
        """Read it no more."""
        cursor = self.cursors.pop(place, None)
        if cursor is not None:
            self._leave(cursor)
        if self._assigned is not None:
            self._assigned.pop(place, None)

    # ---- positions ----------------------------------------------------------------------------------------------

    def cursor(self, topic: str, partition: int) -> Cursor:
        """Raises `NotFound` when this consumer does not read that partition."""
        cursor = self.cursors.get((topic, partition))
        if cursor is None:
            raise errors.NotFound(f"{topic}-{partition}: not read by this consumer; assign it first")
        return cursor

    def cursors_of(self, topic: str) -> list[Cursor]:
        """All of one topic, by partition. Raises `NotFound` when this consumer reads none of it."""
        found = [cursor for cursor in self.cursors.values() if cursor.topic == topic]
        if not found:
            raise errors.NotFound(f"{topic}: not read by this consumer; assign it first")
        return sorted(found, key=lambda cursor: cursor.partition)

    def seek(self, cursor: Cursor, *, offset: int | None = None, timestamp_ms: int | None = None) -> None:
        """Move the position: to an offset, or to what a lookup of a time (or `BEGINNING`, `END`) will say."""
        self._lanes.close_cursor(cursor)
        if offset is not None:
            cursor.skip_before_ms = None
            cursor.place(offset)
        else:
            cursor.jump(timestamp_ms)
        self._core.attend()

    def list_offsets(
        self, places: Iterable[TopicPartition], timestamp_ms: int, deadline: float
    ) -> tuple[dict[TopicPartition, int], list[PenstockError]]:
        """Ask for an offset of each place; the mapping fills and the list gets errors as answers come
        (`changed`).
        """
        return self._questions.ask_all(places, timestamp_ms, deadline)

    # ---- driving ------------------------------------------------------------------------------------------------

    def step(self, now: float) -> None:
        if self.member is not None:
            self.member.step(now)
        shares = Counter(cursor.leader for cursor in self.cursors.values())
        for cursor in self.cursors.values():
            if cursor.state is CursorState.UNPLACED and not cursor.asked:
                self._look_up(cursor)
            elif cursor.state is CursorState.PLACED and cursor.retry_at <= now:
                self._lanes.open_cursor(cursor, shares[cursor.leader], now)
            elif cursor.credit_due_at <= now and cursor.broker != NO_LEADER:
                self._lanes.give_credit(cursor)
                cursor.credit_due_at = NEVER
        self._questions.step(now)
        self._lanes.step(now)

    def next_step_at(self) -> float:
        at = min(self._questions.next_step_at(), self._lanes.next_step_at())
        if self.member is not None:
            at = min(at, self.member.next_step_at())
        for cursor in self.cursors.values():
            if cursor.state is CursorState.PLACED and cursor.leader != NO_LEADER:
                at = min(at, self._lanes.may_open_at(cursor))
            at = min(at, cursor.credit_due_at)
        return at

    def _look_up(self, cursor: Cursor) -> None:
        line, target = cursor.line, cursor.target
        cursor.asked = True
        if target is None:
            return

        def placed(offset: int, now: float) -> None:
            if cursor.line == line:
                cursor.place(offset)
                self._core.changed = True
                self._core.attend()

        def failed(error: PenstockError, now: float) -> None:
            if cursor.line == line:
                cursor.halt(error)
                self._core.changed = True

        self._questions.ask(OffsetQuestion(cursor.topic, cursor.partition, target, NEVER, placed, failed))

    def next_outgoing(self, token: int, now: float) -> tuple[bytes | None, float]:
        """The next frame for a stream, or None: only events bring one."""
        lane = self._lanes.of(token)
        return (lane.next_frame() if lane is not None else None), NEVER

    # ---- what brokers say ---------------------------------------------------------------------------------------

    def frame_received(self, token: int, frame: bytes, now: float) -> None:
        """Pushes; those of an earlier generation are dropped. Raises `FrameError`, or is dropped with the
        stream.
        """
        lane = self._lanes.of(token)
        if lane is None:
            return
        kind, head_bytes, payload = unpack_frame(frame)
        try:
            if kind is not FrameKind.CONSUME_PUSH:
                raise errors.CorruptBatch(f"frame kind {kind.name} came on a consume stream")
            head = log_pb2.ConsumePushHead.FromString(bytes(head_bytes))
            lane.last_heard, lane.probed, lane.failures = now, False, 0
            position = 0
            for push in head.pushes:
                part = payload[position : position + push.size]
                position += push.size
                cursor = lane.cursors.get(push.handle)
                if cursor is not None and cursor.generation == push.generation:
                    self._pushed(lane, cursor, push, part, now)
        except errors.CorruptBatch as error:
            self._core.close_stream(token)
            self.stream_lost(token, None, error.message, now)

    def _pushed(
        self, lane: FetchLane, cursor: Cursor, push: log_pb2.ConsumePush, part: memoryview, now: float
    ) -> None:
        if push.error:
            self._refused(lane, cursor, push, now)
            return
        cursor.high_watermark = max(cursor.high_watermark, push.high_watermark)
        cursor.log_start_offset = push.log_start_offset
        cursor.failures = 0
        if not part:
            return
        cursor.take_in(part)
        self._fill(cursor)
        self._core.changed = True

    def _fill(self, cursor: Cursor) -> None:
        if not cursor.filled and cursor.readable:
            cursor.filled = True
            self._filled.append(cursor)

    def _refused(self, lane: FetchLane, cursor: Cursor, push: log_pb2.ConsumePush, now: float) -> None:
        """The broker has closed the handle."""
        lane.forget(cursor)
        cursor.broker = NO_LEADER
        cursor.state = CursorState.PLACED
        error = refusal(push.error, push.message)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and self.settings.auto_offset_reset != "error":
            if not cursor.readable and not cursor.buffer:
                cursor.jump(self._initial_target())
            else:
                cursor.halt(error)
        elif final(error) and not metadata_may_be_newer(error):
            if isinstance(error, errors.LogTruncated):
                error.divergence_offset = push.divergence_offset
                error.message = f"{error.message}; the logs part at offset {push.divergence_offset}"
                error.args = (error.message,)
            cursor.halt(error)
        else:
            cursor.failures += 1
            cursor.retry_at = now + self._backoff.delay_ms(cursor.failures)
            if metadata_may_be_newer(error):
                self._core.refresh(now)
        self._core.changed = True
        self._core.attend()

    def stream_lost(self, token: int, code: int | None, message: str, now: float) -> None:
        """Every partition open on it is opened anew, where its leader is by then; what was fetched stays."""
        self._lanes.lost(token, code, message, now)

    # ---- handing out --------------------------------------------------------------------------------------------

    def take_chunk(self) -> Chunk | None:
        """The next batch to hand out, of each partition in turn; its `cursor.part` may hold what is left of it."""
        while self._filled:
            cursor = self._filled[0]
            if not cursor.readable:
                self._filled.popleft()
                cursor.filled = False
                continue
            self._filled.rotate(-1)
            if cursor.part is not None and cursor.part_of is not None:
                return cursor.part_of
            return cursor.take_first()
        return None

    def has_readable(self) -> bool:
        """Whether `take_chunk` would give something."""
        return any(cursor.readable for cursor in self._filled)

    def finished(self, chunk: Chunk, now: float) -> None:
        """A batch was handed out whole: the position is behind it, and its bytes may be pushed anew."""
        cursor = chunk.cursor
        if chunk.line != cursor.line:
            return
        cursor.part = cursor.part_of = None
        cursor.offset, cursor.epoch = max(cursor.offset, chunk.next_offset), chunk.epoch
        if (
            chunk.generation == cursor.generation
            and cursor.state is CursorState.OPEN
            and cursor.broker != NO_LEADER
        ):
            cursor.credit_owed += len(chunk.batch)
            if cursor.credit_owed * 4 >= cursor.window:
                self._lanes.give_credit(cursor)
            elif cursor.credit_due_at == NEVER:
                cursor.credit_due_at = now + CREDIT_LATEST_MS
                self._core.attend_at(cursor.credit_due_at)

    def malformed(self, chunk: Chunk, reason: str) -> None:
        """A batch is intact and its records are not what its header says: it waits for `skip`, in front of all else of
        its partition, or the partition stops before it, as the settings say.
        """
        cursor = chunk.cursor
        if chunk.line != cursor.line:
            return
        if self.settings.malformed == "stop":
            advice = f"seek to offset {chunk.next_offset} to go on behind it"
            self.unreadable(chunk, errors.MalformedBatch(f"{reason}; {advice}"))
            return
        chunk.malformed = reason
        cursor.put_back(chunk)
        self._fill(cursor)

    def skip(self, chunk: Chunk, now: float) -> None:
        """The application was told, and the position moves behind the batch, unless it was moved meanwhile."""
        cursor = chunk.cursor
        if not cursor.begins_with(chunk):
            return
        cursor.take_first()
        self.finished(chunk, now)
        self.skips.note(skipped_batch(chunk), now)
        if self.member is not None:
            # Nothing was handed out since the application came for more: what was skipped may be committed.
            self.member.poll_begins(now)

    def unreadable(self, chunk: Chunk, error: PenstockError) -> None:
        """A batch did not pass its checks: it is never handed out, and the partition stops before it (I19)."""
        cursor = chunk.cursor
        if chunk.line == cursor.line:
            self._lanes.close_cursor(cursor)
            offset, epoch = cursor.offset, cursor.epoch
            cursor.place(offset, epoch)
            cursor.halt(type(error)(f"{cursor.label}: at offset {offset}: {error.message}"))

    def raise_halted(self) -> None:
        """Raise the error of a partition that stands still and has nothing left to hand out."""
        for cursor in self.cursors.values():
            error = cursor.error
            if error is None or cursor.paused or cursor.held or cursor.buffer or cursor.part is not None:
                continue
            lost_place = isinstance(error, errors.OffsetOutOfRange) and cursor.positioned
            if lost_place and self.settings.auto_offset_reset != "error":
                cursor.jump(self._initial_target())
                self._core.attend()
            else:
                raise error

    def pause(self, cursor: Cursor) -> None:
        """Hand out nothing of it until `resume`; what was fetched waits, and no more than its window comes."""
        cursor.paused = True

    def resume(self, cursor: Cursor) -> None:
        cursor.paused = False
        self._fill(cursor)
        self._core.changed = True

    def close(self, now: float) -> None:
        """End every stream; the bytes consumed last are still told where the stream allows it."""
        self.closed = True
        if self.member is not None:
            self.member.abandon()
        self._lanes.close()
        for name in self._topics:
            self._core.forget_topic(name, self)
        self.cursors.clear()
        self._filled.clear()
