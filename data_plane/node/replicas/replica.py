"""One partition's copy on this broker: its log, its role, and who waits for it.

A replica is idle, leads, or follows. Everything here runs between awaits of the one event loop: a check and the
write it allows are never parted (RL11, RL134). The operations that need an await (a truncation, starting over, moving
the log's start) mark the replica busy; a change of role waits until they are done.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from data_plane.log.outcomes import Duplicate
from data_plane.log.partition_log import PartitionLog
from data_plane.metadata.model import PartitionRecord, TopicRecord
from data_plane.node.ports import Clock
from data_plane.node.replicas.loads import PartitionLoads
from data_plane.node.replicas.produce_answers import Answer, ProduceAnswers, ProduceOutcome
from data_plane.node.stats import NodeStats
from data_plane.replication import health
from data_plane.replication.acknowledgement import answered_when
from data_plane.replication.effects import Look
from data_plane.replication.follower import follower_watermark
from data_plane.replication.health import Health, ReadOnly, Sound, Standing
from data_plane.replication.leader import LeaderState
from data_plane.replication.opening import NO_EPOCH
from data_plane.throttling.queues import PartitionQueue
from penstock.contract import errors
from penstock.contract.ids import BrokerId, TopicPartition
from penstock.contract.topic_settings import Durability
from penstock.records.batch import BatchHeader
from penstock.records.stamp import STAMP_BYTES

Listener = Callable[["Replica"], None]
LookAtInSync = Callable[["Replica", Look], None]


class Following(NamedTuple):
    """Whom this replica follows, and in which leader epoch."""

    leader: BrokerId
    leader_epoch: int


class Replica:
    """See the module. The listeners of `on_append` and its kin are keyed by their owner and run synchronously."""

    def __init__(
        self,
        where: TopicPartition,
        topic: TopicRecord,
        log: PartitionLog,
        *,
        me: BrokerId,
        clock: Clock,
        stats: NodeStats,
        wrote: Callable[["Replica", int], None],
        look_at_in_sync: LookAtInSync,
        stopped: Listener,
        turned: Listener,
        stored_more: Listener,
        replica_lag_ms_max: int,
        read_only: Callable[[], str],
        disk_full: Callable[[], None],
        loads: PartitionLoads,
        queue: PartitionQueue,
    ) -> None:
        self.where = where
        self.topic = topic
        self.log = log
        self.record: PartitionRecord | None = None
        self.leading: LeaderState | None = None
        self.following: Following | None = None
        self.serving: Following | None = None
        """Set while consumers may read here though another broker leads: its leader has taken it up in this epoch, and
        counts it in sync (RL20)."""
        self._accepted: Following | None = None
        """Whom it follows, from the leader's answer until the stream to it ends or is opened again."""
        self.busy = False
        """A truncation or the like is under way: no appends, no change of role until it is done."""
        self.on_settled: Listener | None = None
        """Called once when the replica is no longer busy."""
        self._health: Health = Sound()
        self.repairs = 0
        """How often damage was truncated and fetched again (RL122): its own marks may then have gone back."""
        self.metered_offset = 0
        """End of the last reading committed in `__usage`, of this log generation, as far as is known here."""
        self.metered_generation = 1
        """The log generation of that reading."""
        self.sealed_offset = 0
        """End of the last segment whose seal is committed there."""
        self.on_append: dict[object, Listener] = {}
        self.on_marks: dict[object, Listener] = {}
        """Notified when something that a leader tells its followers beside batches has moved: the high watermark, the
        log's start."""
        self.on_metered: dict[object, Listener] = {}
        """Notified when more of it is metered or sealed, which followers learn too."""
        self.on_commit: dict[object, Listener] = {}
        self.on_role: dict[object, Listener] = {}
        self._at_rest: list[asyncio.Future[None]] = []
        self._me = me
        self._clock = clock
        self._stats = stats
        self._wrote = wrote
        self._look_at_in_sync = look_at_in_sync
        self._stopped = stopped
        self._turned = turned
        self._stored_more = stored_more
        self._lag_ms_max = replica_lag_ms_max
        self._read_only = read_only
        self._disk_full = disk_full
        self._loads = loads
        self._answers = ProduceAnswers(where, queue, clock=clock, loads=loads, stats=stats)

    def __repr__(self) -> str:
        role = "leads" if self.leading else f"follows {self.following.leader}" if self.following else "idle"
        return f"<{self.name} {role}>"

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.where.partition}"

    def note_metered(self, log_generation: int, end_offset: int) -> None:
        """A reading up to `end_offset` is in `__usage`: below it the log may be deleted."""
        if log_generation == self.log.usage.log_generation and end_offset >= self.metered_offset:
            self.metered_generation = log_generation
            self.metered_offset = end_offset
            self.log.usage.forget_minute_marks(end_offset)
            self._tell(self.on_metered)

    def note_sealed(self, end_offset: int) -> None:
        """Seals up to `end_offset` are in `__usage`."""
        if end_offset > self.sealed_offset:
            self.sealed_offset = end_offset
            self._tell(self.on_metered)

    def in_generation(self, log_generation: int) -> None:
        """What the metadata says. In a new generation everything is metered and sealed again, as far as it was not
        lost."""
        if log_generation != self.log.usage.log_generation:
            self.log.usage.log_generation = log_generation
            self.metered_offset = self.sealed_offset = 0
            self._tell(self.on_marks)

    @property
    def strict(self) -> bool:
        """Whether an acknowledgement means stable storage (RL14)."""
        return self.topic.settings.durability is Durability.FSYNC

    # -- roles -------------------------------------------------------------------------------------------

    def lead(self, record: PartitionRecord) -> None:
        """Take leadership of `record.leader_epoch`; a no-op when this epoch is led already (RL4, RL27, RL38)."""
        self.record = record
        self.following = None
        self._look_at_serving()
        if self.leading is not None and self.leading.leader_epoch == record.leader_epoch:
            self.leading.record_seen(record)
            self.carry_out()
            return
        self._drop_leadership()
        self.leading = LeaderState(
            self._me,
            record,
            self.log,
            min_insync=self.topic.settings.min_insync_replicas,
            strict=self.strict,
            lag_ms_max=self._lag_ms_max,
            now_ms=self._clock.monotonic_ms(),
        )
        self._stats.elections += 1
        self.carry_out()
        self._tell(self.on_role)

    def follow(self, record: PartitionRecord) -> None:
        """Follow `record.leader` in its epoch; drops leadership at once (RL7, RL18)."""
        self.record = record
        self._drop_leadership()
        following = Following(record.leader, record.leader_epoch)
        if self.following != following:
            self.following = following
            self._tell(self.on_role)
        self._look_at_serving()

    def accepted(self, following: Following | None) -> None:
        """The leader has taken the follower up; None = the stream to it ended, or is opened again."""
        self._accepted = following
        self._look_at_serving()

    def _look_at_serving(self) -> None:
        """Consumers that read here hear at once when they may not any more."""
        record, following = self.record, self.following
        able = (
            following is not None
            and following == self._accepted
            and record is not None
            and record.leader_epoch == following.leader_epoch
            and self._me in record.in_sync
        )
        serving = following if able else None
        if serving != self.serving:
            self.serving = serving
            self._tell(self.on_role)

    def rest(self) -> None:
        """No role: the broker is not registered, or the partition has no leader."""
        self._drop_leadership()
        if self.following is not None:
            self.following = None
            self._tell(self.on_role)
        self._look_at_serving()

    @property
    def sound_end_offset(self) -> int:
        """Up to where the log is whole."""
        return min([self.log.log_end_offset, *(damage.first_offset for damage in self.log.damage)])

    async def at_rest(self) -> None:
        """Wait until the replica is not busy."""
        while self.busy:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._at_rest.append(waiting)
            await asyncio.shield(waiting)

    def no_longer_busy(self) -> None:
        """The operation that needed an await is done."""
        self.busy = False
        for waiting in self._at_rest:
            waiting.set_result(None)
        self._at_rest.clear()
        settled, self.on_settled = self.on_settled, None
        if settled is not None:
            settled(self)

    def found_damage(self, reason: str) -> None:
        """Stored data failed its check (RL122). Others that are in sync have it: this replica gives itself up and
        fetches it again. A leader that is alone goes on with what is good, and refuses the damaged range; the only
        replica takes no writes any more until an operator has repaired it.
        """
        self._become(health.damaged(self.health, reason, self._standing))

    def notice_damage(self) -> None:
        """What the log found by itself (at a truncation, a seal or a reading) counts as what a reader found."""
        if self.log.damage and not self.stopped:
            self.found_damage(f"{self.name}: {self.log.damage[0]}")

    def stop(self, reason: str) -> None:
        """A broken invariant: take no part any more and keep the evidence (RL138)."""
        self._become(health.damaged(self.health, reason, Standing.REPLACEABLE))

    def retire(self, reason: str) -> None:
        """The metadata no longer wants it: take no part any more."""
        self._become(health.retired(self.health, reason))

    def given_up(self) -> None:
        """If it is damaged: no broker counts on it any more."""
        self._become(health.gave_up(self.health))

    def made_whole(self) -> None:
        """Everything bad was removed from its log."""
        self._become(health.made_whole(self.health))

    @property
    def health(self) -> Health:
        return self._health

    @health.setter
    def health(self, now: Health) -> None:
        self._health = now
        self._turned(self)

    @property
    def stopped(self) -> bool:
        """Whether it is in no state to take a role."""
        return not health.takes_role(self._health)

    @property
    def _standing(self) -> Standing:
        if self.leading is None or len(self.leading.record.in_sync) >= 2:
            return Standing.REPLACEABLE
        return Standing.ONLY if len(self.leading.record.replicas) == 1 else Standing.ALONE

    def _become(self, now: Health) -> None:
        stopped_before, self.health = self.stopped, now
        if self.stopped and not stopped_before:
            self.rest()
            self._stopped(self)

    def _drop_leadership(self) -> None:
        if self.leading is None:
            return
        self.leading.end()
        self.leading = None
        self._stats.leaderships_lost += 1
        self._stats.outcomes_unknown += self._answers.end(
            self.log.durable_end_offset,
            self.log.high_watermark,
            f"{self.name}: leadership moved before the batch was committed",
        )
        self._tell(self.on_role)

    # -- leader ------------------------------------------------------------------------------------------

    def leadership(self, claimed_epoch: int) -> LeaderState:
        """The leader's state, or a refusal (RL7, RL11). `claimed_epoch` -1 = the client does not know."""
        leading = self.leading
        if leading is None:
            raise errors.NotLeader(f"{self.name}: broker {self._me} does not lead it")
        if claimed_epoch >= 0 and claimed_epoch != leading.leader_epoch:
            if claimed_epoch < leading.leader_epoch:
                raise errors.FencedLeaderEpoch(
                    f"{self.name}: epoch {claimed_epoch}, now {leading.leader_epoch}"
                )
            raise errors.UnknownLeaderEpoch(
                f"{self.name}: epoch {claimed_epoch}, here {leading.leader_epoch}"
            )
        return leading

    def has_already(self, header: BatchHeader) -> bool:
        """Whether it is a repeated batch, which would be answered and not appended."""
        try:
            return self.log.check_sequence(header) is not None
        except errors.PenstockError:
            return False

    def produce(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        acks: int,
        claimed_epoch: int,
        principal: int,
        answer: Answer,
    ) -> None:
        """Append one checked batch and answer as `acks` demands; refusals are raised before anything is written."""
        leading = self.leadership(claimed_epoch)
        if acks == -1 and not leading.enough_in_sync:
            raise errors.NotEnoughReplicas(
                f"{self.name}: {leading.in_sync_count} in sync, {self.topic.settings.min_insync_replicas} required"
            )
        if self._read_only():
            raise errors.DiskFull(f"{self.name}: {self._read_only()}")
        if isinstance(self.health, ReadOnly):
            raise errors.CorruptLog(f"{self.name}: writes are stopped, {self.health.reason}")
        if not leading.taking:
            raise errors.NotLeader(f"{self.name}: leadership is being handed over")
        if self.busy:
            raise errors.LeaderNotReady(f"{self.name}: its log's start is being moved")
        known = self.log.check_sequence(header)
        if known is not None:
            self._stats.duplicates += 1
            self._answer_duplicate(known, header, leading, acks, answer)
            return
        try:
            stamp = self.log.append_as_leader(
                batch,
                header,
                leader_epoch=leading.leader_epoch,
                now_ms=self._clock.now_ms(),
                floor_ms=self.topic.accepted_floor_ms,
                principal=principal,
            )
        except errors.DiskFull:
            self._disk_full()
            raise
        self._stats.produced_batches += 1
        self._stats.produced_messages += stamp.record_count
        self._stats.produced_bytes += stamp.size
        self._loads.took(self.where, stamp.size)
        now_ms = self._clock.monotonic_ms()
        outcome = ProduceOutcome(
            base_offset=stamp.base_offset,
            accepted_ms=stamp.accepted_ms,
            leader_epoch=leading.leader_epoch,
            size=stamp.size,
            taken_ms=now_ms,
        )
        self._answers.wait(answered_when(acks, leading.strict), stamp.end_offset, answer, outcome)
        leading.appended(stamp.size, now_ms)
        self.carry_out()

    def _answer_duplicate(
        self, known: Duplicate, header: BatchHeader, leading: LeaderState, acks: int, answer: Answer
    ) -> None:
        """A repeated batch has the offset it got first; with acks=all it is answered when that one is committed."""
        outcome = ProduceOutcome(
            base_offset=known.base_offset,
            accepted_ms=known.accepted_ms,
            duplicate=True,
            leader_epoch=leading.leader_epoch,
        )
        end = known.base_offset + header.offset_span
        self._answers.wait_again(answered_when(acks, leading.strict), end, answer, outcome)
        self.carry_out()

    def became_durable(self) -> None:
        """The log's durable end moved."""
        if self.leading is None:
            self._stored_more(self)
            return
        self.leading.became_durable(self._clock.monotonic_ms())
        self.carry_out()

    def carry_out(self) -> None:
        """Do what the leader's state has made due, in the order of `Effects`. To be called after each event."""
        if self.leading is None:
            return
        begin_epoch, unsynced_bytes, push, high_watermark, durable_end, committed, outdated, look = (
            self.leading.take_effects()
        )
        if begin_epoch != NO_EPOCH:
            self.log.start_epoch(begin_epoch)
        if unsynced_bytes:
            self._wrote(self, unsynced_bytes)
        if push:
            self._tell(self.on_append)
        if committed:
            self.log.set_high_watermark(high_watermark)
        if self._answers.give_due(durable_end, high_watermark):
            asyncio.get_running_loop().call_soon(self.carry_out)  # the rest of many has a later turn
        if committed:
            self._tell(self.on_marks)
            self._tell(self.on_commit)
        if outdated:
            self._tell(self.on_role)
        if look is not Look.UNNEEDED:
            self._look_at_in_sync(self, look)

    @property
    def log_start_target(self) -> int:
        """Where the log has to begin: as leader once all who may lead next begin there (RL108)."""
        return self.log.log_start_offset if self.leading is None else self.leading.start.wanted

    def want_log_start(self, offset: int) -> None:
        """As leader: everything below `offset` may be deleted."""
        if self.leading is not None:
            self.leading.want_log_start(offset, self._clock.monotonic_ms())
            self._tell(self.on_marks)
            self.carry_out()

    @property
    def log_start_due(self) -> int | None:
        """As leader: where the own log is to begin now, None where it begins already (RL108)."""
        leading = self.leading
        if leading is None or leading.start.agreed <= self.log.log_start_offset:
            return None
        return leading.start.agreed

    def log_start_within(self, asked: int) -> int:
        """Where the own log may begin, asked to begin at `asked`. A new leader does not follow the
        wish of the leader before: its own start moves when all that may lead next have moved (RL108).
        """
        offset = asked if self.leading is None else self.log_start_due
        return self.log.log_start_offset if offset is None else min(offset, self.log.high_watermark)

    @property
    def log_start_known(self) -> bool:
        """As leader: may it report to a client where the log begins (RL108)?"""
        return self.leading is not None and self.leading.may_report_start(self.log.log_start_offset)

    def require_log_start(self) -> None:
        """Raises `LeaderNotReady` while no client may learn where the log begins."""
        if not self.log_start_known:
            raise errors.LeaderNotReady(f"{self.name}: the new leader has not confirmed where its log begins")

    # -- follower ----------------------------------------------------------------------------------------

    def take_over(self, stamps: memoryview, batches: memoryview, leader_epoch: int) -> None:
        """Append what the leader pushed. Raises `ReplicaRejected`, `DiskFull`, `DiskFault`: nothing was appended."""
        if self._read_only():
            raise errors.DiskFull(f"{self.name}: {self._read_only()}")
        try:
            self.log.append_as_follower(stamps, batches, leader_epoch)
        except errors.DiskFull:
            self._disk_full()
            raise
        self._stats.held_batches += len(stamps) // STAMP_BYTES
        self._wrote(self, len(batches))

    def note_watermark(self, leaders: int) -> None:
        """The leader's high watermark, of which this replica knows as much to be committed as its own log reaches."""
        log = self.log
        before = log.high_watermark
        mark = follower_watermark(own=before, leaders=leaders, log_end=log.log_end_offset)
        if mark > before:
            log.set_high_watermark(mark)
            if self.serving is not None:
                self._tell(self.on_commit)

    def delete_below_start(self) -> int:
        """Remove segments that lie below the log's start and had to wait for their seals; how many."""
        before = self.log.segment_count
        self.log.delete_below(self.log.log_start_offset)
        return before - self.log.segment_count

    # -- reading -----------------------------------------------------------------------------------------

    def pushed(self, size: int) -> None:
        """So many bytes go to a consumer."""
        self._loads.pushed(self.where, size)

    def check_position(self, offset: int, last_epoch: int) -> None:
        """Raise `LogTruncated` or `OffsetOutOfRange` when no reader could be at this position (RL56, RL57), and
        `LeaderNotReady` when that is not known yet.

        A position above the watermark but within the log is waited for: a new leader's watermark may be behind what
        its predecessor reported (RL21).
        """
        log = self.log
        recorded = 0 if self.leading is None else self.leading.start.recorded
        if offset < max(recorded, log.log_start_offset):
            self.require_log_start()
            raise errors.OffsetOutOfRange(
                f"{self.name}: offset {offset} is before the log's start {log.log_start_offset}"
            )
        if last_epoch >= 0 and offset > log.log_start_offset and log.last_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(last_epoch)
            if epoch < last_epoch or end < offset:
                error = errors.LogTruncated(
                    f"{self.name}: offset {offset} of epoch {last_epoch} was truncated; the logs part at {end}"
                    f"{self._generation_note}"
                )
                error.divergence_offset = end
                raise error
        if offset > log.log_end_offset and self.leading is not None and self.leading.ready:
            beyond = errors.OffsetOutOfRange(
                f"{self.name}: offset {offset} is beyond the log's end {log.high_watermark}{self._generation_note}"
            )
            beyond.beyond_end = True
            raise beyond

    @property
    def _generation_note(self) -> str:
        """For readers that stand where something was lost."""
        generation = self.log.usage.log_generation
        return f"; a loss was declared, this is log generation {generation}" if generation > 1 else ""

    def _tell(self, listeners: dict[object, Listener]) -> None:
        for listener in list(listeners.values()):
            listener(self)
