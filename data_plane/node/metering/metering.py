"""Metering on one broker: readings of the partitions it leads, and what consumers took, into `__usage`.

Until `__usage` exists nothing is read and nothing may be deleted: odometers count all the same, and the first reading
covers everything before it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from data_plane.contract import usage_pb2
from data_plane.metadata.kept_ends import KeptEnd
from data_plane.metadata.model import FinalRecord, TopicRecord
from data_plane.metering.connection_time import ConnectionTime
from data_plane.metering.increments import (
    DeliveredKey,
    DeliveredTally,
    ElapsedKey,
    Increments,
    RequestTally,
)
from data_plane.metering.readings import DueReading, MeterPeriods, PartitionMeter, ReadingKind
from data_plane.metering.retained import RetainedOdometer
from data_plane.metering.unserved import Unserved
from data_plane.node.config import NodeConfig
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.looks import Looks
from data_plane.node.metering.record_draft import ROWS_MAX, RecordDraft
from data_plane.node.metering.usage_messages import failed_part
from data_plane.node.metering.usage_topic import UsageTopic
from data_plane.node.ports import Clock, ConnectionLost
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import in_turns, together
from penstock.contract.errors import BrokerUnavailable, CorruptLog, ErrorCode
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicPartition
from penstock.records.usage import OdometerMark, minute_of
from penstock.rules.service_levels import FETCH, METADATA, PRODUCE

_LOOKED_AT_ONCE = 100
"""Partitions that a round looks at in one turn of the event loop: a millisecond or two when all were written to."""
_ALL_LOOKED_AT_MS = 60_000
"""Between rounds that look at every partition: for the readings of those that rest."""
_LAST_WORDS_S = 3.0
"""A broker that leaves waits so long for its last record."""
_LISTEN_S = 0.05
_RECORDS_PER_ROUND_MAX = 200
"""Of increments alone."""


class Metering:
    """Composes the metering core. `tasks` and `UsageTopic.run` run beside it."""

    def __init__(
        self,
        config: NodeConfig,
        topic: UsageTopic,
        clock: Clock,
        stats: NodeStats,
        replicas: ReplicaSet,
        leaderless: Callable[[], Mapping[TopicPartition, TopicRecord]],
        finals: FinalReadings,
        connection_time: ConnectionTime,
    ) -> None:
        """`leaderless`: what the controller sees without a leader; nothing on every other broker."""
        self._config = config
        self._topic = topic
        self._connection_time = connection_time
        self._leaderless = leaderless
        self._unserved = Unserved()
        self._clock = clock
        self._stats = stats
        self._replicas = replicas
        self._find = replicas.find
        self._looks = Looks(replicas.changes())
        self._looked_at_all_ms = float("-inf")
        self._periods = MeterPeriods(
            changed_ms=config.timings.reading_ms, idle_ms=config.timings.reading_idle_ms
        )
        self._meters: dict[TopicPartition, PartitionMeter] = {}
        self._tallies: dict[RequestTally, None] = {}
        self._taken: dict[DeliveredTally, tuple[Replica, int]] = {}
        """What has something to be gathered, with the principal that has taken it."""
        self.increments = Increments()
        self._waiting: dict[TopicPartition, tuple[Replica, Callable[[Replica], None]]] = {}
        """Replicas of deleted topics that wait for their last reading, and what to call then."""
        self._final_readings = finals
        self._finals: dict[TopicPartition, FinalRecord] = {}
        """Of waiting replicas: final readings that are in `__usage`, and are to be kept in the metadata."""
        self._hurried: dict[TopicPartition, None] = {}
        self._sent_ms = 0.0
        """When increments went out last."""
        self._reading = asyncio.Lock()
        self._ended = False

    @property
    def working(self) -> bool:
        """Readings can be written."""
        return self._config.metering and not self._ended and self._topic.topic_id is not None

    @property
    def waiting(self) -> int:
        """Records of this broker's that are not committed in `__usage` yet."""
        return self._topic.waiting

    # -- what others ask ---------------------------------------------------------------------------------

    def may_delete(self, where: TopicPartition, end_offset: int) -> bool:
        """Nothing above the metered cursor is deleted; internal topics are not metered."""
        replica = self._find(where)
        if not self._config.metering or replica is None or not _is_metered(replica):
            return True
        if not replica.log.usage.known:
            return True  # it is unknown what was counted
        return end_offset <= replica.metered_offset and end_offset <= replica.sealed_offset

    def is_read(self, where: TopicPartition, end_offset: int) -> bool:
        """Whether everything below `end_offset` is metered, so that the log may begin there."""
        replica = self._find(where)
        if not self._config.metering or replica is None or not _is_metered(replica):
            return True
        return not replica.log.usage.known or end_offset <= replica.metered_offset

    def hurry(self, where: TopicPartition) -> None:
        """Read the partition in the next round: a caller waits for it."""
        self._hurried[where] = None

    def hold(self, replica: Replica, release: Callable[[Replica], None]) -> bool:
        """Its topic was deleted: whether the replica has to wait for its last reading. `release` is called then; not in
        this boot any more once its last words were said."""
        if not self._config.metering or not _is_metered(replica):
            return False
        if not replica.log.usage.known:
            return False
        self._waiting[replica.where] = (replica, release)
        return True

    def waiting_replicas(self) -> list[Replica]:
        """Replicas of deleted topics that wait."""
        return [replica for replica, _ in self._waiting.values()]

    def still_waiting(self, tenant: TenantId) -> list[usage_pb2.PartitionCut]:
        """As errors: partitions of the tenant's deleted topics whose final reading here is still to be made."""
        return [
            failed_part(
                where,
                ErrorCode.LEADER_NOT_READY,
                f"{replica.name}: was deleted, its last reading is still to be made",
            )
            for where, (replica, _) in self._waiting.items()
            if replica.topic.tenant == tenant
        ]

    def delivered(self, replica: Replica, principal: int, tally: DeliveredTally) -> None:
        """A consumer has taken the first messages since the tally was gathered, by the credit that it gave back."""
        self._taken[tally] = replica, principal

    def _gather_delivered(self) -> None:
        working, minute = self.working, minute_of(self._clock.now_ms())
        for tally, (replica, principal) in self._taken.items():
            topic, partition = replica.topic, replica.where.partition
            if working and topic.tenant != SYSTEM_TENANT:
                key = DeliveredKey(
                    topic.tenant,
                    topic.topic_id,
                    topic.name,
                    partition,
                    tally.group,
                    principal,
                    minute,
                )
                self.increments.delivered(key, tally)
            tally.clear()
        self._taken.clear()

    def throttled(
        self, tenant: TenantId, principal: int, milliseconds: int, topic: TopicRecord | None = None
    ) -> None:
        """A limit delayed a batch, a push or a request. Another tenant's `topic` is not named."""
        if milliseconds > 0 and self._counts(tenant):
            self.increments.elapsed(self._elapsed_key(tenant, principal, topic), throttled_ms=milliseconds)

    def _elapsed_key(self, tenant: TenantId, principal: int, topic: TopicRecord | None = None) -> ElapsedKey:
        minute = minute_of(self._clock.now_ms())
        if topic is None or topic.tenant != tenant:
            return ElapsedKey(tenant, b"", "", principal, minute, 0)
        return ElapsedKey(tenant, topic.topic_id, topic.name, principal, minute, 0)

    def _take_connection_time(self) -> None:
        for tenant, principal, milliseconds in self._connection_time.take(int(self._clock.monotonic_ms())):
            if self._counts(tenant):
                self.increments.elapsed(self._elapsed_key(tenant, principal), connection_ms=milliseconds)

    def tally(self, tenant: TenantId, operation: str) -> RequestTally:
        """A counter for one stream; `drop` it at the stream's end."""
        tally = RequestTally(tenant, operation)
        self._tallies[tally] = None
        return tally

    def count_call(self, tenant: TenantId, error: int) -> None:
        """One unary call of a client was answered."""
        tally = RequestTally(tenant, METADATA)
        tally.count(error)
        self._gather(tally)

    def drop(self, tally: RequestTally) -> None:
        self._tallies.pop(tally, None)
        self._gather(tally)

    def _gather_all(self) -> None:
        self._take_connection_time()
        self._gather_delivered()
        for tally in self._tallies:
            self._gather(tally)

    def _gather(self, tally: RequestTally) -> None:
        if self._counts(tally.tenant):
            self.increments.gather(tally, self._clock.now_ms())

    def _counts(self, tenant: TenantId) -> bool:
        return self.working and tenant != SYSTEM_TENANT

    async def write_cut(
        self, readings: list[tuple[Replica, DueReading]], cut_id: str, cut_end_ms: int
    ) -> None:
        """Cut readings, in as many records as it takes; returns when they are committed. Raises `Throttled`,
        `BrokerUnavailable`."""
        if not self.working:
            raise BrokerUnavailable("this broker does not meter now")
        self._topic.require_space()
        draft = RecordDraft()
        for replica, due in readings:
            draft.read_one(replica, due, cut_id, cut_end_ms, retained=self._retained(replica))
            if draft.full:
                await self._write(draft)
                draft = RecordDraft()
        if draft.rows:
            await self._write(draft)

    async def write_ends(
        self, tenant: TenantId, ends: Sequence[KeptEnd], cut_id: str, cut_end_ms: int
    ) -> None:
        """The cut's readings of these partitions, of any leader; returns when they are committed. Raises
        `Throttled`, `BrokerUnavailable`.
        """
        if not self.working:
            raise BrokerUnavailable("this broker does not meter now")
        self._topic.require_space()
        for at in range(0, len(ends), ROWS_MAX):
            draft = RecordDraft()
            for end in ends[at : at + ROWS_MAX]:
                draft.read_kept(tenant, end, cut_id, cut_end_ms)
            await self._write(draft)

    # -- the round ---------------------------------------------------------------------------------------

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What runs as long as the broker does."""
        return self.run(), self.run_finals(), self.run_unserved()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            await self._tick()

    async def _tick(self) -> None:
        self._gather_all()
        if not self.working:
            return
        async with self._reading:
            await self._round(at_once=False)

    async def run_finals(self) -> None:
        """Beside the rounds: final readings go to the metadata, and then their replicas go."""
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            finals = dict(self._finals)
            if finals and await self._final_readings.keep(finals):
                for where in finals:
                    del self._finals[where]
                    self._let_go(where)

    async def run_unserved(self) -> None:
        """Beside the rounds, which wait while `__usage` itself has no leader."""
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            leaderless = self._leaderless()
            for where, seconds in self._unserved.look(leaderless, self._clock.monotonic_ms()).items():
                self._not_served(leaderless[where], where.partition, seconds)

    def _not_served(self, topic: TopicRecord, partition: int, seconds: int) -> None:
        if self._counts(topic.tenant):
            key = self._elapsed_key(topic.tenant, 0, topic)._replace(partition=partition)
            self.increments.elapsed(key, leaderless_ms=seconds * 1_000)
        for operation in (PRODUCE, FETCH):
            tally = RequestTally(topic.tenant, operation)
            tally.fail(seconds)
            self._gather(tally)

    async def finish(self) -> None:
        """A clean stop: read everything once more and end the boot. Gives up after a while, and at once when all
        brokers stop and none is left to take it: the next leaders read what is missing then, and what was delivered
        meanwhile is not charged."""
        if not self.working:
            return
        self._gather_all()
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                said = asyncio.Event()
                await together(self._last_words(said), self._while_heard(said))
        except (TimeoutError, ConnectionLost):
            pass
        self._ended = True

    async def _last_words(self, said: asyncio.Event) -> None:
        async with self._reading:
            await self._round(at_once=True)
            self._ended = True
            await self._topic.write(usage_pb2.UsageRecord(boot_ends=True))
        said.set()

    async def _while_heard(self, said: asyncio.Event) -> None:
        """Raises `ConnectionLost` once `__usage` takes no records."""
        while not said.is_set():
            if not self._topic.takes_records:
                raise ConnectionLost("no other broker is left")
            try:
                async with asyncio.timeout(_LISTEN_S):
                    await said.wait()
            except TimeoutError:
                pass

    async def _round(self, *, at_once: bool) -> None:
        """Write what is due, in as many records as it takes."""
        draft = RecordDraft()
        # What is asked for while this round writes is for the next one: its turn here may be over.
        hurried, self._hurried = self._hurried, {}
        for where in hurried:
            wanted_one = self._find(where)
            if wanted_one is not None:
                self._looks.look(wanted_one)
        if at_once or self._is_time_for_all():
            self._looks.look_at(self._replicas.all())
        now_ms, minute = self._clock.monotonic_ms(), minute_of(self._clock.now_ms())
        async for some in in_turns(self._looks.begin(now_ms, minute), _LOOKED_AT_ONCE):
            now_ms, minute = self._clock.monotonic_ms(), minute_of(self._clock.now_ms())
            for replica in some:
                wanted = at_once or replica.where in hurried
                if not wanted and self._is_early(replica, now_ms, minute):
                    self._put_aside(replica, now_ms, minute)
                    continue
                self._retained(replica)
                if not self._may_be_due(replica):
                    self._looks.let_rest(replica)
                    continue
                new = replica.metered_generation != replica.log.usage.log_generation
                if new and not await self._read_loss(replica, draft):
                    continue
                self._read(replica, draft, wanted)
                if draft.full:
                    await self._write(draft)
                    draft = RecordDraft()
        for replica, _ in list(self._waiting.values()):
            if replica.where not in self._finals:
                await self._read_last(replica, draft)
            if draft.full:
                await self._write(draft)
                draft = RecordDraft()
        now_ms = self._clock.monotonic_ms()
        due = at_once or now_ms - self._sent_ms >= self._periods.changed_ms
        if due:
            self._sent_ms = now_ms
        for _ in range(_RECORDS_PER_ROUND_MAX):
            if due:
                draft.take_increments(self.increments)
            if not draft.rows:
                return
            await self._write(draft)
            draft = RecordDraft()

    def _is_time_for_all(self) -> bool:
        """Now and then everything is looked at, for the readings of partitions at rest."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_at_all_ms < min(_ALL_LOOKED_AT_MS, self._periods.idle_ms):
            return False
        self._looked_at_all_ms = now_ms
        for where in [where for where in self._meters if not _is_led(self._find(where))]:
            del self._meters[where]
        return True

    def _put_aside(self, replica: Replica, now_ms: float, minute: int) -> None:
        """Once a batch of this minute is in its log, no further batch ends one."""
        in_minute = minute_of(replica.log.usage.last_accepted_ms) >= minute
        until_ms = self._meters[replica.where].early_until_ms(self._periods)
        self._looks.put_aside(replica, replica.leading if in_minute else None, now_ms, until_ms)

    def _is_early(self, replica: Replica, now_ms: float, minute: int) -> bool:
        """Whether only time makes its next reading due: no minute has begun, no seal waits, no loss was declared. So a
        partition that is written to all the time takes next to nothing in the rounds between its readings."""
        leading, meter = replica.leading, self._meters.get(replica.where)
        if leading is None or meter is None or meter.leader_epoch != leading.leader_epoch:
            return False
        log = replica.log
        usage = log.usage
        return (
            meter.early(log.log_end_offset, now_ms, self._periods)
            and meter.retained.until >= minute
            and not usage.has_minute_marks
            and usage.sealed_end_offset <= replica.sealed_offset
            and usage.log_generation == replica.metered_generation
        )

    def _may_be_due(self, replica: Replica) -> bool:
        """Whether it is led here, and not at rest since it was read and all that was read of it is written."""
        leading, log = replica.leading, replica.log
        if leading is None or not _is_metered(replica) or not self._replicas.has(replica):
            return False
        meter = self._meters.get(replica.where)
        return (
            meter is None
            or meter.leader_epoch != leading.leader_epoch
            or replica.metered_generation != log.usage.log_generation
            or log.usage.sealed_end_offset > replica.sealed_offset
            or not meter.quiet(log.log_end_offset, self._clock.monotonic_ms(), self._periods)
        )

    def _read(self, replica: Replica, draft: RecordDraft, at_once: bool) -> None:
        leading, log = replica.leading, replica.log
        if leading is None:
            return
        meter = self._meters.get(replica.where)
        if meter is None or meter.leader_epoch != leading.leader_epoch:
            began = RetainedOdometer(
                self._clock.now_ms(),
                self._clock.monotonic_ms(),
                log.size_bytes,
                len(leading.record.replicas),
            )
            meter = PartitionMeter(leading.leader_epoch, replica.metered_offset, began)
            self._meters[replica.where] = meter
        now_ms = self._clock.monotonic_ms()
        if not meter.quiet(log.log_end_offset, now_ms, self._periods):
            for due in meter.look(
                log_end=log.log_end_offset,
                high_watermark=log.high_watermark,
                now_ms=now_ms,
                periods=self._periods,
                mark_end=log.usage.mark,
                minute_marks=log.usage.minute_marks,
                at_once=at_once,
            ):
                draft.read_one(replica, due, retained=meter.retained)
        draft.add_seals(replica)

    def _retained(self, replica: Replica) -> RetainedOdometer | None:
        """What this leadership has kept up to now; None before its first reading."""
        leading, meter = replica.leading, self._meters.get(replica.where)
        if leading is None or meter is None or meter.leader_epoch != leading.leader_epoch:
            return None
        retained, now_ms = meter.retained, self._clock.now_ms()
        if minute_of(now_ms) != retained.until:
            replicas = len(leading.record.replicas)
            retained.look(now_ms, self._clock.monotonic_ms(), replica.log.size_bytes, replicas)
        return retained

    async def _read_loss(self, replica: Replica, draft: RecordDraft) -> bool:
        """After a declared loss, before any other reading of the new log generation: the totals where the old one
        ended. False: not yet."""
        leading, log = replica.leading, replica.log
        if leading is None:
            return False
        offset = log.end_offset_for_epoch(leading.record.generation_epoch - 1)[1]
        if offset < log.log_start_offset:
            return True  # it was made: nothing is deleted above the readings of its own generation
        if log.high_watermark < offset:
            return False
        mark = await self._fold(replica, offset)
        if replica.leading is not leading:
            return False
        if mark is not None:
            draft.read_one(replica, DueReading(ReadingKind.GENERATION_START, mark))
        return mark is not None

    async def _fold(self, replica: Replica, end_offset: int) -> OdometerMark | None:
        """The totals at a batch's end; None when they are not known."""
        mark: OdometerMark | None = None
        try:
            for folded in replica.log.usage.fold_to(end_offset):
                mark = folded
                if folded is None:
                    await asyncio.sleep(0)
                    if replica.busy:
                        return None
        except CorruptLog:
            return None
        return mark

    async def _read_last(self, replica: Replica, draft: RecordDraft) -> None:
        """The last reading of a deleted partition, at what this replica knows to be committed."""
        log = replica.log
        mark: OdometerMark | None = None
        if log.high_watermark == log.log_end_offset:
            mark = log.usage.mark()
        else:
            mark = await self._fold(replica, log.high_watermark)
        if mark is None and replica.busy:
            return  # its log is being changed: in the next round
        if mark is None:
            self._let_go(replica.where)  # it cannot be reported any more
        else:
            for minute in log.usage.minute_marks(replica.metered_offset, log.high_watermark):
                draft.read_one(replica, DueReading(ReadingKind.MINUTE_END, minute))
            owed = self._final_readings.owed(replica.where)
            draft.read_one(replica, DueReading(ReadingKind.FINAL, mark), last=owed)
            draft.add_seals(replica)

    def _let_go(self, where: TopicPartition) -> None:
        waiting = self._waiting.pop(where, None)
        if waiting is not None:
            waiting[1](waiting[0])

    async def _write(self, draft: RecordDraft) -> None:
        """Returns when the record is committed."""
        await self._topic.write(draft.record)
        self._stats.usage_readings += len(draft.read)
        for replica, log_generation, due in draft.read:
            replica.note_metered(log_generation, due.mark.end_offset)
            if due.kind is ReadingKind.FINAL:
                self._finals[replica.where] = FinalRecord(
                    log_generation=log_generation,
                    end_offset=due.mark.end_offset,
                    accepted_ms=due.mark.accepted_ms,
                    totals=due.mark.totals.as_tuple(),
                )
        for replica, end_offset in draft.sealed:
            replica.note_sealed(end_offset)


def _is_led(replica: Replica | None) -> bool:
    return replica is not None and replica.leading is not None


def _is_metered(replica: Replica) -> bool:
    """Internal topics are not."""
    return replica.topic.metered
