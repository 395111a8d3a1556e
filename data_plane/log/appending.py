"""Appending to a log, as leader and as follower: write the files first, then take the batch into account."""

from collections.abc import Sequence

from data_plane.disk import port
from data_plane.disk.port import Buffer
from data_plane.log.append_time import placed_at_time
from data_plane.log.birth import Birth
from data_plane.log.derived import DerivedState
from data_plane.log.epochs import NO_EPOCH
from data_plane.log.outcomes import DamagedRange, ReplicaRejected
from data_plane.log.pending import PendingWrites
from data_plane.log.push import PushedRun, buffers_of, check_push
from data_plane.log.sealing import Sealing
from data_plane.log.segment import Segment
from data_plane.log.segments import Segments
from data_plane.log.sidecar import checksum_of
from data_plane.log.tail import Tail
from penstock.contract import errors
from penstock.contract.invariant import invariant
from penstock.contract.topic_settings import Durability, TimestampType, TopicSettings
from penstock.records.batch import BATCH_HEADER_BYTES, BatchHeader, placed
from penstock.records.stamp import Stamp, StampFlag, pack_stamp

_JOINED_BYTES_MAX = 16 << 10
"""Batches up to this size are copied once, so that they do not keep the frame alive that they came in."""
_COPIED_BYTES_MAX = 64 << 10
"""Pushes up to this size likewise."""
_TRANSACTIONAL = int(StampFlag.TRANSACTIONAL)
_FIRST_OF_SEGMENT = int(StampFlag.FIRST_OF_SEGMENT)


