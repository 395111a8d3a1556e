"""Metering on one broker: readings of the partitions it leads, and what consumers took, into `__usage`.

Until `__usage` exists nothing is read and nothing may be deleted: odometers count all the same, and the first reading
tells of everything before it.
"""

import asyncio
from dataclasses import dataclass

from data_plane.contract import usage_pb2
from data_plane.metering.increments import Increments, RequestTally
from data_plane.metering.readings import DueReading, MeterPeriods, PartitionMeter, ReadingKind
from data_plane.node.config import NodeConfig
from data_plane.node.host import ReplicaHost
from data_plane.node.ports import Clock
from data_plane.node.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.usage_messages import add_delivered, add_reading, add_requests, add_seal
from data_plane.node.usage_topic import UsageTopic
from penstock.contract.errors import Throttled
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicPartition
from penstock.records.usage import minute_of

_ROWS_MAX = 500
"""Readings, minute rows, increments or seals in one record: some 60 KB, and a millisecond or two to pack."""
_LAST_WORDS_S = 3.0
"""A broker that leaves waits so long for its last record."""
_ROUNDS_MAX = 1_000


@dataclass(slots=True)
class _Taken:
    """One record in the making, and what is true once it is committed."""

    record: usage_pb2.UsageRecord
    read: list[tuple[Replica, int, int]]
    """Partition, log generation, end offset."""
    sealed: list[tuple[Replica, int]]
    rows: int = 0


class Metering:
    """Composes the metering core. `run` and `UsageTopic.run` are its tasks."""

    def __init__(
        self, config: NodeConfig, host: ReplicaHost, topic: UsageTopic, clock: Clock, stats: NodeStats
    ) -> None:
        self._config, self._host, self._topic = config, host, topic
        self._clock, self._stats = clock, stats
        self._periods = MeterPeriods(
            changed_ms=config.timings.reading_ms, idle_ms=config.timings.reading_idle_ms
        )
        self._meters: dict[TopicPartition, PartitionMeter] = {}
        self._tallies: dict[RequestTally, None] = {}
        self.increments = Increments()
        self._reading = asyncio.Lock()
        self._ended = False

    @property
    def on(self) -> bool:
        """Whether anything is metered at all by this broker."""
        return self._config.metering

    # -- what others ask ---------------------------------------------------------------------------------

    def may_delete(self, where: TopicPartition, end_offset: int) -> bool:
        """Nothing above the metered cursor is deleted; internal topics are not metered."""
        replica = self._host.find(where)
        if not self.on or replica is None or not is_metered(replica):
            return True
        return end_offset <= replica.metered_offset and (
            replica.log.odometer is None or end_offset <= replica.sealed_offset
        )

    def tally(self, tenant: TenantId, operation: str) -> RequestTally:
        """A counter for one stream; `drop` it at the stream's end."""
        tally = RequestTally(tenant, operation)
        self._tallies[tally] = None
        return tally

    def drop(self, tally: RequestTally) -> None:
        self._tallies.pop(tally, None)
        self._gather(tally)

    def _gather(self, tally: RequestTally) -> None:
        if self.on and not self._ended:
            self.increments.gather(tally, minute_of(self._clock.now_ms()))

    # -- the round ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._config.timings.metering_tick_ms / 1000)
            for tally in self._tallies:
                self._gather(tally)
            if self._topic.topic_id is not None:
                async with self._reading:
                    await self._round(at_once=False)

    async def finish(self) -> None:
        """A clean stop: read everything once more and end the boot. Gives up after a while: what is missing then is
        read by the next leaders, and what was delivered meanwhile is the tenants'."""
        if not self.on or self._topic.topic_id is None:
            return
        for tally in self._tallies:
            self._gather(tally)
        try:
            async with asyncio.timeout(_LAST_WORDS_S), self._reading:
                self._ended = True
                await self._round(at_once=True)
                await self._topic.write(usage_pb2.UsageRecord(boot_ends=True))
        except (TimeoutError, Throttled):
            pass

    async def _round(self, *, at_once: bool) -> None:
        """Write what is due, in as many records as it takes."""
        taken = _new()
        led: dict[TopicPartition, None] = {}
        for replica in self._host.all():
            if replica.leading is None or not is_metered(replica):
                continue
            led[replica.where] = None
            self._read(replica, taken, at_once)
            if taken.rows >= _ROWS_MAX:
                await self._write(taken)
                taken = _new()
        for where in [where for where in self._meters if where not in led]:
            del self._meters[where]
        for _ in range(_ROUNDS_MAX):
            self._add_increments(taken)
            if not taken.rows:
                return
            await self._write(taken)
            taken = _new()

    def _read(self, replica: Replica, taken: _Taken, at_once: bool) -> None:
        leading, log = replica.leading, replica.log
        if leading is None:
            return
        meter = self._meters.get(replica.where)
        if meter is None or meter.leader_epoch != leading.leader_epoch:
            meter = PartitionMeter(leading.leader_epoch, replica.metered_offset)
            self._meters[replica.where] = meter
        now_ms = self._clock.monotonic_ms()
        if not meter.quiet(log.log_end_offset, now_ms, self._periods):
            for due in meter.look(
                log_end=log.log_end_offset,
                high_watermark=log.high_watermark,
                now_ms=now_ms,
                periods=self._periods,
                mark_end=log.odometer_mark,
                minute_marks=log.minute_marks,
                at_once=at_once,
            ):
                self.add(taken, replica, due)
        if log.sealed_end_offset > replica.sealed_offset:
            seals = log.seals_above(replica.sealed_offset)[:_ROWS_MAX]
            for seal in seals:
                add_seal(taken.record, replica.topic, seal)
            taken.rows += len(seals)
            taken.sealed.append((replica, seals[-1].end_offset))

    def add(self, taken: _Taken, replica: Replica, due: DueReading, cut_id: str = "") -> None:
        add_reading(taken.record, replica, due, cut_id)
        taken.rows += 1 + len(due.mark.minute_rows)
        if due.kind is not ReadingKind.CUT:
            taken.read.append((replica, replica.log.log_generation, due.mark.end_offset))

    def _add_increments(self, taken: _Taken) -> None:
        for delivered, messages, size in self.increments.take_delivered(max(0, _ROWS_MAX - taken.rows)):
            add_delivered(taken.record, delivered, messages, size)
            taken.rows += 1
        for requests, valid, bad in self.increments.take_requests(max(0, _ROWS_MAX - taken.rows)):
            add_requests(taken.record, requests, valid, bad)
            taken.rows += 1

    async def _write(self, taken: _Taken) -> None:
        await self._topic.write(taken.record)
        self._stats.usage_readings += len(taken.record.readings)
        for replica, log_generation, end_offset in taken.read:
            replica.note_metered(log_generation, end_offset)
        for replica, end_offset in taken.sealed:
            replica.sealed_offset = max(replica.sealed_offset, end_offset)


def is_metered(replica: Replica) -> bool:
    """Internal topics are not."""
    return replica.topic.tenant != SYSTEM_TENANT


def _new() -> _Taken:
    return _Taken(usage_pb2.UsageRecord(), [], [])
