"""What a log's prefix implies: producer state, odometer, leader epochs; kept as caches, rewound and rebuilt from
stamps.

A snapshot is taken at an offset and written once everything below it is committed and sealed, so nothing but a
declared loss ever truncates below a written one. It carries the checksum of the last stamp below its offset: a
snapshot of another history is recognized.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from data_plane.disk.port import Disk
from data_plane.log import layout
from data_plane.log.epochs import NO_EPOCH, LeaderEpochs
from data_plane.log.minute_marks import MinuteMarks
from data_plane.log.producers import Producers
from data_plane.log.sealing import SealFile
from data_plane.log.segment import Unreadable
from data_plane.log.segments import Segments
from data_plane.log.sidecar import checksum_of
from data_plane.log.small_file import (
    SmallFileCorrupt,
    SmallFileKind,
    pack_small_file,
    read_cache,
    write_cache,
)
from data_plane.log.start_state import NOTHING_KNOWN, StartState, read_start
from penstock.contract.invariant import InvariantBroken
from penstock.records.seal import Seal
from penstock.records.stamp import Stamp, StampFlag
from penstock.records.usage import MINUTE_MS, OdometerMark
from penstock.rules.odometer import Odometer, OdometerCorrupt

SNAPSHOT_BATCHES = 1_024
"""A checkpoint keeps a new snapshot when so many batches came since the last one: bounds what recovery folds again."""
_SNAPSHOTS_MAX = 3
FORMAT_VERSION = 1
_HEAD = struct.Struct(">qIq")
_FOLDED_AT_ONCE = 512
"""Stamps folded between two turns of the event loop: two milliseconds or so."""
_FIRST_OF_SEGMENT = int(StampFlag.FIRST_OF_SEGMENT)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the log below `offset`."""

    offset: int
    checksum: int
    """Of the last stamp below `offset`; 0 when there is none."""
    last_accepted_ms: int
    producers: Producers
    odometer: bytes
    """Encoded; empty when it is not known."""


