"""The journal of a log directory: one file to sync for the writes of all partitions, replayed over their files at boot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from data_plane.disk.port import Disk, SyncStep
from data_plane.log.outcomes import PieceKind, Unsynced
from penstock.contract.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Sizes in bytes. A record larger than a file makes that file larger."""

    file_bytes: int = 64 * 1024 * 1024
    spare_files: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One record as read back, its checksums verified."""

    sequence: int
    kind: PieceKind
    where: TopicPartition
    replica_generation: int
    high_watermark: int
    offset: int
    end_offset: int
    segment_base: int
    position: int
    stamp_index: int
    stamps: bytes
    batches: bytes
    intact: bool = True
    """False: the header holds but the stamps or batches do not, below the durable mark; the range is known to be damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the journal held."""

    records: dict[TopicPartition, list[JournalRecord]]
    torn_bytes: int
    unknown_loss: bool
    """Records below the durable mark are unreadable and it is not known whose: every partition is unclean (RL122)."""


class Journal:
    """One writer: the committer. `append_steps` must be synced in the order in which it was asked."""

    @classmethod
    def open(
        cls, disk: Disk, identity: bytes, first_sequence: int, settings: JournalSettings | None = None
    ) -> tuple[Self, Replay]:
        """Boot: read everything from `first_sequence` (the checkpoint's; 1 in a new directory) on, then stand behind it.

        `identity` is the directory id: it seeds the headers' checksums, so nothing foreign or forged is taken for a record.
        """
        raise NotImplementedError

    def append_steps(self, unsynced: Sequence[Unsynced]) -> list[SyncStep]:
        """Steps that make all of `unsynced` durable, in order."""
        raise NotImplementedError

    @property
    def checkpoint_due(self) -> bool:
        raise NotImplementedError

    def prepare_steps(self) -> Iterator[list[SyncStep]]:
        """A protocol that makes spare files ready ahead of need; to be run beside commits."""
        raise NotImplementedError
