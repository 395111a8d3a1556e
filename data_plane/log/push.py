"""What a leader pushes, checked batch by batch before a follower writes any of it (RL33)."""

# As an annotation of a class, mypyc looks for it among the names of the module.
from builtins import memoryview
from dataclasses import dataclass
from typing import NamedTuple

from data_plane.disk.port import Buffer
from data_plane.log.outcomes import ReplicaRejected
from data_plane.log.stored_batch import check_stored
from penstock.contract.errors import PenstockError
from penstock.records.batch import BatchHeader
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, StampFlag, unpack_stamp

_FIRST_OF_SEGMENT = int(StampFlag.FIRST_OF_SEGMENT)
_CLEANED = int(StampFlag.CLEANED)


class PushedBatch(NamedTuple):
    """One batch with its stamp, verified."""

    stamp: Stamp
    packed: bytes
    batch: memoryview
    header: BatchHeader


@dataclass(slots=True)
class PushedRun:
    """Consecutive batches of one segment."""

    begins_segment: bool
    batches: list[PushedBatch]


def check_push(
    stamps: memoryview, batches: memoryview, seed: int, *, log_end: int, last_epoch: int, leader_epoch: int,
    last_accepted_ms: int, active_size: int | None,
) -> list[PushedRun]:  # fmt: skip
    """Check that the batches continue a log that ends at `log_end`; `active_size` None = it has no segment.

    Order and no gap (compaction, the one reason for a gap, does not exist), checksum of each stamp and batch,
    epochs that do not decrease and do not exceed the leader's, positions and sizes that agree. Raises
    `ReplicaRejected`.
    """
    if len(stamps) % STAMP_BYTES:
        raise ReplicaRejected(f"{len(stamps)} bytes of stamps, a multiple of {STAMP_BYTES} required")
    runs: list[PushedRun] = []
    expected, epoch, accepted_ms, position, at = log_end, last_epoch, last_accepted_ms, active_size, 0
    for stamp_at in range(0, len(stamps), STAMP_BYTES):
        packed = bytes(stamps[stamp_at : stamp_at + STAMP_BYTES])
        try:
            stamp = unpack_stamp(packed, seed)
            batch = batches[at : at + stamp.size]
            header = check_stored(stamp, batch)
        except (StampCorrupt, PenstockError) as error:
            raise ReplicaRejected(f"offset {expected}: {error}") from None
        first = bool(stamp.flags & _FIRST_OF_SEGMENT)
        if stamp.base_offset != expected:
            raise ReplicaRejected(f"base offset {stamp.base_offset}, {expected} required")
        if not epoch <= stamp.leader_epoch <= leader_epoch:
            raise ReplicaRejected(
                f"offset {expected}: batch of epoch {stamp.leader_epoch}, {epoch} to {leader_epoch} required"
            )
        if stamp.accepted_ms < accepted_ms:
            raise ReplicaRejected(
                f"offset {expected}: accepted at {stamp.accepted_ms}, {accepted_ms} or later required"
            )
        if stamp.flags & _CLEANED:
            raise ReplicaRejected(f"offset {expected}: a compacted batch; compaction is not known here")
        if (position is None and not first) or stamp.position != (0 if first else position):
            raise ReplicaRejected(
                f"offset {expected}: at byte {stamp.position} of its segment, {0 if first else position} required"
            )
        if first or not runs:
            runs.append(PushedRun(first, []))
        runs[-1].batches.append(PushedBatch(stamp, packed, batch, header))
        position = stamp.position + stamp.size
        expected, epoch, accepted_ms = stamp.end_offset, stamp.leader_epoch, stamp.accepted_ms
        at += stamp.size
    if at != len(batches):
        raise ReplicaRejected(f"{len(batches)} bytes of batches, {at} required by their stamps")
    return runs


def buffers_of(run: PushedRun) -> tuple[list[bytes], list[Buffer]]:
    """(packed stamps, batches) of a run, to be written one behind the other."""
    return [pushed.packed for pushed in run.batches], [pushed.batch for pushed in run.batches]
