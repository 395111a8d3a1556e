"""One segment: its data file, its stamps file, its sparse index, and the finding of batches in them.

The stamps are the truth about what the data file holds; every stamp that leads to a batch is checked first (RL118).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from data_plane.disk import port
from data_plane.disk.port import Buffer, Disk, File, FileMissing
from data_plane.log import layout, sidecar
from data_plane.log.index import SegmentIndex, SegmentSummary, pack_index, unpack_index
from data_plane.log.outcomes import DamagedRange
from data_plane.log.readable import read_or_zeros
from data_plane.log.sidecar import BriefStamp, stamp_at
from data_plane.log.small_file import SmallFileCorrupt, read_whole, write_cache
from penstock.contract.errors import CorruptBatch
from penstock.contract.ids import TopicPartition
from penstock.records.batch import BATCH_HEADER_BYTES, BatchHeader, read_header
from penstock.records.stamp import STAMP_BYTES, Stamp, StampCorrupt, unpack_stamp

STAMPS_PER_READ_MAX = 1024
"""Bounds what one read may look at on the loop: 64 KiB of stamps."""
_STAMPS_PER_SCAN = 1024


class Unreadable(Exception):
    """Stored bytes of a range failed their checks."""

    def __init__(self, damage: DamagedRange) -> None:
        super().__init__(str(damage))
        self.damage = damage


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive batches of a segment: offsets, bytes."""

    first_offset: int
    end_offset: int
    position: int
    size: int
    stamps: bytes


