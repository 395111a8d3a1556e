"""The checkpoint of a log directory: recovery points and high watermarks of all partitions, and where the journal begins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from data_plane.disk.port import Disk, SyncStep
from penstock.contract.ids import TopicPartition

if TYPE_CHECKING:
    from data_plane.log.journal import Journal
    from data_plane.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """One partition as of a checkpoint. Offsets in records."""

    where: TopicPartition
    replica_generation: int
    recovery_point: int
    """Everything below was synced in the segment files (RL120)."""
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The whole file."""

    first_sequence: int
    """The first journal record that recovery needs."""
    entries: dict[TopicPartition, CheckpointEntry]


def read_checkpoint(disk: Disk) -> Checkpoint:
    """Raises `FileMissing` (a new directory) or `SmallFileCorrupt` (media damage: the directory is unclean, RL45)."""
    raise NotImplementedError


def take_checkpoint(disk: Disk, journal: "Journal", logs: Sequence["PartitionLog"]) -> Iterator[list[SyncStep]]:
    """A protocol (see `small_file`): sync what changed, write `checkpoint`, give journal files back for reuse.

    Appends and reads may go on between the steps; one checkpoint at a time.
    """
    raise NotImplementedError
