"""The journal of a log directory: one file to sync for the writes of all partitions.

A file's number is the sequence of its first record. Sequences grow by one; after a boot the journal goes on in a
new file whose number skips at least one, so that remains of a torn write can never continue what stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from data_plane.disk.port import Buffer, Disk, File, SyncDirectory, SyncFile, SyncStep, WriteFile
from data_plane.log import layout
from data_plane.log.journal_record import file_seed, pack_head, piece_bytes
from data_plane.log.journal_replay import Replay, journal_file, journal_numbers, read_journal
from data_plane.log.outcomes import Unsynced
from data_plane.log.small_file import Protocol
from penstock.contract.invariant import invariant

_SPARE = "spare-"
_ZEROS = bytes(4 << 20)
_JOINED_BYTES_MAX = 64 << 10
"""Batches of records up to this size are copied together: one buffer to write instead of many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Sizes in bytes. A record larger than a file makes that file larger."""

    file_bytes: int = 64 << 20
    checkpoint_bytes: int = 256 << 20
    """A checkpoint is due when so much was journaled since the last one: bounds recovery and disk use."""
    spare_files_max: int = 5
    """Files kept for reuse; what a checkpoint gives back above it is removed."""


class Journal:
    """One writer, the committer: what `append_steps` returns is synced before it is called again.

    When such a sync fails because the disk is full, `take_back` undoes the call. After any other fault the directory is
    given up (RL126).
    """

    def __init__(
        self, disk: Disk, identity: bytes, settings: JournalSettings, last_sequence: int, next_sequence: int
    ) -> None:
        self._disk = disk
        self._identity = identity
        self._settings = settings
        self._last_sequence = last_sequence
        self._next_sequence = next_sequence
        self._file: File | None = None
        self._seed = 0
        self._position = 0
        self._numbers = journal_numbers(disk)
        self._retired: list[File] = []
        self._since_checkpoint = 0
        self._undo: tuple[int, int, int, int] | None = None
        spares = [int(name[len(_SPARE) :]) for name in disk.list(layout.JOURNAL) if _is_spare(name)]
        self._spares = sorted(spares)
        self._spares_made = max(spares, default=0)
        self._preparing = False

    @classmethod
    def open(
        cls, disk: Disk, identity: bytes, first_sequence: int, settings: JournalSettings | None = None
    ) -> tuple[Self, Replay]:
        """Boot: read everything from `first_sequence` (the checkpoint's; 1 in a new directory) on, then stand
        behind it.

        `identity` is the directory id: it seeds the headers' checksums.
        """
        if not disk.exists(layout.JOURNAL):
            disk.make_directories(layout.JOURNAL)
            disk.sync_now([SyncDirectory(layout.parent(layout.JOURNAL))])
        replay = read_journal(disk, identity, first_sequence)
        following = max(replay.last_sequence, replay.highest_number) + (2 if replay.highest_number else 1)
        return cls(disk, identity, settings or JournalSettings(), replay.last_sequence, following), replay

    @property
    def next_sequence(self) -> int:
        """What the next record will be numbered."""
        return self._next_sequence

    # writing

    def append_steps(self, unsynced: Sequence[Unsynced]) -> list[SyncStep]:
        """Steps that make all of `unsynced` durable, in order: their own steps first, then one write and one sync.

        Raises port.DiskFull (nothing changed) when a new file cannot be made.
        """
        steps = list(dict.fromkeys(step for one in unsynced for step in one.first))
        length = sum([piece_bytes(piece) for one in unsynced for piece in one.pieces])
        if not length:
            return steps
        file = self._file
        if file is None or (self._position and self._position + length > self._settings.file_bytes):
            file = self._rotate()
            steps.append(SyncDirectory(layout.JOURNAL))
        self._undo = (self._last_sequence, self._next_sequence, self._position, self._since_checkpoint)
        buffers: list[Buffer] = []
        small: list[Buffer] = []
        sequence, seed, durable = self._next_sequence, self._seed, self._last_sequence
        for one in unsynced:
            for piece in one.pieces:
                piece.sequence = sequence
                small.append(pack_head(piece, one, sequence, durable, seed))
                small += piece.stamps
                if piece.batches_bytes <= _JOINED_BYTES_MAX:
                    small += piece.batches
                else:
                    buffers.append(b"".join(small))
                    buffers += piece.batches
                    small.clear()
                sequence += 1
        if small:
            buffers.append(b"".join(small))
        self._last_sequence = sequence - 1
        self._next_sequence = sequence
        position = self._position
        self._position += length
        self._since_checkpoint += length
        steps.append(WriteFile(file, position, buffers))
        steps.append(SyncFile(file))
        return steps

    def take_back(self) -> None:
        """The steps of the last `append_steps` failed because the disk is full: its records do not exist.

        Ask for them again later, the same first and in the same order: what reached the file is overwritten.
        """
        invariant(self._undo is not None, "there is a call of append_steps to take back")
        if self._undo is not None:
            self._last_sequence, self._next_sequence, self._position, self._since_checkpoint = self._undo
            self._undo = None

    def _rotate(self) -> File:
        """Go on in a spare file, or in a new one (slower to sync, but as good)."""
        number = self._next_sequence
        path = f"{layout.JOURNAL}/{journal_file(number)}"
        if self._spares:
            self._disk.rename(f"{layout.JOURNAL}/{_SPARE}{self._spares[0]}", path)
            del self._spares[0]
        file = self._disk.open_appended(path, create=True)
        if self._file is not None:
            self._retired.append(self._file)
        self._file = file
        self._seed = file_seed(self._identity, number)
        self._position = 0
        self._numbers.append(number)
        return file

    # checkpoints and spare files

    @property
    def checkpoint_due(self) -> bool:
        return self._since_checkpoint >= self._settings.checkpoint_bytes

    def begin_checkpoint(self) -> None:
        """What is journaled from here on counts towards the next checkpoint."""
        self._since_checkpoint = 0

    def give_back(self, first_sequence: int) -> Protocol:
        """A durable checkpoint needs records from `first_sequence` on: keep the files before it for reuse, or
        remove them."""
        while len(self._numbers) > 1 and self._numbers[1] <= first_sequence:
            self._give_back_oldest()
        if self._file is None and self._last_sequence < first_sequence:
            while self._numbers:
                self._give_back_oldest()
        for file in self._retired:
            file.close()
        self._retired.clear()
        yield [SyncDirectory(layout.JOURNAL)]

    def _give_back_oldest(self) -> None:
        path = f"{layout.JOURNAL}/{journal_file(self._numbers.pop(0))}"
        if len(self._spares) < self._settings.spare_files_max:
            self._disk.rename(path, self._new_spare())
        else:
            self._disk.remove(path)

    def _new_spare(self) -> str:
        self._spares_made += 1
        self._spares.append(self._spares_made)
        return f"{layout.JOURNAL}/{_SPARE}{self._spares_made}"

    @property
    def preparation_due(self) -> bool:
        """No spare file is ready: the next rotation would go on in a file that grows with each write."""
        return not self._spares and not self._preparing

    def prepare_steps(self) -> Protocol:
        """Make one spare file ready, written with zeros, some MiB a stage; run it beside commits when
        `preparation_due`.

        May raise port.DiskFull: nothing is lost by that.
        """
        if not self.preparation_due:
            return
        self._preparing = True
        temporary = f"{layout.JOURNAL}/preparing{layout.TEMPORARY_SUFFIX}"
        self._disk.remove(temporary)
        file = self._disk.open_appended(temporary, create=True)
        try:
            for position in range(0, self._settings.file_bytes, len(_ZEROS)):
                length = min(len(_ZEROS), self._settings.file_bytes - position)
                yield [WriteFile(file, position, [_ZEROS[:length]]), SyncFile(file)]
            self._disk.rename(temporary, self._new_spare())
        finally:
            file.close()
            self._disk.remove(temporary)
            self._preparing = False
        yield [SyncDirectory(layout.JOURNAL)]

    def close(self) -> None:
        """Close the files; what was not synced is not durable."""
        for file in self._retired:
            file.close()
        self._retired.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def _is_spare(name: str) -> bool:
    return name.startswith(_SPARE) and name[len(_SPARE) :].isascii() and name[len(_SPARE) :].isdigit()
