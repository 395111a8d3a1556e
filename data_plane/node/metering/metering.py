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
from data_plane.metering.readings import DueReading, MeterPeriods, ReadingKind
from data_plane.metering.unserved import Unserved
from data_plane.node.config import NodeConfig
from data_plane.node.metering.client_use import ClientUse
from data_plane.node.metering.deleted_replicas import DeletedReplicas
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.looks import Looks
from data_plane.node.metering.partition_readings import PartitionReadings
from data_plane.node.metering.record_draft import ROWS_MAX, RecordDraft
from data_plane.node.metering.usage_topic import UsageTopic
from data_plane.node.ports import Clock, ConnectionLost
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import in_turns, together
from penstock.contract.errors import BrokerUnavailable
from penstock.contract.ids import TenantId, TopicPartition
from penstock.records.usage import minute_of

_LOOKED_AT_ONCE = 100
"""Partitions that a round looks at in one turn of the event loop: a millisecond or two when all were written to."""
_ALL_LOOKED_AT_MS = 60_000
"""Between rounds that look at every partition: for the readings of those that rest."""
_LAST_WORDS_S = 3.0
"""A broker that leaves waits so long for its last record."""
_LISTEN_S = 0.05
_RECORDS_PER_ROUND_MAX = 200
"""Records that carry increments alone."""


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
        self.readings = PartitionReadings(clock, replicas, self._periods)
        self.clients = ClientUse(clock, connection_time, lambda: self.working)
        self.deleted = DeletedReplicas(config, finals)
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

    def may_delete(self, partition: TopicPartition, end_offset: int) -> bool:
        """Nothing above the metered cursor is deleted; internal topics are not metered."""
        replica = self._find(partition)
        if not self._config.metering or replica is None or not replica.topic.metered:
            return True
        if not replica.log.usage.known:
            return True  # it is unknown what was counted
        return end_offset <= replica.metered_offset and end_offset <= replica.sealed_offset

    def is_read(self, partition: TopicPartition, end_offset: int) -> bool:
        """True if everything below `end_offset` is metered, so that the log may begin there."""
        replica = self._find(partition)
        if not self._config.metering or replica is None or not replica.topic.metered:
            return True
        return not replica.log.usage.known or end_offset <= replica.metered_offset

    def hurry(self, partition: TopicPartition) -> None:
        """Read the partition in the next round: a caller waits for it."""
        self._hurried[partition] = None

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
            draft.read_one(replica, due, cut_id, cut_end_ms, retained=self.readings.retained(replica))
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
        for first in range(0, len(ends), ROWS_MAX):
            draft = RecordDraft()
            for end in ends[first : first + ROWS_MAX]:
                draft.read_kept(tenant, end, cut_id, cut_end_ms)
            await self._write(draft)

    # -- the round ---------------------------------------------------------------------------------------

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Coroutines that run as long as the broker does."""
        return self.run(), self.deleted.run(), self.run_unserved()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            await self._tick()

    async def _tick(self) -> None:
        self.clients.gather()
        if not self.working:
            return
        async with self._reading:
            await self._round(at_once=False)

    async def run_unserved(self) -> None:
        """Beside the rounds, which wait while `__usage` itself has no leader."""
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            leaderless = self._leaderless()
            for partition, seconds in self._unserved.look(leaderless, self._clock.monotonic_ms()).items():
                self.clients.not_served(leaderless[partition], partition.partition, seconds)

    async def finish(self) -> None:
        """A clean stop: read everything once more and end the boot. Gives up after a while, and at once when all
        brokers stop and none is left to take it: the next leaders read what is missing then, and what was delivered
        meanwhile is not charged."""
        if not self.working:
            return
        self.clients.gather()
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
        for partition in hurried:
            hurried_replica = self._find(partition)
            if hurried_replica is not None:
                self._looks.look(hurried_replica)
        if at_once or self._is_time_for_all():
            self._looks.look_at(self._replicas.all())
        now_ms, minute = self._clock.monotonic_ms(), minute_of(self._clock.now_ms())
        async for some in in_turns(self._looks.begin(now_ms, minute), _LOOKED_AT_ONCE):
            now_ms, minute = self._clock.monotonic_ms(), minute_of(self._clock.now_ms())
            for replica in some:
                is_asked_for = at_once or replica.where in hurried
                if not is_asked_for and self.readings.is_early(replica, now_ms, minute):
                    self._put_aside(replica, now_ms, minute)
                    continue
                self.readings.retained(replica)
                if not self.readings.may_be_due(replica):
                    self._looks.let_rest(replica)
                    continue
                new = replica.metered_generation != replica.log.usage.log_generation
                if new and not await self.readings.read_loss(replica, draft):
                    continue
                self.readings.read(replica, draft, at_once=is_asked_for)
                if draft.full:
                    await self._write(draft)
                    draft = RecordDraft()
        for replica in self.deleted.unread():
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
                draft.take_increments(self.clients.increments)
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
        self.readings.forget_others()
        return True

    def _put_aside(self, replica: Replica, now_ms: float, minute: int) -> None:
        """Once a batch of this minute is in its log, no further batch ends one."""
        in_minute = minute_of(replica.log.usage.last_accepted_ms) >= minute
        until_ms = self.readings.early_until_ms(replica)
        self._looks.put_aside(replica, replica.leading if in_minute else None, now_ms, until_ms)

    async def _read_last(self, replica: Replica, draft: RecordDraft) -> None:
        """Add the last reading of a deleted partition."""
        mark, log = await self.readings.last_mark(replica), replica.log
        if mark is None and replica.busy:
            return  # its log is being changed: in the next round
        if mark is None:
            self.deleted.let_go(replica.where)  # it cannot be reported any more
        else:
            for minute in log.usage.minute_marks(replica.metered_offset, log.high_watermark):
                draft.read_one(replica, DueReading(ReadingKind.MINUTE_END, minute))
            is_owed = self.deleted.is_owed(replica)
            draft.read_one(replica, DueReading(ReadingKind.FINAL, mark), last=is_owed)
            draft.add_seals(replica)

    async def _write(self, draft: RecordDraft) -> None:
        """Returns when the record is committed."""
        await self._topic.write(draft.record)
        self._stats.usage_readings += len(draft.read)
        for replica, log_generation, due in draft.read:
            replica.note_metered(log_generation, due.mark.end_offset)
            if due.kind is ReadingKind.FINAL:
                final = FinalRecord(
                    log_generation=log_generation,
                    end_offset=due.mark.end_offset,
                    accepted_ms=due.mark.accepted_ms,
                    totals=due.mark.totals.as_tuple(),
                )
                self.deleted.was_read(replica, final)
        for replica, end_offset in draft.sealed:
            replica.note_sealed(end_offset)
