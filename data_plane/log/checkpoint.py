"""The checkpoint of a log directory: recovery points and high watermarks of all partitions, and where the journal
begins."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

from data_plane.disk.port import Disk, SyncStep
from data_plane.log import layout
from data_plane.log.outcomes import DamagedRange
from data_plane.log.small_file import (
    Protocol,
    SmallFileCorrupt,
    SmallFileKind,
    pack_small_file,
    read_whole,
    unpack_small_file,
    write_small_file,
)
from penstock.contract.ids import TopicId, TopicPartition

FORMAT_VERSION = 1
_HEAD = struct.Struct(">QI")
_ENTRY = struct.Struct(">16sIQqqqQH")
_RANGE = struct.Struct(">qq")
_LOGS_PER_STAGE = 32
"""Bounds the work between two stages, all of it on the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """One partition as of a checkpoint. Offsets in records."""

    where: TopicPartition
    replica_generation: int
    recovery_point: int
    """Everything below was synced in the segment files (RL120)."""
    high_watermark: int
    log_start_offset: int
    first_sequence: int
    """The partition's first journal record that its files may not show yet."""
    damage: tuple[DamagedRange, ...] = ()
    """What is known to be damaged: it is not forgotten by a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The whole file."""

    first_sequence: int
    """The first journal record that recovery needs."""
    entries: dict[TopicPartition, CheckpointEntry]


class CheckpointedLog(Interface):
    """What a checkpoint asks of a log."""

    @property
    def unapplied_sequence(self) -> int | None:
        """Sequence of a journal record whose effect the files do not show yet."""

    def begin_checkpoint(self, next_sequence: int) -> tuple[Sequence[SyncStep], CheckpointEntry | None]: ...

    def end_checkpoint(self) -> None: ...


class CheckpointedJournal(Interface):
    """What a checkpoint asks of the journal."""

    @property
    def next_sequence(self) -> int: ...

    def begin_checkpoint(self) -> None: ...

    def give_back(self, first_sequence: int) -> Protocol: ...


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    parts = [_HEAD.pack(checkpoint.first_sequence, len(checkpoint.entries))]
    for entry in checkpoint.entries.values():
        parts.append(
            _ENTRY.pack(
                entry.where.topic_id, entry.where.partition, entry.replica_generation, entry.recovery_point,
                entry.high_watermark, entry.log_start_offset, entry.first_sequence, len(entry.damage),
            )
        )  # fmt: skip
        parts += [_RANGE.pack(one.first_offset, one.end_offset) for one in entry.damage]
    return pack_small_file(SmallFileKind.CHECKPOINT, FORMAT_VERSION, b"".join(parts))


def unpack_checkpoint(data: bytes) -> Checkpoint:
    """Raises `SmallFileCorrupt`."""
    version, body = unpack_small_file(SmallFileKind.CHECKPOINT, data)
    if version != FORMAT_VERSION:
        raise SmallFileCorrupt(f"checkpoint: version {version}, {FORMAT_VERSION} known")
    entries: dict[TopicPartition, CheckpointEntry] = {}
    try:
        first_sequence, count = _HEAD.unpack_from(body)
        at = _HEAD.size
        for _ in range(count):
            topic_id, partition, generation, point, mark, start, sequence, bad = _ENTRY.unpack_from(body, at)
            at += _ENTRY.size
            ranges = [_RANGE.unpack_from(body, at + n * _RANGE.size) for n in range(bad)]
            damage = tuple(DamagedRange(first, end, "found earlier") for first, end in ranges)
            at += bad * _RANGE.size
            where = TopicPartition(TopicId(topic_id), partition)
            entries[where] = CheckpointEntry(
                where=where, replica_generation=generation, recovery_point=point, high_watermark=mark,
                log_start_offset=start, first_sequence=sequence, damage=damage,
            )  # fmt: skip
    except struct.error as error:
        raise SmallFileCorrupt(f"checkpoint: {error}") from None
    if at != len(body):
        raise SmallFileCorrupt(f"checkpoint: {len(body) - at} bytes behind the last entry, none allowed")
    return Checkpoint(first_sequence=first_sequence, entries=entries)


def read_checkpoint(disk: Disk) -> Checkpoint:
    """Raises `FileMissing` (a new directory) or `SmallFileCorrupt` (media damage: the directory is unclean, RL45)."""
    return unpack_checkpoint(read_whole(disk, layout.CHECKPOINT))


def take_checkpoint(disk: Disk, journal: CheckpointedJournal, logs: Sequence[CheckpointedLog]) -> Protocol:
    """A protocol (see `small_file`): sync what changed, write `checkpoint`, give journal files back for reuse.

    Appends and reads may go on between the stages; one checkpoint at a time, and no log is removed meanwhile.
    """
    first_sequence = journal.next_sequence
    journal.begin_checkpoint()
    entries: dict[TopicPartition, CheckpointEntry] = {}
    for begin in range(0, len(logs), _LOGS_PER_STAGE):
        some = logs[begin : begin + _LOGS_PER_STAGE]
        steps: dict[SyncStep, None] = {}
        for log in some:
            more, entry = log.begin_checkpoint(journal.next_sequence)
            steps.update((step, None) for step in more)
            if entry is not None:
                entries[entry.where] = entry
                first_sequence = min(first_sequence, entry.first_sequence)
        yield list(steps)
        for log in some:
            log.end_checkpoint()
    checkpoint = Checkpoint(first_sequence=first_sequence, entries=entries)
    yield from write_small_file(disk, layout.CHECKPOINT, pack_checkpoint(checkpoint))
    yield from journal.give_back(first_sequence)
