"""Judges what a clean stop leaves on the disk, as a power cut right after it would leave it."""

from data_plane.log.checkpoint import read_checkpoint
from data_plane.log.partition_log import PartitionLog
from data_plane.node.directory import CLEAN_FILE
from data_plane.testkit.cluster import SimBroker
from data_plane.testkit.disk import DISK_BYTES, SimDisk
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.medium import CutChoice
from data_plane.testkit.stored_log import StoredLog
from data_plane.testkit.watcher import Watcher


def check_clean_stop(broker: SimBroker, watcher: Watcher) -> bool:
    """I22: nothing of any replica depends on what was not synced, and the next start has nothing to replay.

    False when the broker left without its marker because its disk is full: that is no clean stop, and says so.
    """
    node = broker.node
    if node is None:
        return False
    left = broker.medium.after_cut(CutChoice())
    disk = SimDisk(left)
    if not disk.exists(CLEAN_FILE):
        if broker.faults.capacity_bytes < DISK_BYTES:
            return False
        raise InvariantViolated(Invariant.I22, f"{broker.host} was stopped and left no marker")
    entries = read_checkpoint(disk).entries
    for where, replica in sorted(node.host.replicas.items()):
        if replica.broken or replica.log.damage or watcher.damaged(broker, where):
            continue
        entry, end = entries.get(where), replica.log.log_end_offset
        if end == replica.log.log_start_offset:
            continue  # made after the checkpoint, or emptied: there is nothing to know
        if entry is None or entry.recovery_point < end:
            told = "nothing" if entry is None else str(entry.recovery_point)
            raise InvariantViolated(
                Invariant.I22,
                f"{watcher.name_of(where)} on {broker.host} ends at {end}, its last checkpoint knows {told}",
            )
        reached = _held(StoredLog(left, where), replica.log)
        if reached < end:
            raise InvariantViolated(
                Invariant.I22,
                f"{watcher.name_of(where)} on {broker.host} ends at {end}, its synced files at {reached}",
            )
    return True


def _held(left: StoredLog, log: PartitionLog) -> int:
    """Where the batches end that stand on the disk without a gap."""
    reached = log.log_start_offset
    for stored in left.batches(reached, log.log_end_offset):
        if stored.base_offset > max(reached, log.log_start_offset):
            break
        reached = stored.end_offset
    return reached
