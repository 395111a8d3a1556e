"""Reading the journal at boot: which records stand, what is a torn tail, what is damage.

Within a file sequences grow by one. The first record of a file names, as its `durable_sequence`, the last record of
the files before it: so for every file but the last the end is known, and whatever is missing before it is damage
(RL122). In the last file the largest `durable_sequence` found is the durable mark: the first bad record above it is
the torn tail (RL121).
"""

from dataclasses import dataclass

from data_plane.disk.port import Disk, File
from data_plane.log import layout
from data_plane.log.journal_record import MAGIC, JournalRecord, file_seed, payload_intact, unpack_head
from data_plane.log.readable import read_or_zeros
from penstock.contract.ids import TopicPartition

JOURNAL_SUFFIX = ".journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the journal held. `close` it when all partitions are recovered."""

    records: dict[TopicPartition, list[JournalRecord]]
    """By partition, in order; of all replica generations."""
    last_sequence: int
    """Of the last record that stands."""
    highest_number: int
    """Of all journal files, 0 for none."""
    torn_records: int
    """Records with a good header behind the end: of a group that was never acknowledged as a whole."""
    unknown_loss: bool
    """Records below the durable mark are unreadable and it is not known whose: every partition is unclean (RL122)."""
    files: tuple[File, ...]

    def of(self, where: TopicPartition) -> list[JournalRecord]:
        return self.records.get(where, [])

    def close(self) -> None:
        """Close the journal files; the records' payloads cannot be read any more."""
        for file in self.files:
            file.close()


def journal_file(number: int) -> str:
    return layout.numbered(number, JOURNAL_SUFFIX)


def journal_numbers(disk: Disk) -> list[int]:
    """Numbers of all journal files, in order."""
    return sorted(
        number
        for name in disk.list(layout.JOURNAL)
        if (number := layout.number_in(name, JOURNAL_SUFFIX)) is not None
    )


def read_journal(disk: Disk, identity: bytes, first_sequence: int) -> Replay:
    """Read what stands from `first_sequence` on."""
    numbers = journal_numbers(disk)
    needed = [number for number in numbers if number > first_sequence]
    before = [number for number in numbers if number <= first_sequence]
    needed = before[-1:] + needed
    files: list[File] = []
    found: list[list[JournalRecord]] = []
    unknown_loss = False
    for number in needed:
        file = disk.open(f"{layout.JOURNAL}/{journal_file(number)}")
        files.append(file)
        read, refused = _read_file(file, number, file_seed(identity, number))
        found.append(read)
        unknown_loss = unknown_loss or refused

    standing: list[JournalRecord] = []
    torn = 0
    for at, number in enumerate(needed):
        end = _known_end(needed, found, at)
        kept, lost = _standing(found[at], number, end)
        unknown_loss = unknown_loss or lost
        torn += len(found[at]) - len(kept)
        standing += kept
    if needed and found[0] and needed[0] > first_sequence:
        head = found[0][0].head
        unknown_loss = unknown_loss or (
            head.sequence == needed[0] and head.durable_sequence >= first_sequence
        )

    records: dict[TopicPartition, list[JournalRecord]] = {}
    for record in standing:
        if record.head.sequence >= first_sequence:
            records.setdefault(record.head.where, []).append(record)
    last = max([first_sequence - 1, *(record.head.sequence for record in standing[-1:])])
    return Replay(
        records=records, last_sequence=last, highest_number=numbers[-1] if numbers else 0, torn_records=torn,
        unknown_loss=unknown_loss, files=tuple(files),
    )  # fmt: skip


def _known_end(needed: list[int], found: list[list[JournalRecord]], at: int) -> int | None:
    """Last sequence that file `at` must hold, as the next readable file says; None when no file says it."""
    for later in range(at + 1, len(needed)):
        if found[later] and found[later][0].head.sequence == needed[later]:
            return max(needed[at] - 1, min(found[later][0].head.durable_sequence, needed[at + 1] - 1))
    return None


def _standing(found: list[JournalRecord], number: int, end: int | None) -> tuple[list[JournalRecord], bool]:
    """(records of one file that stand, whether some that should are unreadable)."""
    durable = max((record.head.durable_sequence for record in found), default=0) if end is None else end
    kept: list[JournalRecord] = []
    lost = False
    expected = number
    for record in found:
        sequence = record.head.sequence
        if end is not None and sequence > end:
            break
        if sequence != expected:
            if expected > durable:
                break
            lost = True
        if not record.intact and sequence > durable:
            break
        kept.append(record)
        expected = sequence + 1
    return kept, lost or expected <= durable


def _read_file(file: File, number: int, seed: int) -> tuple[list[JournalRecord], bool]:
    """Every record with a good header, in order of sequence, also behind bad ones; whether the medium refused some
    bytes: it is unknown whether they were the end of what was acknowledged."""
    data, refused = read_or_zeros(file, 0, file.size())
    records: list[JournalRecord] = []
    expected = number
    at = 0
    while 0 <= at < len(data):
        head = unpack_head(data, at, seed)
        if head is None or head.sequence < expected:
            at = data.find(MAGIC, at + 1)
            continue
        intact = payload_intact(head, data, at)
        records.append(JournalRecord(head, file, at, intact))
        expected = head.sequence + 1
        at = at + head.size if intact else data.find(MAGIC, at + 1)
    return records, refused