class Appender:
    """The one writer of a log's segments."""

    def __init__(
        self, settings: TopicSettings, segments: Segments, derived: DerivedState, sealing: Sealing, tail: Tail,
        pending: PendingWrites, damage: list[DamagedRange], end_offset: int, *, birth: Birth,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.end_offset = end_offset
        self.name = str(segments.where)
        self._segments = segments
        self._derived = derived
        self._sealing = sealing
        self._tail = tail
        self._pending = pending
        self._damage = damage
        self._birth = birth

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._journaled = settings.durability is Durability.FSYNC

    def as_leader(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        floor_ms: int,
        principal: int,
    ) -> Stamp:
        """As `PartitionLog.append_as_leader`."""
        derived = self._derived
        if self._damage or self._pending.change is not None:
            self._require_appendable()
        if leader_epoch != derived.written_epoch:
            self._be_born()
            self.begin_epoch(leader_epoch)
            derived.write_new_epochs()
        size, base_offset = len(batch), self.end_offset
        accepted_ms = max(now_ms, derived.last_accepted_ms, floor_ms)
        active = self._segments.active
        flags = _TRANSACTIONAL if header.transactional else 0
        segment = active
        if (
            segment is None
            or segment.size + size > self._settings.segment_bytes
            or accepted_ms - segment.first_accepted_ms >= self._settings.segment_ms
        ):
            segment = self._segments.made(base_offset)
            flags |= _FIRST_OF_SEGMENT
        stamp = Stamp(
            base_offset, header.last_offset_delta + 1, header.record_count, size, leader_epoch, accepted_ms, principal,
            header.producer_id, header.producer_epoch, flags, segment.size, header.base_sequence,
        )  # fmt: skip
        packed = pack_stamp(stamp, self._segments.seed)
        max_timestamp = header.max_timestamp
        if self._settings.timestamp_type is TimestampType.CREATE:
            buffers = placed(batch, base_offset, leader_epoch)
        else:
            buffers = placed_at_time(batch, header, base_offset, leader_epoch, accepted_ms)
            max_timestamp = accepted_ms
        if size <= _JOINED_BYTES_MAX:
            whole = b"".join(buffers)
            buffers = [whole]
            head = whole[:BATCH_HEADER_BYTES]
        else:
            head = (bytes(buffers[0]) + bytes(buffers[1][:BATCH_HEADER_BYTES]))[:BATCH_HEADER_BYTES]
        try:
            segment.write([packed], buffers)
        except port.DiskFull as full:
            if segment is not active:
                segment.remove(set_aside=False)
            raise self._disk_full(full) from None
        if segment is not active:
            self._rolled(active, segment, stamp.end_offset)
        if self._journaled and not self._pending.flush_needed:
            self._pending.journal(
                segment.base_offset,
                segment.size,
                segment.stamp_count,
                base_offset,
                stamp.end_offset,
                [packed],
                buffers,
                size,
            )
        else:
            self._pending.leave_to_flush()
        self._took(segment, stamp, packed, head, buffers, max_timestamp)
        return stamp

    def as_follower(self, stamps: memoryview, batches: memoryview, leader_epoch: int) -> int:
        """As `PartitionLog.append_as_follower`."""
        derived = self._derived
        if self._damage and self._lost_tail():
            raise ReplicaRejected(
                f"{self.name}: acknowledged records are missing at its end, a truncation required"
            )
        self._require_appendable()
        self._be_born()
        if len(batches) <= _COPIED_BYTES_MAX:
            batches = memoryview(bytes(batches))
        active = self._segments.active
        runs = check_push(
            stamps, batches, self._segments.seed, log_end=self.end_offset, last_epoch=derived.epochs.last,
            leader_epoch=leader_epoch, last_accepted_ms=derived.last_accepted_ms,
            active_size=None if active is None else active.size,
        )  # fmt: skip
        for run, (segment, packed, buffers) in zip(runs, self._write_runs(runs), strict=True):
            first, last = run.batches[0].stamp, run.batches[-1].stamp
            if run.begins_segment:
                self._rolled(self._segments.active, segment, first.end_offset)
            size = last.position + last.size - first.position
            if self._journaled and not self._pending.flush_needed:
                self._pending.journal(
                    segment.base_offset, first.position, segment.stamp_count, first.base_offset, last.end_offset,
                    packed, buffers, size,
                )  # fmt: skip
            else:
                self._pending.leave_to_flush()
            for one in run.batches:
                if one.stamp.leader_epoch != derived.written_epoch:
                    self.begin_epoch(one.stamp.leader_epoch)
                    derived.write_new_epochs()
                head = bytes(one.batch[:BATCH_HEADER_BYTES])
                self._took(segment, one.stamp, one.packed, head, [one.batch], one.header.max_timestamp)
        return self.end_offset

    def _be_born(self) -> None:
        """Before anything is written."""
        try:
            self._birth.make()
        except port.DiskFull as full:
            raise self._disk_full(full) from None

    def _write_runs(self, runs: list[PushedRun]) -> list[tuple[Segment, list[bytes], list[Buffer]]]:
        """Write each run to its segment, with its packed stamps and batches; on a full disk none of them."""
        active = self._segments.active
        targets: list[tuple[Segment, list[bytes], list[Buffer]]] = []
        for run in runs:
            packed, buffers = buffers_of(run)
            target = active
            if run.begins_segment or target is None:
                target = self._segments.made(run.batches[0].stamp.base_offset)
            try:
                targets.append((target, packed, buffers))
                target.write(packed, buffers)
            except port.DiskFull as full:
                for written, _, _ in targets:
                    if written is active:
                        written.take_back()
                    else:
                        written.remove(set_aside=False)
                        self._segments.name_changes += 1
                raise self._disk_full(full) from None
        return targets

    def _took(
        self,
        segment: Segment,
        stamp: Stamp,
        packed: bytes,
        head: bytes,
        buffers: Sequence[Buffer],
        max_timestamp: int,
    ) -> None:
        """The segment's files hold the batch: take it into account."""
        end_offset = stamp.end_offset
        segment.note(
            end_offset, stamp.size, stamp.accepted_ms, stamp.leader_epoch, max_timestamp, checksum_of(packed)
        )
        self._segments.touched(segment)
        self._derived.apply(stamp)
        self._sealing.appended(head, packed)
        self._tail.add(stamp.base_offset, end_offset, stamp.size, packed, tuple(buffers))
        self.end_offset = end_offset

    def _rolled(self, closed: Segment | None, segment: Segment, first_batch_end: int) -> None:
        """`segment` is active now; its first batch, ending at `first_batch_end`, is about to be taken into account."""
        if closed is not None:
            self._sealing.closed(closed, self._derived.draft(), first_batch_end)
            closed.write_index()
        self._segments.attach(segment)
        self._sealing.begin(segment)

    def _require_appendable(self) -> None:
        invariant(self._pending.change is None, f"{self.name}: nothing is appended while its bounds change")
        if self._lost_tail():
            raise errors.CorruptLog(f"{self.name}: {self._damage[-1]}; an operator's repair required")

    def _lost_tail(self) -> bool:
        """Acknowledged records are missing at the log's end: their offsets must not be assigned again."""
        return any(one.end_offset > self.end_offset for one in self._damage)

    def _disk_full(self, full: port.DiskFull) -> errors.DiskFull:
        return errors.DiskFull(f"{self.name}: {full}; nothing was written, free space required")

    def begin_epoch(self, epoch: int) -> None:
        """Note that `epoch` begins at the log's end (RL27)."""
        epochs = self._derived.epochs
        invariant(epoch >= epochs.last, f"{self.name}: epoch {epoch} begins after epoch {epochs.last}")
        if epochs.begin(epoch, self.end_offset):
            self._derived.written_epoch = NO_EPOCH