class DerivedState:
    """The state at `offset`, and how to get back to an earlier one."""

    def __init__(self, disk: Disk, directory: str, segments: Segments, seals: SealFile) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._seals = seals
        self.epochs = LeaderEpochs()
        self.written_epoch = NO_EPOCH
        """The last one, if the file has it, so that a batch looks nowhere else. A leader's epoch is written with its
        first batch: a broker that becomes leader of a thousand partitions at once has no time for a thousand files."""
        self.producers = Producers()
        self.odometer: Odometer | None = None
        """None: the totals below are not known (a replica that began above offset 0 without them)."""
        self.last_accepted_ms = 0
        self.offset = 0
        self.minute_marks = MinuteMarks()
        self._minute_end_ms = 0
        """Where the minute of the last batch ends; 0: not known, look at the next batch."""
        self._folded = 0
        self._snapshots: list[Snapshot] = []
        self._written_offset = -1
        self._start = NOTHING_KNOWN
        self.drafts: list[Seal] = []
        """Seals without digest of segments that a fold closed, for sealing to take."""

    def begin_at(self, offset: int, start: StartState = NOTHING_KNOWN) -> None:
        """The log is empty and begins at `offset`, with what is known of everything below. The caller forgets its old
        snapshots."""
        self._start = start
        self.producers = start.table(offset)
        self.odometer = start.totals(offset, self._segments.seed)
        self.last_accepted_ms = self._accepted_below()
        self.offset = offset
        self.minute_marks = MinuteMarks()
        self._minute_end_ms = 0
        self._folded = 0

    def _accepted_below(self) -> int:
        """Acceptance of the last batch that was counted, 0 when that is not known: stamps never decrease."""
        return 0 if self.odometer is None else max(0, self.odometer.last_accepted_ms)

    # folding

    def apply(self, stamp: Stamp) -> None:
        """Count the next batch."""
        self.producers.apply(
            stamp.producer_id, stamp.producer_epoch, stamp.base_sequence, stamp.offset_span, stamp.base_offset,
            stamp.accepted_ms,
        )  # fmt: skip
        odometer = self.odometer
        if odometer is not None:
            if stamp.accepted_ms >= self._minute_end_ms:
                self._minute_passed(odometer, stamp)
            odometer.apply(stamp)
        self.last_accepted_ms = stamp.accepted_ms
        self.offset = stamp.end_offset
        self._folded += 1

    def _minute_passed(self, odometer: Odometer, stamp: Stamp) -> None:
        """`stamp` may begin a later minute than the batch before it: keep what was counted so far."""
        minute_ms = stamp.accepted_ms // MINUTE_MS * MINUTE_MS
        self._minute_end_ms = minute_ms + MINUTE_MS
        if 0 <= odometer.last_accepted_ms < minute_ms:
            self.minute_marks.add(odometer.mark(), stamp.end_offset)

    def draft(self) -> Seal | None:
        """The seal of the segment that ends here, without its digest. Ask before the next segment's first batch."""
        if self.odometer is None or not self.odometer.batch_count:
            return None
        return self.odometer.seal(self._segments.where, bytes(32))

    def rewind(self, end_offset: int) -> None:
        """The log was truncated: the state at `end_offset`."""
        if self._written_offset > end_offset:
            self.forget_snapshots()
        self.rebuild(end_offset)

    def rebuild(self, end_offset: int, unsealed: tuple[int, int] | None = None) -> None:
        """Fold to `end_offset` from the best snapshot below it, or from the log's first batch.

        `unsealed`: base and end of a closed segment from which on seals are missing; their drafts are made again.
        Where a stamp is bad the totals are not known, and the producers are those of the good stamps.
        """
        self._snapshots = [snapshot for snapshot in self._snapshots if snapshot.offset <= end_offset]
        self._folded = 0
        self.drafts.clear()
        self.minute_marks.truncate(end_offset)
        self._minute_end_ms = 0
        first = self._segments.all[0].base_offset if self._segments.all else end_offset
        if self._snapshots:
            snapshot = self._snapshots[-1]
            self.producers = snapshot.producers.copy()
            self.last_accepted_ms = snapshot.last_accepted_ms
            self.odometer, at = self._decoded(snapshot.odometer), snapshot.offset
        else:
            self.producers = self._start.table(first)
            self.odometer, at = self._totals_at(first), first
            self.last_accepted_ms = self._accepted_below()
        producers_from = self.offset = at
        if unsealed is not None and at > unsealed[1]:
            self.odometer, self.offset = self._totals_at(unsealed[0]), unsealed[0]
            if self.odometer is None:
                self.odometer, self.offset = self._totals_at(first), first
        try:
            self._fold(end_offset, producers_from)
        except Unreadable:
            self.odometer = None
            self.drafts.clear()
            self._fold_good(producers_from, end_offset)

    def _fold(self, end_offset: int, producers_from: int) -> None:
        for stamp in self._segments.stamps_from(self.offset):
            if stamp.base_offset >= end_offset:
                break
            if stamp.flags & _FIRST_OF_SEGMENT:
                draft = self.draft()
                if draft is not None and draft.end_offset == stamp.base_offset:
                    self.drafts.append(draft)
            if self.odometer is not None and stamp.base_offset != self.odometer.end_offset:
                self.odometer = None  # batches are missing: damage
            if stamp.base_offset >= producers_from:
                self.apply(stamp)
            elif self.odometer is not None:
                self.odometer.apply(stamp)

    def fold_to(self, end_offset: int) -> Iterator[OdometerMark | None]:
        """What the odometer said at `end_offset`, the end of a batch: None after each few stamps folded, then the mark.

        Nothing when the totals there are not known. Raises `Unreadable`. The log may grow meanwhile, and must not be
        truncated or lose its beginning.
        """
        segments = self._segments
        odometer = None
        for snapshot in self._snapshots:
            if snapshot.offset <= end_offset:
                odometer = self._decoded(snapshot.odometer)
        number = segments.at(end_offset - 1)
        if number >= 0 and (odometer is None or odometer.end_offset < segments.all[number].base_offset):
            odometer = self._totals_at(segments.all[number].base_offset) or odometer
        if odometer is None:
            first = segments.all[0].base_offset if segments.all else end_offset
            odometer = self._totals_at(min(first, end_offset))
        if odometer is None:
            return
        if odometer.end_offset == end_offset:
            yield odometer.mark()
            return
        for number, stamp in enumerate(segments.stamps_from(odometer.end_offset), 1):
            if stamp.base_offset >= end_offset:
                break
            if stamp.base_offset != odometer.end_offset:
                return
            odometer.apply(stamp)
            if number % _FOLDED_AT_ONCE == 0:
                yield None
        if odometer.end_offset == end_offset:
            yield odometer.mark()

    def _fold_good(self, producers_from: int, end_offset: int) -> None:
        for segment in self._segments.all:
            if segment.end_offset <= producers_from:
                continue
            for _, stamp in segment.good_stamps(0):
                if producers_from <= stamp.base_offset < end_offset:
                    self.apply(stamp)
        self.offset = end_offset

    def _totals_at(self, base_offset: int) -> Odometer | None:
        """The totals where a segment begins, as the seals before it tell; None when they do not."""
        known = self._start.totals(base_offset, self._segments.seed)
        if known is not None:
            return known
        before = takewhile(lambda seal: seal.end_offset <= base_offset, self._seals.read_all()[0])
        seals = list(before)
        return Odometer.resumed(seals) if seals and seals[-1].end_offset == base_offset else None

    def state_at_start(self) -> StartState:
        """For a replica that starts over where the first segment begins."""
        segments = self._segments
        offset = segments.all[0].base_offset if segments.all else self.offset
        odometer = self._totals_at(offset) if segments.all else self.odometer
        return StartState(
            offset=offset,
            odometer=b"" if odometer is None else odometer.encode(segments.seed),
            producers=self.producers.below(offset).pack(),
        )

    def _encoded(self) -> bytes:
        return b"" if self.odometer is None else self.odometer.encode(self._segments.seed)

    def _decoded(self, data: bytes) -> Odometer | None:
        return Odometer.decode(data, self._segments.seed) if data else None

    # snapshots

    def keep_snapshot(self, *, even_if_small: bool) -> None:
        """Remember the present state, if enough came since the last time."""
        newest = self._snapshots[-1].offset if self._snapshots else -1
        if self.offset <= newest or (self._folded < SNAPSHOT_BATCHES and not even_if_small):
            return
        active = self._segments.active
        checksum = active.last_checksum if active is not None and active.stamp_count else 0
        self._snapshots.append(
            Snapshot(self.offset, checksum, self.last_accepted_ms, self.producers.copy(), self._encoded())
        )
        self._folded = 0
        while len(self._snapshots) > _SNAPSHOTS_MAX:
            del self._snapshots[1]

    def write_snapshot(self, settled_offset: int) -> None:
        """Write the newest snapshot at or below `settled_offset` (committed and sealed); older ones are not needed
        then."""
        for at in range(len(self._snapshots) - 1, -1, -1):
            snapshot = self._snapshots[at]
            if snapshot.offset <= settled_offset:
                if snapshot.offset > self._written_offset:
                    self._write(snapshot)
                del self._snapshots[:at]
                return

    def _write(self, snapshot: Snapshot) -> None:
        head = _HEAD.pack(snapshot.offset, snapshot.checksum, snapshot.last_accepted_ms)
        for name, kind, body in (
            (layout.PRODUCERS_FILE, SmallFileKind.PRODUCERS, snapshot.producers.pack()),
            (layout.ODOMETER_FILE, SmallFileKind.ODOMETER, snapshot.odometer),
        ):
            write_cache(
                self._disk, f"{self._directory}/{name}", pack_small_file(kind, FORMAT_VERSION, head + body)
            )
        self._written_offset = snapshot.offset

    def load_snapshot(self, log_end: int, names: Sequence[str]) -> list[str]:
        """Read what is known of the log's start, and the written snapshot, if there is one among the directory's files;
        names of the caches that are bad or do not belong to this log."""
        if layout.START_FILE in names:
            self._start = read_start(self._disk, self._directory)
        if layout.PRODUCERS_FILE not in names and layout.ODOMETER_FILE not in names:
            return []
        producers = self._read(layout.PRODUCERS_FILE, SmallFileKind.PRODUCERS)
        odometer = self._read(layout.ODOMETER_FILE, SmallFileKind.ODOMETER)
        bad = [name for name, found in (("producers", producers), ("odometer", odometer)) if found is None]
        if producers is None or odometer is None or producers[0] != odometer[0]:
            return bad or ["producers", "odometer"]
        offset, checksum, last_accepted_ms = producers[0]
        try:
            snapshot = Snapshot(
                offset, checksum, last_accepted_ms, Producers.unpack(producers[1]), odometer[1]
            )
            self._decoded(odometer[1])
        except SmallFileCorrupt:
            return ["producers"]
        except (OdometerCorrupt, InvariantBroken):
            return ["odometer"]
        if not self._belongs(offset, checksum, log_end):
            return ["producers", "odometer"]
        self._snapshots = [snapshot]
        self._written_offset = offset
        return []

    def forget_snapshots(self) -> None:
        """The written ones belong to another history now."""
        for name in (layout.PRODUCERS_FILE, layout.ODOMETER_FILE):
            self._disk.remove(f"{self._directory}/{name}")
        self._segments.name_changes += 1
        self._snapshots.clear()
        self._written_offset = -1

    def _read(self, name: str, kind: SmallFileKind) -> tuple[tuple[int, int, int], bytes] | None:
        body = read_cache(self._disk, f"{self._directory}/{name}", kind, FORMAT_VERSION)
        if body is None or len(body) < _HEAD.size:
            return None
        return _HEAD.unpack_from(body), body[_HEAD.size :]

    def _belongs(self, offset: int, checksum: int, log_end: int) -> bool:
        """A snapshot at `offset` belongs to this log: the stamp that ends there has that checksum.

        Where the log begins there is no such stamp; what was committed below is the same in every history.
        """
        segments = self._segments
        first = segments.all[0].base_offset if segments.all else log_end
        if not first < offset <= log_end:
            return offset == first
        segment = segments.all[segments.at(offset - 1)]
        try:
            number = segment.locate(offset - 1)
            stamp = segment.stamp(number)
        except Unreadable:
            return False
        return (
            stamp.end_offset == offset and checksum_of(segment.stamps_block(number, number + 1)) == checksum
        )

    # epochs

    def write_epochs(self) -> None:
        write_cache(self._disk, f"{self._directory}/{layout.EPOCHS_FILE}", self.epochs.pack())
        self.written_epoch = self.epochs.last

    def write_new_epochs(self) -> None:
        """If the last one has begun since."""
        if self.written_epoch != self.epochs.last:
            self.write_epochs()
