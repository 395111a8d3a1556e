"""Readings of the partitions that this broker leads: which are due, and what stands in them."""

import asyncio

from data_plane.metering.readings import DueReading, MeterPeriods, PartitionMeter, ReadingKind
from data_plane.metering.retained import RetainedOdometer
from data_plane.node.metering.record_draft import RecordDraft
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.errors import CorruptLog
from penstock.contract.ids import TopicPartition
from penstock.records.usage import OdometerMark, minute_of


class PartitionReadings:
    """One meter a partition and leadership, from its first reading on."""

    def __init__(self, clock: Clock, replicas: ReplicaSet, periods: MeterPeriods) -> None:
        self._clock = clock
        self._replicas = replicas
        self._periods = periods
        self._meters: dict[TopicPartition, PartitionMeter] = {}

    def forget_others(self) -> None:
        """Drop meters of partitions that are not led here any more."""
        for partition in list(self._meters):
            replica = self._replicas.find(partition)
            if replica is None or replica.leading is None:
                del self._meters[partition]

    def is_early(self, replica: Replica, now_ms: float, minute: int) -> bool:
        """True if only time makes its next reading due: no minute has begun, no seal waits, no loss was declared. So a
        partition that is written to all the time takes next to nothing in the rounds between its readings.
        """
        meter, usage = self._meter(replica), replica.log.usage
        return (
            meter is not None
            and meter.early(replica.log.log_end_offset, now_ms, self._periods)
            and meter.retained.until >= minute
            and not usage.has_minute_marks
            and usage.sealed_end_offset <= replica.sealed_offset
            and usage.log_generation == replica.metered_generation
        )

    def early_until_ms(self, replica: Replica) -> float:
        """When time alone makes its next reading due, of one that `is_early`."""
        return self._meters[replica.where].early_until_ms(self._periods)

    def may_be_due(self, replica: Replica) -> bool:
        """True if it is led here, and not at rest since it was read and all that was read of it is written."""
        log = replica.log
        if replica.leading is None or not replica.topic.metered or not self._replicas.has(replica):
            return False
        meter = self._meter(replica)
        return (
            meter is None
            or replica.metered_generation != log.usage.log_generation
            or log.usage.sealed_end_offset > replica.sealed_offset
            or not meter.quiet(log.log_end_offset, self._clock.monotonic_ms(), self._periods)
        )

    def read(self, replica: Replica, draft: RecordDraft, *, at_once: bool) -> None:
        """Add what is due of it."""
        leading, log = replica.leading, replica.log
        if leading is None:
            return
        meter = self._meter(replica)
        if meter is None:
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

    def retained(self, replica: Replica) -> RetainedOdometer | None:
        """The bytes that this leadership has kept up to now; None before its first reading."""
        leading, meter = replica.leading, self._meter(replica)
        if leading is None or meter is None:
            return None
        retained, now_ms = meter.retained, self._clock.now_ms()
        if minute_of(now_ms) != retained.until:
            replicas = len(leading.record.replicas)
            retained.look(now_ms, self._clock.monotonic_ms(), replica.log.size_bytes, replicas)
        return retained

    async def read_loss(self, replica: Replica, draft: RecordDraft) -> bool:
        """After a declared loss, before any other reading of the new log generation: the totals where the old one
        ended. False: not yet.
        """
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

    async def last_mark(self, replica: Replica) -> OdometerMark | None:
        """The totals of a deleted partition, at what this replica knows to be committed; None when they are not known:
        never any more, unless the replica is busy.
        """
        log = replica.log
        if log.high_watermark == log.log_end_offset:
            return log.usage.mark()
        return await self._fold(replica, log.high_watermark)

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

    def _meter(self, replica: Replica) -> PartitionMeter | None:
        """That of its present leadership here."""
        leading, meter = replica.leading, self._meters.get(replica.where)
        if leading is None or meter is None or meter.leader_epoch != leading.leader_epoch:
            return None
        return meter
