"""Judges what a clean stop leaves on the disk, as a power cut right after it would leave it."""

from collections.abc import Mapping

from data_plane.log.checkpoint import read_checkpoint
from data_plane.log.partition_log import PartitionLog
from data_plane.node.log_directory.directory import CLEAN_FILE
from data_plane.testkit.cluster import SimBroker
from data_plane.testkit.disk import DISK_BYTES, SimDisk
from data_plane.testkit.invariants import Invariant, InvariantViolated
from data_plane.testkit.medium import CutChoice
from data_plane.testkit.stored_log import StoredLog
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import TopicPartition
from penstock.contract.topic_settings import Durability


def check_clean_stop(broker: SimBroker, watcher: Watcher, ends: Mapping[TopicPartition, int]) -> bool:
    """I22: what replicas held when the stop was asked for, up to `ends`, is in synced files, and the last checkpoint
    knows it. What leaders push after that checkpoint is in the journal, and of relaxed topics in synced files.

    False when the broker left without its marker because its disk is full, or because a relaxed replica took more than
    was synced: that is no clean stop, and says so. Nor is one on a disk that lies.
    """
    node = broker.node
    if node is None or broker.faults.lying:
        return False
    left = broker.medium.after_cut(CutChoice())
    disk = SimDisk(left)
    if not disk.exists(CLEAN_FILE):
        if broker.faults.capacity_bytes < DISK_BYTES or any(
            replica.log.owes_a_sync for replica in node.replicas.by_partition.values()
        ):
            return False
        raise InvariantViolated(Invariant.I22, f"{broker.host} was stopped and left no marker")
    entries = read_checkpoint(disk).entries
    for where, replica in sorted(node.replicas.by_partition.items()):
        if replica.stopped or replica.log.damage or watcher.damaged(broker, where):
            continue
        entry, end = entries.get(where), min(ends.get(where, 0), replica.log.log_end_offset)
        if replica.log.settings.durability is not Durability.FSYNC:
            whole = replica.log.log_end_offset
            if (synced := _synced_end(StoredLog(left, where), replica.log, whole)) < whole:
                raise InvariantViolated(
                    Invariant.I22,
                    f"{watcher.name_of(where)} on {broker.host}: a marker vouches for {whole}, {synced} is synced",
                )
        if end <= replica.log.log_start_offset:
            continue
        if entry is None or entry.recovery_point < end:
            checkpoint = "nothing" if entry is None else str(entry.recovery_point)
            raise InvariantViolated(
                Invariant.I22,
                f"{watcher.name_of(where)} on {broker.host} ends at {end}, its last checkpoint knows {checkpoint}",
            )
        reached = _synced_end(StoredLog(left, where), replica.log, end)
        if reached < end:
            raise InvariantViolated(
                Invariant.I22,
                f"{watcher.name_of(where)} on {broker.host} ends at {end}, its synced files at {reached}",
            )
    return True


def _synced_end(left: StoredLog, log: PartitionLog, end: int) -> int:
    """Where the batches end that stand on the disk without a gap, those below `end` looked at."""
    reached = log.log_start_offset
    for stored in left.batches(reached, end):
        if stored.base_offset > max(reached, log.log_start_offset):
            break
        reached = stored.end_offset
    return reached