class Segment:
    """Batches from `base_offset` to `end_offset`; only the newest segment of a log is written."""

    __slots__ = (
        "_abandoned", "_data", "_index", "_indexed_count", "_stamps", "base_offset", "directory", "disk", "end_offset",
        "first_accepted_ms", "first_epoch", "holds", "interval_bytes", "last_accepted_ms", "last_checksum",
        "last_epoch", "max_timestamp", "opened_ms", "seed", "size", "stamp_count", "synced_writes", "where", "writes",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: str,
        where: TopicPartition,
        seed: int,
        base_offset: int,
        interval_bytes: int,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.where = where
        self.seed = seed
        self.base_offset = self.end_offset = base_offset
        self.interval_bytes = interval_bytes
        self.size = self.stamp_count = self.first_accepted_ms = self.last_accepted_ms = self.last_checksum = 0
        self.max_timestamp = self.first_epoch = self.last_epoch = -1
        self.opened_ms: float | None = None
        """Monotonic time when it was first seen by retention; None until then (RL107)."""
        self.writes = self.synced_writes = 0
        self.holds = 0
        """Reads and syncs that use its open files now."""
        self._abandoned = False
        self._data: File | None = None
        self._stamps: File | None = None
        self._index: SegmentIndex | None = SegmentIndex(interval_bytes)
        self._indexed_count = 0

    # files

    @property
    def dirty(self) -> bool:
        """Written since it was last synced."""
        return self.writes != self.synced_writes

    def path(self, suffix: str) -> str:
        return layout.segment_file(self.directory, self.base_offset, suffix)

    @property
    def data(self) -> File:
        if self._data is None:
            self._data = self.disk.open(self.path(layout.LOG_SUFFIX), create=True)
        return self._data

    @property
    def stamps(self) -> File:
        if self._stamps is None:
            self._stamps = self.disk.open(self.path(layout.STAMPS_SUFFIX), create=True)
        return self._stamps

    def close_files(self) -> None:
        """Close unless a reader uses them or they wait for a sync (one file stays open from write to sync, RL126)."""
        if self.holds or self.dirty:
            return
        self.abandon_files()

    def abandon_files(self) -> None:
        """Close open files as soon as they are not used; only when nothing is to be synced any more."""
        if self.holds:
            self._abandoned = True
            return
        for file in (self._data, self._stamps):
            if file is not None:
                file.close()
        self._data = self._stamps = None

    def release(self) -> None:
        """One who held the files does not need them any more."""
        self.holds -= 1
        if self._abandoned and not self.holds:
            self.abandon_files()

    def remove(self, *, set_aside: bool) -> None:
        """Remove the files, or rename them to `*.damaged` for an operator to look at."""
        for suffix in (layout.LOG_SUFFIX, layout.STAMPS_SUFFIX):
            path = self.path(suffix)
            if set_aside and self.disk.exists(path):
                self.disk.rename(path, path + layout.SET_ASIDE_SUFFIX)
            else:
                self.disk.remove(path)
        self.disk.remove(self.path(layout.INDEX_SUFFIX))
        self.abandon_files()

    # writing

    def write(self, stamps: list[bytes] | list[Buffer], batches: list[Buffer]) -> None:
        """Write behind the end; `note` then takes each batch into account.

        Raises port.DiskFull after truncating to the last whole batch (RL127), or `DiskFault`.
        """
        self.writes += 1
        try:
            self.data.write_at(self.size, batches)
            if self.stamp_count:
                self.stamps.write_at(stamp_at(self.stamp_count), stamps)
            else:
                self.stamps.write_at(0, [sidecar.pack_header(self.where, self.base_offset), *stamps])
        except port.DiskFull:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Remove what was written and not noted."""
        self.writes += 1
        self.data.truncate(self.size)
        self.stamps.truncate(stamp_at(self.stamp_count) if self.stamp_count else 0)

    def note(
        self, end_offset: int, size: int, accepted_ms: int, epoch: int, max_timestamp: int, checksum: int
    ) -> None:
        """A batch stands behind the end now."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        if not self.stamp_count:
            self.first_accepted_ms = accepted_ms
            self.first_epoch = epoch
        if self._index is not None:
            self._index.note(self.end_offset, self.stamp_count, self.size, self.max_timestamp)
        self.end_offset = end_offset
        self.size += size
        self.stamp_count += 1
        self.last_accepted_ms = accepted_ms
        self.last_epoch = epoch
        self.last_checksum = checksum

    def truncate(self, number: int, position: int, end_offset: int) -> DamagedRange | None:
        """Keep the stamps below `number` (at least one) and the bytes below `position`, which belong together and end
        at `end_offset`. It is carried out whatever is found: damage of what stays is returned, None without any.
        """
        found: DamagedRange | None = None
        try:
            self.rewind(number)
        except Unreadable as error:
            found = error.damage
            self._rewind_over_damage(number)
        self.size = position
        self.end_offset = end_offset
        self.disk.remove(self.path(layout.INDEX_SUFFIX))
        self._indexed_count = 0
        self.writes += 1
        self.data.truncate(position)
        self.stamps.truncate(stamp_at(number))
        return found

    def _rewind_over_damage(self, number: int) -> None:
        """Know what the good stamps below `number` tell; the last one is bad."""
        began = self.first_accepted_ms, self.first_epoch
        self.reset()
        for at, stamp in self.good_stamps(0, number):
            try:
                highest = self._header_at(stamp.position).max_timestamp
            except CorruptBatch:
                highest = -1
            self.stamp_count = at
            self.end_offset = stamp.base_offset
            self.size = stamp.position
            self.note(stamp.end_offset, stamp.size, stamp.accepted_ms, stamp.leader_epoch, highest, 0)
        self.stamp_count = number
        self.first_accepted_ms, self.first_epoch = began

    def rewind(self, number: int) -> None:
        """Know only the stamps below `number` (at least one); the files stay as they are. Raises `Unreadable`."""
        last = self.stamp(number - 1)
        index = self.index
        index.truncate(number)
        sampled = index.numbers[-1] if index.numbers else 0
        self.max_timestamp = index.max_timestamps[-1] if index.numbers else -1
        self.stamp_count = number
        self._indexed_count = min(self._indexed_count, number - 1)
        for _, found in self.intact_stamps(sampled):
            try:
                self.max_timestamp = max(self.max_timestamp, self._header_at(found.position).max_timestamp)
            except CorruptBatch:
                continue
        self.size = last.position + last.size
        self.end_offset = last.end_offset
        self.last_accepted_ms = last.accepted_ms
        self.last_epoch = last.leader_epoch
        self.last_checksum = sidecar.checksum_of(self.stamps_block(number - 1, number))

    def reset(self) -> None:
        """Know nothing yet; what the files hold is to be checked and noted from the beginning."""
        self.end_offset = self.base_offset
        self.size = self.stamp_count = self.first_accepted_ms = self.last_accepted_ms = self.last_checksum = 0
        self.max_timestamp = self.first_epoch = self.last_epoch = -1
        self._index, self._indexed_count = SegmentIndex(self.interval_bytes), 0

    def skip_damage(self, number: int, end_offset: int, position: int) -> None:
        """Stamps up to `number` are bad: go on behind them, at `end_offset` and `position`."""
        self.stamp_count = number
        self.end_offset = end_offset
        self.size = position

    def truncation_point(self, offset: int) -> tuple[int, int, int]:
        """(stamps that stay, bytes that stay, end offset) when everything from `offset` on goes: whole batches only.

        Raises `Unreadable` when bad stamps hide where that is.
        """
        if offset <= self.base_offset:
            return 0, 0, self.base_offset
        number = self.locate(offset)
        if number == self.stamp_count:
            return number, self.size, self.end_offset
        found = self.stamp(number)
        return number, found.position, found.base_offset

    def truncation_point_before_damage(self, offset: int) -> tuple[int, int, int]:
        """As `truncation_point`, where bad stamps hide it: behind the last good one before."""
        point = (0, 0, self.base_offset)
        for number, brief in self.intact_stamps(0):
            if brief.end_offset > offset:
                break
            point = (number + 1, brief.position + brief.size, brief.end_offset)
        return point

    # index

    @property
    def index(self) -> SegmentIndex:
        """Its samples; loaded, or rebuilt from the files when the cache is missing or bad."""
        if self._index is None:
            loaded = self._load_index()
            if loaded is not None and loaded[0] == self.summary():
                self._index = loaded[1]
            else:
                self._index = self._resample()
        return self._index

    def forget_index(self) -> None:
        """Drop the samples of a closed segment from memory."""
        if self._indexed_count == self.stamp_count:
            self._index = None

    def write_index(self) -> None:
        if self._indexed_count != self.stamp_count and self.stamp_count:
            write_cache(self.disk, self.path(layout.INDEX_SUFFIX), pack_index(self.summary(), self.index))
            self._indexed_count = self.stamp_count

    @property
    def unindexed_count(self) -> int:
        """Batches that the index file does not know yet."""
        return self.stamp_count - self._indexed_count

    def summary(self) -> SegmentSummary:
        return SegmentSummary(
            base_offset=self.base_offset, end_offset=self.end_offset, size=self.size, stamp_count=self.stamp_count,
            first_accepted_ms=self.first_accepted_ms, last_accepted_ms=self.last_accepted_ms,
            max_timestamp=self.max_timestamp, first_epoch=self.first_epoch, last_epoch=self.last_epoch,
            last_checksum=self.last_checksum,
        )  # fmt: skip

    def adopt_index(self) -> bool:
        """Take over summary and samples from the index file if it covers this content, at least its beginning."""
        loaded = self._load_index()
        if loaded is None:
            return False
        summary, index = loaded
        number = summary.stamp_count
        if not number or summary.base_offset != self.base_offset:
            return False
        if self.stamps.size() < stamp_at(number) or self.data.size() < summary.size:
            return False
        block = self.stamps_block(number - 1, number)
        if not sidecar.intact(block, 0, self.seed) or sidecar.checksum_of(block) != summary.last_checksum:
            return False
        self.end_offset = summary.end_offset
        self.size = summary.size
        self.stamp_count = number
        self.first_accepted_ms = summary.first_accepted_ms
        self.last_accepted_ms = summary.last_accepted_ms
        self.max_timestamp = summary.max_timestamp
        self.last_checksum = summary.last_checksum
        self.first_epoch = summary.first_epoch
        self.last_epoch = summary.last_epoch
        self._index = index
        self._indexed_count = number
        return True

    def _load_index(self) -> tuple[SegmentSummary, SegmentIndex] | None:
        try:
            return unpack_index(read_whole(self.disk, self.path(layout.INDEX_SUFFIX)))
        except (FileMissing, SmallFileCorrupt):
            return None

    def _resample(self) -> SegmentIndex:
        index = SegmentIndex(self.interval_bytes)
        highest = -1
        for number, found in self.intact_stamps(0):
            try:
                highest = max(highest, self._header_at(found.position).max_timestamp)
            except CorruptBatch:
                continue
            index.note(found.base_offset, number, found.position, highest)
        return index

    # finding

    def stamps_block(self, first: int, end: int) -> bytes:
        """Packed stamps [first, end); fewer bytes at the end of the file. What the medium refuses is no stamp."""
        return read_or_zeros(self.stamps, stamp_at(first), (end - first) * STAMP_BYTES)[0]

    def stamp(self, number: int) -> Stamp:
        """Raises `Unreadable` when it is bad."""
        try:
            return unpack_stamp(self.stamps_block(number, number + 1), self.seed)
        except StampCorrupt:
            pass
        raise Unreadable(self.damage_at(number))

    def stamp_blocks(self, first: int, count: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(number of its first stamp, packed stamps), from stamp `first` to the end, or below number `count`."""
        while first < (self.stamp_count if count is None else count):
            end = min(first + _STAMPS_PER_SCAN, self.stamp_count if count is None else count)
            yield first, self.stamps_block(first, end)
            first = end

    def good_stamps(self, first: int, count: int | None = None) -> Iterator[tuple[int, Stamp]]:
        """(number, stamp) of every good stamp from number `first` on, below number `count`. Each is read once: what
        the medium gives now it may refuse a moment later."""
        for begin, block in self.stamp_blocks(first, count):
            for at in range(0, len(block) - STAMP_BYTES + 1, STAMP_BYTES):
                try:
                    stamp = unpack_stamp(block, self.seed, at)
                except StampCorrupt:
                    continue
                yield begin + at // STAMP_BYTES, stamp

    def intact_stamps(self, first: int) -> Iterator[tuple[int, BriefStamp]]:
        """(number, stamp) of every good stamp from number `first` on."""
        for begin, block in self.stamp_blocks(first):
            for at in range(0, len(block) - STAMP_BYTES + 1, STAMP_BYTES):
                if sidecar.intact(block, at, self.seed):
                    yield begin + at // STAMP_BYTES, sidecar.brief(block, at)

    def header_bytes(self, position: int) -> bytes:
        """The first bytes of the batch at `position`, as stored; none when the medium refuses them."""
        header, refused = read_or_zeros(self.data, position, BATCH_HEADER_BYTES)
        return b"" if refused else header

    def _header_at(self, position: int) -> BatchHeader:
        return read_header(self.header_bytes(position))

    def locate(self, offset: int) -> int:
        """Number of the first stamp that ends above `offset` (`stamp_count` when none does).

        Raises `Unreadable` when a bad stamp stands where it should be.
        """
        if offset >= self.end_offset:
            return self.stamp_count
        first, end = self.index.numbers_around(offset, self.stamp_count)
        block = self.stamps_block(first, end)
        low, high = 0, len(block) // STAMP_BYTES - 1
        while low < high:
            middle = (low + high + 1) // 2
            if sidecar.base_offset_of(block, middle * STAMP_BYTES) <= offset:
                low = middle
            else:
                high = middle - 1
        at = low * STAMP_BYTES
        if sidecar.intact(block, at, self.seed):
            found = sidecar.brief(block, at)
            if found.base_offset <= offset < found.end_offset:
                return first + low
        return self._locate_slowly(offset)

    def _locate_slowly(self, offset: int) -> int:
        """Look at every stamp: some are bad, or the samples are."""
        before = self.base_offset
        for number, found in self.intact_stamps(0):
            if found.base_offset <= offset < found.end_offset:
                return number
            if found.end_offset > offset:
                raise Unreadable(self._damaged(before, found.base_offset))
            before = found.end_offset
        raise Unreadable(self._damaged(before, self.end_offset))

    def damage_at(self, number: int) -> DamagedRange:
        """The offsets of stamp `number`, which is bad or whose batch is: those between the good stamps around it."""
        first, end = self.base_offset, self.end_offset
        for other, found in self.intact_stamps(0):
            if other > number:
                end = found.base_offset
                break
            if other < number:
                first = found.end_offset
        return self._damaged(first, end)

    def _damaged(self, first_offset: int, end_offset: int) -> DamagedRange:
        reason = f"{self.path(layout.STAMPS_SUFFIX)}: a stamp's checksum does not hold"
        return DamagedRange(first_offset, max(first_offset, end_offset), reason)

    def run(self, offset: int, end_offset: int, bytes_max: int) -> Run | None:
        """The batches from the one that holds `offset` on that end at or below `end_offset`: at least one,
        `bytes_max` or one batch at most. None when the first does not end there. Raises `Unreadable`."""
        number = self.locate(offset)
        if number == self.stamp_count:
            return None
        block = self.stamps_block(number, min(number + STAMPS_PER_READ_MAX, self.stamp_count))
        if not sidecar.intact(block, 0, self.seed):
            # The medium refuses a part of so many stamps; the one that was located may be good by itself.
            self.stamp(number)
            block = self.stamps_block(number, number + 1)
        first = sidecar.brief(block, 0)
        size, count, next_offset = 0, 0, first.base_offset
        for at in range(0, len(block), STAMP_BYTES):
            if not sidecar.intact(block, at, self.seed):
                break
            found = sidecar.brief(block, at)
            if found.position != first.position + size or found.base_offset != next_offset:
                break
            if found.end_offset > end_offset or (count and size + found.size > bytes_max):
                break
            size += found.size
            count += 1
            next_offset = found.end_offset
        if not count:
            return None
        return Run(
            first.base_offset,
            next_offset,
            first.position,
            size,
            block[: count * STAMP_BYTES],
        )

    def offset_reaching(self, timestamp_ms: int, end_offset: int) -> int | None:
        """Base offset of the first batch below `end_offset` with a timestamp at or after `timestamp_ms`.

        Reads the headers of one interval of the index. Raises `Unreadable`.
        """
        if self.max_timestamp < timestamp_ms:
            return None
        first, end = self.index.numbers_reaching(timestamp_ms, self.stamp_count)
        for number in range(first, end):
            stamp = self.stamp(number)
            if stamp.end_offset > end_offset:
                return None
            try:
                reached = number == end - 1 or self._header_at(stamp.position).max_timestamp >= timestamp_ms
            except CorruptBatch as error:
                reason = f"{self.path(layout.LOG_SUFFIX)}: {error}"
                raise Unreadable(DamagedRange(stamp.base_offset, stamp.end_offset, reason)) from None
            if reached:
                return stamp.base_offset
        return None
